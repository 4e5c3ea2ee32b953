//! Workflows and archives of releases.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::Value;
use tokio::process::Command;
use vmcp_tests::counterparts::{actionlint, gateway_program, skipped};

use super::support::root;

fn workflow(name: &str) -> String {
    fs::read_to_string(root().join(".github/workflows").join(name)).unwrap()
}

#[tokio::test]
async fn workflows_pass_linter() {
    if skipped() {
        return;
    }
    let Some(linter) = actionlint().await.unwrap() else { return };
    let output = Command::new(linter).current_dir(root()).output().await.unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{printed}{complained}");
}

/// Returns the metadata of both programs' packages.
async fn packages() -> Vec<Value> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--format-version", "1", "--no-deps", "--offline"]);
    let output = cargo.current_dir(root()).output().await.unwrap();
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let all = metadata["packages"].as_array().unwrap().iter();
    let is_program =
        |package: &&Value| package["name"] == "vmcp" || package["name"] == "vmcp-operator";
    all.filter(is_program).cloned().collect()
}

/// Fills in the placeholders of `cargo binstall`.
fn expand(template: &Value, package: &Value, target: &str) -> String {
    let text = |field: &str| package[field].as_str().unwrap();
    let template = template.as_str().unwrap();
    [
        ("{ repo }", text("repository")),
        ("{ name }", text("name")),
        ("{ bin }", text("name")),
        ("{ version }", text("version")),
        ("{ target }", target),
    ]
    .iter()
    .fold(template.to_owned(), |text, (name, value)| text.replace(name, value))
}

#[tokio::test]
async fn binstall_finds_program_in_archive() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("archives");
    _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    let released = ["x86_64-unknown-linux-musl", "aarch64-unknown-linux-musl"];
    for target in released {
        assert!(workflow("release.yml").contains(&format!("- target: {target}\n")));
    }
    for package in packages().await {
        let name = package["name"].as_str().unwrap();
        let binstall = &package["metadata"]["binstall"];
        let program = folder.join(name);
        // A program that prints its arguments instead of completions.
        fs::copy("/bin/echo", &program).unwrap();
        for target in released {
            let script = root().join("tests/tools/archive.sh");
            let mut command = Command::new("bash");
            command.arg(script).arg(&program).arg(target).arg(&folder);
            let output = command.output().await.unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            let archive = String::from_utf8(output.stdout).unwrap().trim().to_owned();
            let mut tar = Command::new("tar");
            let listed = tar.arg("--list").arg("--file").arg(folder.join(&archive)).output();
            let listed = String::from_utf8(listed.await.unwrap().stdout).unwrap();
            // Users of a system with glibc get the same, static program.
            let gnu = target.replace("musl", "gnu");
            let other = &binstall["overrides"][&gnu];
            for (settings, target) in [(binstall, target), (other, &gnu)] {
                let url = expand(&settings["pkg-url"], &package, target);
                let tag = format!(
                    "/releases/download/v{}/{archive}",
                    package["version"].as_str().unwrap()
                );
                assert!(url.ends_with(&tag), "{url}");
                let program = expand(&settings["bin-dir"], &package, target);
                assert!(listed.lines().any(|line| line == program), "{program}: {listed}");
            }
        }
    }
}

#[tokio::test]
async fn archive_has_completions_and_checksum() {
    if skipped() {
        return;
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("archive");
    _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    // A script that runs the program: to pack a debug build takes long.
    let program = folder.join("vmcp");
    let script = format!("#!/bin/sh\nexec {} \"$@\"\n", gateway_program().await.unwrap().display());
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let mut archives = Vec::new();
    for output in ["first", "second"] {
        let mut command = Command::new("bash");
        command.arg(root().join("tests/tools/archive.sh")).arg(&program);
        let output_folder = folder.join(output);
        let output =
            command.arg("x86_64-unknown-linux-musl").arg(&output_folder).output().await.unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let name = String::from_utf8(output.stdout).unwrap().trim().to_owned();
        let mut check = Command::new("sha256sum");
        check
            .args(["--check", "--strict"])
            .arg(format!("{name}.sha256"))
            .current_dir(&output_folder);
        assert!(check.output().await.unwrap().status.success());
        archives.push(fs::read(output_folder.join(name)).unwrap());
    }
    assert!(archives[0] == archives[1], "equal programs give equal archives");
    let mut tar = Command::new("tar");
    let version = env!("CARGO_PKG_VERSION");
    let file = folder.join(format!("first/vmcp-{version}-x86_64-unknown-linux-musl.tar.gz"));
    let listed = tar.arg("--list").arg("--file").arg(file).output().await.unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    for name in
        ["LICENSE", "CHANGELOG.md", "README.md", "completions/vmcp.bash", "completions/vmcp.zsh"]
    {
        assert!(listed.lines().any(|line| line.ends_with(&format!("/{name}"))), "{name}: {listed}");
    }
}

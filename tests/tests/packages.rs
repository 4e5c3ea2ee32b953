//! The published form of the layers: programs outside of the workspace, each with one layer, are built against the
//! output of `cargo package`, and run.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Programs in `examples/standalone`, each with the expected output.
const PROGRAMS: &[(&str, &str)] = &[
    ("audit", "HttpRequest: Success\n"),
    ("authn", "hello alice; nobody: 401\n"),
    (
        "authz",
        concat!(
            "weather: called\n",
            r#"deploy: {"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"unknown tool: deploy"}}"#,
            "\n",
        ),
    ),
    ("aws-sts", "signed: AWS4-HMAC-SHA256 Credential=ASIAEXAMPLE\n"),
    ("breaker", "first 502, then open: true\n"),
    ("decode", "asked for: ping\n200\n400\n"),
    ("header-injection", "x-api-key: s3cr3t\n"),
    ("telemetry", "requests are counted: true\n"),
    ("timeout", "elapsed: true\n"),
    ("token-exchange", "authorization: Bearer fresh\n"),
];

/// Profile settings of the workspace, so that cargo reuses its builds of the dependencies.
const PROFILE: &str =
    "[profile.dev]\ndebug = \"line-tables-only\"\n\n[profile.dev.package.\"*\"]\ndebug = false\n";

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// Runs a command and returns its output.
fn output(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{command:?}\n{said}");
    String::from_utf8(output.stdout).unwrap()
}

fn cargo(folder: &Path) -> Command {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(folder);
    cargo
}

struct Workspace {
    target: PathBuf,
    /// Returns name and version of each package below `layers/`.
    layers: Vec<(String, String)>,
}

fn workspace() -> Workspace {
    let arguments = ["metadata", "--format-version", "1", "--no-deps", "--offline"];
    let metadata: Value = serde_json::from_str(&output(cargo(root()).args(arguments))).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let is_layer = |package: &&Value| {
        let manifest = PathBuf::from(text(&package["manifest_path"]));
        manifest.ancestors().nth(2).is_some_and(|folder| folder.ends_with("layers"))
    };
    let packages = metadata["packages"].as_array().unwrap().iter().filter(is_layer);
    Workspace {
        target: text(&metadata["target_directory"]).into(),
        layers: packages.map(|of| (text(&of["name"]), text(&of["version"]))).collect(),
    }
}

/// Packages all layers and unpacks them into `to`.
fn packaged(workspace: &Workspace, to: &Path) {
    let mut cargo = cargo(root());
    cargo.args(["package", "--quiet", "--offline", "--allow-dirty", "--no-verify"]);
    cargo.arg("--exclude-lockfile");
    for (name, _) in &workspace.layers {
        cargo.args(["-p", name]);
    }
    output(&mut cargo);
    for (name, version) in &workspace.layers {
        let archive = workspace.target.join("package").join(format!("{name}-{version}.crate"));
        // With the current time: the archive's times are constant, so cargo would not detect a change.
        output(Command::new("tar").arg("-xzmf").arg(archive).arg("-C").arg(to));
        let folder = to.join(format!("{name}-{version}"));
        for file in ["README.md", "LICENSE", "Cargo.toml", "src/lib.rs"] {
            let text = fs::read_to_string(folder.join(file)).unwrap_or_default();
            assert!(!text.is_empty(), "the package {name} has no {file}");
        }
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

#[test]
fn single_layer_programs_run_on_packages_alone() {
    let workspace = workspace();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("standalone");
    _ = fs::remove_dir_all(&folder);
    let packages = folder.join("packages");
    fs::create_dir_all(&packages).unwrap();
    packaged(&workspace, &packages);

    let mut config = PROFILE.to_owned();
    config.push_str("\n[patch.crates-io]\n");
    for (name, version) in &workspace.layers {
        let path = packages.join(format!("{name}-{version}"));
        writeln!(config, "{name} = {{ path = {path:?} }}").unwrap();
    }
    fs::create_dir(folder.join(".cargo")).unwrap();
    fs::write(folder.join(".cargo/config.toml"), config).unwrap();

    for (program, says) in PROGRAMS {
        let program = folder.join(program);
        let name = program.file_name().unwrap();
        copy(&root().join("examples/standalone").join(name), &program);
        // The versions of dependencies that the workspace is tested with.
        fs::copy(root().join("Cargo.lock"), program.join("Cargo.lock")).unwrap();
        let mut cargo = cargo(&program);
        cargo.args(["run", "--quiet", "--offline", "--target-dir"]).arg(&workspace.target);
        assert_eq!(output(&mut cargo), *says, "{}", program.display());
    }
}

#[test]
fn every_program_is_run() {
    let folder = fs::read_dir(root().join("examples/standalone")).unwrap();
    let found: BTreeSet<_> =
        folder.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    let run: BTreeSet<_> = PROGRAMS.iter().map(|(program, _)| (*program).to_owned()).collect();
    assert_eq!(found, run);
}

//! Commands that need no cluster.

mod check;
mod import;
mod install;
mod limits;
mod render;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

/// Output of a command.
pub(crate) struct Output {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs the binary with arguments and a standard input.
pub(crate) fn run(arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_vmcp-operator"))
        .args(arguments)
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A command that refuses its input ends before it has read all.
    _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    Output {
        code: output.status.code().unwrap(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Returns the path of a manifest of the tests.
pub(crate) fn manifest(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/manifests");
    folder.join(name).to_str().unwrap().to_owned()
}

/// Returns an empty directory.
pub(crate) fn directory(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("command").join(name);
    _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).unwrap();
    path
}

pub(crate) fn documents(yaml: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(yaml).unwrap()
}

#[test]
fn help_names_all_subcommands() {
    let output = run(&[], "");
    assert_eq!(output.code, 2);
    for name in ["run", "render", "check", "import", "install"] {
        assert!(output.stderr.contains(&format!("\n  {name}")), "{name}: {}", output.stderr);
    }
}

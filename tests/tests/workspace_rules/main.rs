//! Repository rules that neither the compiler nor Clippy checks: dependencies, file lengths, contents of crates. Each
//! message names the file that breaks the rule.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod crate_table;
mod documents;
mod features;
mod file_length;
mod machine_specifics;
mod manifests;
mod module_circles;
mod panics;
mod prose;
mod test_names;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Generated directories, and that of the version control system.
const SKIPPED: &[&str] =
    &[".git", "target", "node_modules", ".venv", "__pycache__", "corpus", "artifacts"];

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// Returns the packages of the workspace.
fn packages() -> Vec<Value> {
    metadata(&["--no-deps"])
}

/// Returns the packages that `cargo metadata` lists with these arguments.
fn metadata(arguments: &[&str]) -> Vec<Value> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--offline"])
        .args(arguments)
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    metadata["packages"].as_array().unwrap().clone()
}

/// Collects all hand-written files below a directory, with paths relative to the workspace root.
fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name();
        if SKIPPED.iter().any(|skipped| name == *skipped) {
            continue;
        }
        if entry.file_type().unwrap().is_dir() {
            files(&entry.path(), found);
        } else {
            found.push(entry.path().strip_prefix(root()).unwrap().to_owned());
        }
    }
}

/// Returns the text files. Skips binary files and files that a build removes meanwhile.
fn texts() -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    files(root(), &mut found);
    let read = |path: PathBuf| Some((fs::read_to_string(root().join(&path)).ok()?, path));
    found.into_iter().filter_map(read).map(|(text, path)| (path, text)).collect()
}

fn rust_files() -> impl Iterator<Item = (PathBuf, String)> {
    texts().into_iter().filter(|(path, _)| path.extension().is_some_and(|ending| ending == "rs"))
}

/// Returns `true` if a whole file is test code: an integration test, a `tests` module, a shared `testing` module, a fuzz
/// target.
fn is_test(path: &Path) -> bool {
    let inside = path.strip_prefix("tests/bench").or(path.strip_prefix("tests")).unwrap_or(path);
    let names = ["tests", "tests.rs", "testing.rs", "fuzz"];
    inside.iter().any(|part| names.iter().any(|name| part == *name))
}

/// Returns a file's lines up to its test module.
fn without_tests(text: &str) -> Vec<&str> {
    let lines: Vec<_> = text.lines().collect();
    let begins_tests = |pair: &[&str]| {
        pair[0].trim() == "#[cfg(test)]" && pair[1].starts_with("mod ") && pair[1].ends_with('{')
    };
    let end = lines.windows(2).position(begins_tests).unwrap_or(lines.len());
    lines[..end].to_vec()
}

fn assert_none(broken: &[String], rule: &str) {
    assert!(broken.is_empty(), "{rule}:\n{}", broken.join("\n"));
}

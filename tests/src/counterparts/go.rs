//! Programs and definitions of other projects that the Go module proxy has.
//!
//! Without Go these tests say that they were skipped, unless the program is installed already.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use serde_json::Value;

use super::install::{install, once, run};
use super::{TestError, tools_dir};

/// Returns Helm, built on first use. `None` on a machine without Go and Helm.
///
/// # Errors
/// Returns an error if the build fails, or the module proxy cannot be reached.
pub(super) async fn helm() -> Result<Option<PathBuf>, TestError> {
    static DONE: OnceLock<Result<Option<PathBuf>, String>> = OnceLock::new();
    once(&DONE, || program("helm")).await
}

/// Returns the linter of workflows, built on first use. `None` on a machine without Go and the linter.
///
/// # Errors
/// Returns an error if the build fails, or the module proxy cannot be reached.
pub async fn actionlint() -> Result<Option<PathBuf>, TestError> {
    static DONE: OnceLock<Result<Option<PathBuf>, String>> = OnceLock::new();
    once(&DONE, || program("actionlint")).await
}

/// Returns the text of a file of a module in `definitions.txt`, such as a custom resource definition. `None` on a machine
/// without Go.
///
/// # Errors
/// Returns an error if the module cannot be downloaded, or has no such file.
pub async fn definition(module: &str, file: &str) -> Result<Option<String>, TestError> {
    if !is_installed("go") {
        return Ok(None);
    }
    let list = fs::read_to_string(tools_dir().join("go/definitions.txt"))?;
    let pinned = list.lines().find(|line| line.split('@').next() == Some(module));
    let pinned = pinned.ok_or_else(|| format!("{module} is not in definitions.txt"))?.to_owned();
    let folder = tokio::task::spawn_blocking(move || download(&pinned)).await??;
    Ok(Some(fs::read_to_string(folder.join(file))?))
}

/// Returns the directory of a module in Go's cache.
fn download(pinned: &str) -> Result<PathBuf, TestError> {
    let output = Command::new("go")
        .args(["mod", "download", "-json", pinned])
        .current_dir(std::env::temp_dir())
        .output()?;
    let module: Value = serde_json::from_slice(&output.stdout)?;
    match (module["Dir"].as_str(), module["Error"].as_str()) {
        (Some(folder), None) => Ok(folder.into()),
        (_, error) => Err(format!("{pinned}: {}", error.unwrap_or_default()).into()),
    }
}

fn program(name: &str) -> Result<Option<PathBuf>, TestError> {
    if !is_installed("go") {
        if is_installed(name) {
            return Ok(Some(name.into()));
        }
        eprintln!("skipped: neither Go nor {name} is installed");
        return Ok(None);
    }
    let from = tools_dir().join("go");
    let list = format!("{name}.txt");
    let root = install(name, &from, &[&list], |root| {
        let pinned = fs::read_to_string(from.join(&list))?;
        let mut go = Command::new("go");
        go.args(["install", "-trimpath", pinned.trim()]);
        run(go.env("GOBIN", root).current_dir(root))
    })?;
    Ok(Some(Path::new(&root).join(name)))
}

fn is_installed(name: &str) -> bool {
    // Helm and Go have a subcommand, actionlint an option; each of them ends with an error for the other one, but starts.
    Command::new(name).arg("version").output().is_ok()
}

//! Programs of the workspace: that beside the running test, rebuilt if a source is newer.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::SystemTime;
use std::{env, fs};

use super::{TestError, profile_dir, scratch_dir};

/// Returns the program of the package `vmcp`; `VMCP_BIN` names another build.
///
/// # Errors
/// Returns an error if the program cannot be built.
pub async fn gateway_program() -> Result<PathBuf, TestError> {
    static DONE: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    once(&DONE, "vmcp", "VMCP_BIN").await
}

/// Returns the program of the package `vmcp-operator`; `VMCP_OPERATOR_BINARY` names another build.
///
/// # Errors
/// Returns an error if the program cannot be built.
pub async fn operator_program() -> Result<PathBuf, TestError> {
    static DONE: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    once(&DONE, "vmcp-operator", "VMCP_OPERATOR_BINARY").await
}

async fn once(
    done: &'static OnceLock<Result<PathBuf, String>>,
    package: &'static str,
    variable: &'static str,
) -> Result<PathBuf, TestError> {
    let found = move || {
        done.get_or_init(|| find(package, variable).map_err(|fault| fault.to_string())).clone()
    };
    Ok(tokio::task::spawn_blocking(found).await??)
}

fn find(package: &str, variable: &str) -> Result<PathBuf, TestError> {
    if let Some(program) = env::var_os(variable) {
        return Ok(program.into());
    }
    let profile = profile_dir()?;
    let program = profile.join(package);
    // The lock keeps two test programs from building concurrently.
    let guard = fs::File::create(scratch_dir()?.join(format!("{package}.lock")))?;
    guard.lock()?;
    if !is_fresh(&program).unwrap_or(false) || !has_features(&program, package) {
        build(package, &profile)?;
    }
    Ok(program)
}

/// Returns the optional features of a package that tests need. A build of the workspace has them.
fn features(package: &str) -> Option<&'static str> {
    (package == "vmcp").then_some("kubernetes")
}

/// Returns `true` if the program was built with the features that tests need.
fn has_features(program: &Path, package: &str) -> bool {
    features(package).is_none_or(|feature| {
        let output = std::process::Command::new(program).args(["version", "-o", "json"]).output();
        let version = output.ok().and_then(|output| serde_json::from_slice(&output.stdout).ok());
        let version: serde_json::Value = version.unwrap_or_default();
        version["features"].as_array().is_some_and(|all| all.contains(&feature.into()))
    })
}

/// Returns `true` if the program is newer than every source in its dependency file.
fn is_fresh(program: &Path) -> Option<bool> {
    let built = modified(program)?;
    let listed = fs::read_to_string(program.with_extension("d")).ok()?;
    let (_, sources) = listed.split_once(": ")?;
    // Spaces within a path are escaped; such a path is not found, and the program counts as stale.
    let fresh = |source| modified(Path::new(source)).is_some_and(|changed| changed <= built);
    Some(sources.split_whitespace().all(fresh))
}

fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|data| data.modified()).ok()
}

fn build(package: &str, profile: &Path) -> Result<(), TestError> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = std::process::Command::new(cargo);
    command
        .args(["build", "--package", package, "--bin", package])
        .args(features(package).into_iter().flat_map(|feature| ["--features", feature]))
        .current_dir(env!("CARGO_MANIFEST_DIR"));
    if profile.ends_with("release") {
        command.arg("--release");
    }
    if let Some(target) = profile.parent() {
        command.arg("--target-dir").arg(target);
    }
    let out = command.output()?;
    if out.status.success() {
        return Ok(());
    }
    Err(format!("{package} does not build:\n{}", String::from_utf8_lossy(&out.stderr)).into())
}

//! Validation of documents against the schemas of other projects.

use std::path::Path;

use tokio::process::Command;

use super::TestError;
use super::install::{bill_validator, manifest_validator};

/// Validates all objects in files of YAML. Unknown fields are errors. Returns a line for each object.
///
/// # Errors
/// Returns the validator's output if an object is invalid, or an error if the installation fails.
pub async fn validate_manifests(
    release: &str,
    files: &[impl AsRef<Path>],
) -> Result<Vec<String>, TestError> {
    let python = manifest_validator().await?;
    let mut command = Command::new(python.interpreter());
    command.args(["-m", "kubernetes_validate", "--strict", "--kubernetes-version", release]);
    let output = command.args(files.iter().map(AsRef::as_ref)).output().await?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let printed = text(&output.stdout);
    if !output.status.success() {
        return Err(format!("{printed}{}", text(&output.stderr)).into());
    }
    Ok(printed.lines().map(str::to_owned).collect())
}

/// Validates bills of materials against the schema of CycloneDX.
///
/// # Errors
/// Returns the validator's output if a bill is invalid, or an error if the installation fails.
pub async fn validate_bills(files: &[impl AsRef<Path>]) -> Result<(), TestError> {
    let python = bill_validator().await?;
    let mut command = Command::new(python.interpreter());
    command.arg(python.script("validate_sbom.py"));
    let output = command.args(files.iter().map(AsRef::as_ref)).output().await?;
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&output.stderr).into_owned().into())
}

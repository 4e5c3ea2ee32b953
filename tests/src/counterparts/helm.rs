//! Helm, without a cluster.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tokio::process::Command;

use super::{TestError, folder, go};

/// Helm, with directories of its own.
#[derive(Debug, Clone)]
pub struct Helm {
    program: PathBuf,
    folder: PathBuf,
    kinds: Vec<String>,
}

/// Name and namespace of a release.
#[derive(Debug, Clone, Copy)]
pub struct Release<'a> {
    /// Name of the release.
    pub name: &'a str,
    /// Its namespace.
    pub namespace: &'a str,
}

impl Helm {
    /// Returns Helm. `None` on a machine without Helm and Go.
    ///
    /// # Errors
    /// Returns an error if the installation fails.
    pub async fn find() -> Result<Option<Self>, TestError> {
        let Some(program) = go::helm().await? else { return Ok(None) };
        Ok(Some(Self { program, folder: folder("helm")?, kinds: Vec::new() }))
    }

    /// Renders for a cluster with a further kind, such as `group/v1/Kind`.
    #[must_use]
    pub fn with_kind(mut self, kind: &str) -> Self {
        self.kinds.push(kind.to_owned());
        self
    }

    /// Lints a chart; warnings are errors.
    ///
    /// # Errors
    /// Returns the linter's output.
    pub async fn lint(&self, chart: &Path, values: &Value) -> Result<(), TestError> {
        let mut command = Command::new(&self.program);
        command.args(["lint", "--strict"]).arg(chart).arg("-f").arg(write(values)?);
        self.output(&mut command).await?;
        Ok(())
    }

    /// Renders a chart. Returns its manifests.
    ///
    /// # Errors
    /// Returns the message if the chart refuses the values.
    pub async fn template(
        &self,
        chart: &Path,
        release: Release<'_>,
        values: &Value,
    ) -> Result<String, TestError> {
        let mut command = Command::new(&self.program);
        command.args(["template", release.name, "-n", release.namespace]).arg(chart);
        command.args(self.kinds.iter().flat_map(|kind| ["--api-versions", kind]));
        command.arg("-f").arg(write(values)?);
        self.output(&mut command).await
    }

    /// Returns the notes that an installation of a chart prints.
    ///
    /// # Errors
    /// Returns the message if the chart refuses the values.
    pub async fn notes(
        &self,
        chart: &Path,
        release: Release<'_>,
        values: &Value,
    ) -> Result<String, TestError> {
        let mut command = Command::new(&self.program);
        command.args(["install", release.name, "-n", release.namespace, "--dry-run=client"]);
        command.arg(chart).arg("-f").arg(write(values)?);
        let printed = self.output(&mut command).await?;
        let (_, notes) = printed.split_once("\nNOTES:\n").ok_or("helm install printed no notes")?;
        Ok(notes.to_owned())
    }

    /// Packages a chart. Returns the archive.
    ///
    /// # Errors
    /// Returns the message of Helm.
    pub async fn package(&self, chart: &Path) -> Result<PathBuf, TestError> {
        let folder = folder("package")?;
        let mut command = Command::new(&self.program);
        command.arg("package").arg(chart).arg("-d").arg(&folder);
        self.output(&mut command).await?;
        let archive = fs::read_dir(&folder)?.next().ok_or("helm package wrote no archive")??;
        Ok(archive.path())
    }

    async fn output(&self, command: &mut Command) -> Result<String, TestError> {
        // Settings and repositories of the user are none of the tests' business.
        for variable in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
            command.env(variable, &self.folder);
        }
        let output = command.env_remove("KUBECONFIG").output().await?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() {
            return Ok(text(&output.stdout));
        }
        Err(format!("{}{}", text(&output.stdout), text(&output.stderr)).into())
    }
}

/// Writes values into a file.
fn write(values: &Value) -> Result<PathBuf, TestError> {
    let file = folder("values")?.join("values.json");
    fs::write(&file, serde_json::to_vec(values)?)?;
    Ok(file)
}

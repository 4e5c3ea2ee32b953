//! Names of the files in a mounted directory.

use std::{
    collections::BTreeSet,
    io,
    path::{Path, PathBuf},
};

/// Directory with one file for each secret.
#[derive(Debug)]
pub(crate) struct Directory {
    path: Option<PathBuf>,
    files: BTreeSet<String>,
}

impl Directory {
    pub(crate) fn new(path: Option<PathBuf>) -> Self {
        Self { path, files: BTreeSet::new() }
    }

    /// Returns the names of the last listing.
    pub(crate) fn files(&self) -> impl Iterator<Item = String> {
        self.files.iter().cloned()
    }

    /// Lists the directory again, and returns `true` if files were added or removed. Of a directory that cannot be read,
    /// the last names remain.
    pub(crate) async fn refresh(&mut self) -> bool {
        let Some(path) = self.path.clone() else { return false };
        let shown = path.display().to_string();
        let listed = tokio::task::spawn_blocking(move || list(&path)).await;
        match listed.unwrap_or_else(|error| Err(error.into())) {
            Ok(files) => std::mem::replace(&mut self.files, files) != self.files,
            Err(error) => {
                tracing::debug!(directory = shown, %error, "failed to list the secrets");
                false
            }
        }
    }
}

fn list(path: &Path) -> io::Result<BTreeSet<String>> {
    let mut files = BTreeSet::new();
    for entry in std::fs::read_dir(path)? {
        // Names of Kubernetes' own links begin with two dots.
        let name = entry?.file_name().into_string().ok().filter(|name| !name.starts_with(".."));
        files.extend(name);
    }
    Ok(files)
}

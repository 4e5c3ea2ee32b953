//! Names of the files in a mounted directory.

use std::{
    collections::BTreeSet,
    io,
    path::{Path, PathBuf},
};

/// Maximum number of files. A Secret of 1 MiB has fewer keys with the names that the operator gives them.
const MAX_FILES: usize = 16_384;

/// Directory with one file for each secret.
///
/// A conversion needs the names alone. The server reads the values, and reloads its configuration when one of them changes.
#[derive(Debug)]
pub(crate) struct Directory {
    path: Option<PathBuf>,
    files: BTreeSet<String>,
    /// `true` after a listing that failed, so that an outage is logged once.
    has_failed: bool,
}

impl Directory {
    pub(crate) fn new(path: Option<PathBuf>) -> Self {
        Self { path, files: BTreeSet::new(), has_failed: false }
    }

    /// Returns the names of the last listing.
    pub(crate) fn files(&self) -> impl Iterator<Item = String> {
        self.files.iter().cloned()
    }

    /// Lists the directory again, and returns `true` if files were added or removed. Of a directory that cannot be read, or
    /// has too many files, the last names remain.
    pub(crate) async fn refresh(&mut self) -> bool {
        let Some(path) = self.path.clone() else { return false };
        let shown = path.display().to_string();
        let listed = tokio::task::spawn_blocking(move || list(&path, MAX_FILES)).await;
        match listed.unwrap_or_else(|error| Err(error.into())) {
            Ok(files) => {
                self.has_failed = false;
                std::mem::replace(&mut self.files, files) != self.files
            }
            Err(error) => {
                if !std::mem::replace(&mut self.has_failed, true) {
                    tracing::warn!(directory = shown, %error, "failed to list the secrets");
                }
                false
            }
        }
    }
}

/// Lists at most `max` files.
fn list(path: &Path, max: usize) -> io::Result<BTreeSet<String>> {
    let mut files = BTreeSet::new();
    for entry in std::fs::read_dir(path)? {
        // Names of Kubernetes' own links begin with two dots. The links of keys, not the directory that they lead to: the
        // kubelet adds a link after the file, so that a listed file can be read.
        let name = entry?.file_name().into_string().ok().filter(|name| !name.starts_with(".."));
        files.extend(name);
        if files.len() > max {
            return Err(io::Error::other(format!("the directory has more than {max} files")));
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_directory_with_too_many_files() {
        let path = std::env::temp_dir().join(format!("vmcp-discover-many-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        for name in ["a", "b", "..data"] {
            std::fs::write(path.join(name), "x").unwrap();
        }
        let found = list(&path, 2).unwrap();
        assert_eq!(found.into_iter().collect::<Vec<_>>(), ["a", "b"]);
        let error = list(&path, 1).unwrap_err().to_string();
        assert!(error.contains("more than 1 files"), "{error}");
        std::fs::remove_dir_all(&path).unwrap();
    }
}

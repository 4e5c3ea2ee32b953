//! Files of a key ring.

use std::path::{Path, PathBuf};

use crate::{SealKey, SealKeyError};

/// Files with the keys of a ring, the newest key first. A directory stands for its files, in descending order of their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SealKeyFiles(Vec<PathBuf>);

impl SealKeyFiles {
    /// Creates the list.
    #[must_use]
    pub fn new(paths: Vec<PathBuf>) -> Self {
        Self(paths)
    }

    /// Returns `true` if there is no file.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Reads all keys.
    ///
    /// # Errors
    /// [`SealKeyError`] of the first file that cannot be read or does not hold a key.
    pub fn read(&self) -> Result<Vec<SealKey>, SealKeyError> {
        self.paths()?.iter().map(|path| SealKey::read(path)).collect()
    }

    /// Returns the files, with those of directories.
    ///
    /// # Errors
    /// [`SealKeyError`] if a directory cannot be read or has no file.
    pub fn paths(&self) -> Result<Vec<PathBuf>, SealKeyError> {
        let mut paths = Vec::new();
        for path in &self.0 {
            if path.is_dir() {
                paths.extend(files_of(path)?);
            } else {
                paths.push(path.clone());
            }
        }
        Ok(paths)
    }
}

/// Returns the regular files of a directory. Names that begin with a dot belong to the mount of a Kubernetes Secret.
fn files_of(directory: &Path) -> Result<Vec<PathBuf>, SealKeyError> {
    let name = || directory.display().to_string();
    let unreadable = |source| SealKeyError::Unreadable { path: name(), source };
    let mut files = Vec::new();
    for entry in directory.read_dir().map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let is_hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
        if !is_hidden && entry.path().is_file() {
            files.push(entry.path());
        }
    }
    if files.is_empty() {
        return Err(SealKeyError::EmptyDirectory { path: name() });
    }
    files.sort_unstable_by(|one, other| other.cmp(one));
    Ok(files)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn reads_directory_newest_name_first() {
        let root = std::env::temp_dir().join(format!("vmcp-seal-files-{}", std::process::id()));
        fs::create_dir_all(&root).unwrap();
        let files = SealKeyFiles::new(vec![root.clone()]);
        assert!(files.read().unwrap_err().to_string().ends_with("has no key"));
        for (name, digits) in [("2026-11", "02"), ("2026-10", "01"), ("..data", "no key")] {
            fs::write(root.join(name), digits.repeat(32)).unwrap();
        }
        fs::create_dir_all(root.join("directory")).unwrap();
        let keys = files.read().unwrap();
        assert_eq!(keys.iter().map(|key| key.bytes()[0]).collect::<Vec<_>>(), [2, 1]);
        let both = SealKeyFiles::new(vec![root.join("2026-10"), root.clone()]);
        assert_eq!(both.paths().unwrap().len(), 3);
        fs::remove_dir_all(&root).unwrap();
        assert!(files.read().unwrap_err().to_string().starts_with("cannot read /"));
    }
}

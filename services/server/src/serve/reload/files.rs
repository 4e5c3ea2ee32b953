//! Files that a configuration names: secrets, keys, CA bundles.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use vmcp_config::{File, Format};

/// Maximum number of watched files.
const MAX_FILES: usize = 1024;

/// Path prefix of settings that are read only at start.
const START_ONLY_PREFIX: &str = "telemetry.";

/// Metadata of the files that a configuration names, for change detection.
#[derive(Debug, Default)]
pub struct NamedFiles {
    files: Vec<(PathBuf, Option<FileStamp>)>,
    /// Metadata at the last poll.
    last: Vec<Option<FileStamp>>,
}

/// Metadata that identifies the content of a file without reading it. Symbolic links are followed, so the link swap of
/// a mounted Secret shows up as a different file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::serve) struct FileStamp {
    inode: (u64, u64),
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

pub(in crate::serve) fn stamp(path: &Path) -> Option<FileStamp> {
    let metadata = std::fs::metadata(path).ok()?;
    Some(FileStamp {
        inode: (metadata.dev(), metadata.ino()),
        size: metadata.len(),
        modified: (metadata.mtime(), metadata.mtime_nsec()),
        changed: (metadata.ctime(), metadata.ctime_nsec()),
    })
}

impl NamedFiles {
    /// Records the current metadata of the files that the configuration `text` names. Call it before these files are
    /// read. Of more than 1,024 files, the rest is not watched. The collector's CA bundle is excluded, because
    /// telemetry is set up at start only.
    #[must_use]
    pub fn of(text: &str) -> Self {
        let named = File::file_references(text, Format::Yaml).into_iter();
        let mut paths: Vec<_> = named
            .filter(|file| !file.setting.starts_with(START_ONLY_PREFIX))
            .map(|file| file.path)
            .collect();
        paths.sort();
        paths.dedup();
        if paths.len() > MAX_FILES {
            tracing::warn!(files = paths.len(), "only the first {MAX_FILES} files are watched");
            paths.truncate(MAX_FILES);
        }
        let files: Vec<_> = paths.into_iter().map(|path| (stamp(&path), path)).collect();
        let last = files.iter().map(|(stamp, _)| *stamp).collect();
        Self { files: files.into_iter().map(|(stamp, path)| (path, stamp)).collect(), last }
    }

    /// Returns `true` if a file has changed and no file has changed since the last call, so that a partially written
    /// file is not read.
    pub(super) fn have_changed(&mut self) -> bool {
        let now: Vec<_> = self.files.iter().map(|(path, _)| stamp(path)).collect();
        let is_still = now == self.last;
        let is_other = self.files.iter().zip(&now).any(|((_, then), now)| then != now);
        self.last = now;
        is_other && is_still
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("vmcp-{name}-{}", std::process::id()));
            _ = fs::remove_dir_all(&path);
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        fn watched(&self, file: &str) -> NamedFiles {
            let path = self.0.join(file);
            NamedFiles::of(&format!(
                "name: x\nauthServer: {{hmacSecretRefs: [{{file: \"{}\"}}]}}\n\
                 telemetry: {{caCertPath: \"{}/ca\"}}\n",
                path.display(),
                self.0.display()
            ))
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn reports_changed_file_after_writes_end() {
        let folder = Folder::new("named");
        fs::write(folder.0.join("secret"), "one").unwrap();
        let mut files = folder.watched("secret");
        assert!(!files.have_changed());
        fs::write(folder.0.join("secret"), "tw").unwrap();
        assert!(!files.have_changed(), "it may not be finished");
        fs::write(folder.0.join("secret"), "two!").unwrap();
        assert!(!files.have_changed());
        assert!(files.have_changed());
        let mut files = folder.watched("secret");
        assert!(!files.have_changed());
        fs::remove_file(folder.0.join("secret")).unwrap();
        assert!(!files.have_changed());
        assert!(files.have_changed());
    }

    #[test]
    fn ignores_files_read_only_at_start() {
        let folder = Folder::new("telemetry");
        fs::write(folder.0.join("ca"), "one").unwrap();
        let mut files = folder.watched("secret");
        fs::write(folder.0.join("ca"), "other").unwrap();
        assert!(!files.have_changed());
        assert!(!files.have_changed());
    }

    #[test]
    fn detects_swapped_link_with_same_metadata() {
        let folder = Folder::new("swapped");
        let at = |name: &str| folder.0.join(name);
        let time =
            std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_700_000_000);
        for (version, content) in [("..1", "one"), ("..2", "two")] {
            fs::create_dir(at(version)).unwrap();
            fs::write(at(version).join("secret"), content).unwrap();
            let file = fs::File::options().write(true).open(at(version).join("secret")).unwrap();
            file.set_modified(time).unwrap();
        }
        symlink("..1", at("..data")).unwrap();
        symlink("..data/secret", at("secret")).unwrap();
        let mut files = folder.watched("secret");
        assert!(!files.have_changed());
        // The kubelet replaces the link atomically, too.
        symlink("..2", at("..data_tmp")).unwrap();
        fs::rename(at("..data_tmp"), at("..data")).unwrap();
        assert!(!files.have_changed());
        assert!(files.have_changed());
    }
}

//! Files that a configuration names: secrets, keys, CA bundles.

use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use vmcp_config::{File, Format};

use crate::parts::Environment;

/// Maximum number of watched files.
const MAX_FILES: usize = 1024;

/// Path prefix of settings that are read only at start.
const START_ONLY_PREFIX: &str = "telemetry.";

/// Link that the kubelet replaces when a mounted Secret changes.
const DATA_LINK: &str = "..data";

/// Metadata of the files that a configuration names, for change detection.
#[derive(Debug, Default)]
pub struct NamedFiles {
    files: Vec<PathBuf>,
    /// Directory with the values of variables.
    directory: Option<PathBuf>,
    /// Metadata when the files were read.
    first: Stamps,
    /// Metadata at the last poll.
    last: Stamps,
}

/// Metadata of all files at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Stamps {
    files: Vec<Option<FileStamp>>,
    directory: Vec<(OsString, Option<FileStamp>)>,
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
    /// Records the current metadata of the files that the configuration `text` names, and of the files in the
    /// directory of `environment`. Call it before these files are read. Of more than 1,024 files, the rest is not watched. The collector's CA bundle is excluded, because
    /// telemetry is set up at start only.
    #[must_use]
    pub fn of(text: &str, environment: &Environment) -> Self {
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
        let directory = environment.directory().map(Path::to_owned);
        let first = stamps(&paths, directory.as_deref());
        Self { files: paths, directory, last: first.clone(), first }
    }

    /// Returns `true` if a file has changed and no file has changed since the last call, so that a partially written
    /// file is not read.
    pub(super) fn have_changed(&mut self) -> bool {
        let now = stamps(&self.files, self.directory.as_deref());
        let is_still = now == self.last;
        let is_other = now != self.first;
        self.last = now;
        is_other && is_still
    }
}

fn stamps(files: &[PathBuf], directory: Option<&Path>) -> Stamps {
    let files = files.iter().map(|path| stamp(path)).collect();
    Stamps { files, directory: directory.map(directory_stamps).unwrap_or_default() }
}

/// Returns the metadata of the files in a directory. Of a volume of Kubernetes, the target of its link suffices.
fn directory_stamps(directory: &Path) -> Vec<(OsString, Option<FileStamp>)> {
    if let Some(data) = stamp(&directory.join(DATA_LINK)) {
        return vec![(DATA_LINK.into(), Some(data))];
    }
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let mut stamps: Vec<_> =
        entries.take(MAX_FILES).map(|entry| (entry.file_name(), stamp(&entry.path()))).collect();
    stamps.sort_by(|(left, _), (right, _)| left.cmp(right));
    stamps
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
            let text = format!(
                "name: x\nauthServer: {{hmacSecretRefs: [{{file: \"{}\"}}]}}\n\
                 telemetry: {{caCertPath: \"{}/ca\"}}\n",
                path.display(),
                self.0.display()
            );
            NamedFiles::of(&text, &Environment::default())
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
    fn detects_changed_files_of_directory() {
        let folder = Folder::new("directory");
        let environment = Environment::with_directory(&folder.0);
        fs::write(folder.0.join("A"), "one").unwrap();
        let changes: [fn(&Path); 3] = [
            |folder| fs::write(folder.join("A"), "other").unwrap(),
            |folder| fs::write(folder.join("B"), "one").unwrap(),
            |folder| fs::remove_file(folder.join("A")).unwrap(),
        ];
        for change in changes {
            let mut files = NamedFiles::of("name: x\n", &environment);
            assert!(!files.have_changed());
            change(&folder.0);
            assert!(!files.have_changed());
            assert!(files.have_changed());
        }
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

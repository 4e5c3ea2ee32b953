//! Directory with the keys of a ring, as a Kubernetes Secret is mounted.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::SystemTime;

/// Keys by the names of their files.
pub(crate) type Keys<'a> = [(&'a str, &'a str)];

/// Directory of one replica, removed on drop.
pub(crate) struct SecretMount {
    folder: PathBuf,
    versions: AtomicUsize,
}

impl SecretMount {
    pub(crate) fn create(keys: &Keys) -> Self {
        static CREATED: AtomicUsize = AtomicUsize::new(0);
        let number = CREATED.fetch_add(1, Ordering::Relaxed);
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("scale-out-{}-{number}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let mount = Self { folder, versions: AtomicUsize::new(0) };
        mount.write(keys, SystemTime::now());
        mount
    }

    pub(crate) fn path(&self) -> &Path {
        &self.folder
    }

    /// Replaces all files, as the kubelet does: one link leads to a directory with the new version of each, and the name of each
    /// file leads through that link.
    pub(crate) fn write(&self, keys: &Keys, made_at: SystemTime) {
        let version = format!("..version-{}", self.versions.fetch_add(1, Ordering::Relaxed));
        let folder = self.folder.join(&version);
        fs::create_dir(&folder).unwrap();
        for (name, key) in keys {
            let mut file = File::options()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(folder.join(name))
                .unwrap();
            file.write_all(key.as_bytes()).unwrap();
            file.set_modified(made_at).unwrap();
        }
        let next = self.folder.join("..data_tmp");
        symlink(&version, &next).unwrap();
        fs::rename(&next, self.folder.join("..data")).unwrap();
        for (name, _) in keys {
            let path = self.folder.join(name);
            if path.symlink_metadata().is_err() {
                symlink(Path::new("..data").join(name), path).unwrap();
            }
        }
        for entry in self.folder.read_dir().unwrap() {
            let path = entry.unwrap().path();
            // The file of a link without a target was removed.
            if path.is_symlink() && !path.exists() {
                fs::remove_file(path).unwrap();
            }
        }
    }
}

impl Drop for SecretMount {
    fn drop(&mut self) {
        // Files below target are harmless.
        _ = fs::remove_dir_all(&self.folder);
    }
}

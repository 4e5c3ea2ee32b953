//! Key ring of the server: its files are read at the start, and again when they change.

use std::path::PathBuf;
use std::time::Duration;

use tokio::task::{AbortHandle, spawn_blocking};
use vmcp_core::Clock;
use vmcp_seal::{KeyRing, KeyRingError, RandomError, SealKey, SealKeyError, SealKeyFiles};

use super::reload::{FileStamp, stamp};

/// Poll interval of the files.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Error of the files of `--seal-key`.
#[derive(Debug, thiserror::Error)]
pub enum SealKeysError {
    /// A file has no key.
    #[error(transparent)]
    File(#[from] SealKeyError),
    /// The keys form no ring.
    #[error(transparent)]
    Ring(#[from] KeyRingError),
    /// Two files have the same key.
    #[error("{one} and {other} hold the same key")]
    EqualFiles {
        /// The newer file.
        one: String,
        /// The older file.
        other: String,
    },
    /// The system failed to provide random numbers.
    #[error(transparent)]
    Random(#[from] RandomError),
}

/// Task that reads changed files until it is dropped.
#[derive(Debug)]
pub(super) struct SealKeyWatch(AbortHandle);

impl Drop for SealKeyWatch {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Creates the ring of a server. Without files, it has one random key.
pub(super) fn key_ring(
    server: &str,
    files: &SealKeyFiles,
    clock: Clock,
) -> Result<KeyRing, SealKeysError> {
    if files.is_empty() {
        return Ok(KeyRing::ephemeral(clock)?);
    }
    let keys = files.read()?;
    warn_of_exposed(&keys);
    KeyRing::new(server, &keys, clock).map_err(|error| SealKeysError::of_ring(error, files))
}

impl SealKeysError {
    /// Names the files with equal keys.
    fn of_ring(error: KeyRingError, files: &SealKeyFiles) -> Self {
        let paths = files.paths().unwrap_or_default();
        let path = |number: usize| Some(paths.get(number.checked_sub(1)?)?.display().to_string());
        match error {
            KeyRingError::EqualKeys(one, other) => match (path(one), path(other)) {
                (Some(one), Some(other)) => Self::EqualFiles { one, other },
                _ => Self::Ring(error),
            },
            error => Self::Ring(error),
        }
    }
}

/// Checks the files as a start of the server does.
///
/// # Errors
/// [`SealKeysError`] if a file has no key, there are too many, or two are equal.
pub fn check_seal_keys(files: &SealKeyFiles) -> Result<(), SealKeysError> {
    key_ring("", files, Clock::system()).map(|_| ())
}

/// Replaces the keys of the ring when a file changes, or is added to a directory.
pub(super) fn watch(ring: KeyRing, files: SealKeyFiles) -> Option<SealKeyWatch> {
    if files.is_empty() {
        return None;
    }
    let mut last = stamps(&files);
    let watching = tokio::spawn(async move {
        loop {
            tokio::time::sleep(POLL_INTERVAL).await;
            let (ring, files) = (ring.clone(), files.clone());
            // A mount that does not respond must not hold up the runtime.
            let polled = spawn_blocking(move || {
                let now = stamps(&files);
                if now != last {
                    replace(&ring, &files);
                }
                now
            });
            match polled.await {
                Ok(now) => last = now,
                Err(_) => return,
            }
        }
    });
    Some(SealKeyWatch(watching.abort_handle()))
}

fn stamps(files: &SealKeyFiles) -> Vec<(PathBuf, Option<FileStamp>)> {
    let paths = files.paths().unwrap_or_default();
    paths.into_iter().map(|path| (path.clone(), stamp(&path))).collect()
}

/// Reads the files. The ring stays as it is while one of them is not usable.
fn replace(ring: &KeyRing, files: &SealKeyFiles) {
    let replaced = files.read().map_err(SealKeysError::from).and_then(|keys| {
        warn_of_exposed(&keys);
        ring.replace(&keys).map_err(|error| SealKeysError::of_ring(error, files))?;
        Ok(keys.len())
    });
    match replaced {
        Ok(keys) => tracing::info!(keys, "seal keys read"),
        Err(error) => tracing::warn!(%error, "the previous seal keys stay in use"),
    }
}

fn warn_of_exposed(keys: &[SealKey]) {
    for file in keys.iter().filter_map(SealKey::exposed) {
        tracing::warn!(
            file,
            "every user of this machine may read a seal key: restrict it, such as with chmod 600"
        );
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use vmcp_seal::SealPurpose;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn changed_files_replace_keys() {
        let root = std::env::temp_dir().join(format!("vmcp-server-keys-{}", std::process::id()));
        fs::create_dir_all(&root).unwrap();
        fs::write(root.join("1"), "01".repeat(32)).unwrap();
        let files = SealKeyFiles::new(vec![root.clone()]);
        let ring = key_ring("x", &files, Clock::system()).unwrap();
        let _watch = watch(ring.clone(), files.clone());
        let other = KeyRing::new("x", &[SealKey::from_bytes([2; 32])], Clock::system()).unwrap();
        let sealed = other.seal(SealPurpose::ClientState, b"", b"").unwrap();
        let opens = || ring.open(SealPurpose::ClientState, &sealed, b"").is_some();
        tokio::time::sleep(POLL_INTERVAL * 2).await;
        assert!(!opens());
        fs::write(root.join("2"), "02".repeat(32)).unwrap();
        tokio::time::sleep(POLL_INTERVAL * 2).await;
        assert!(opens());
        fs::write(root.join("3"), "no key").unwrap();
        tokio::time::sleep(POLL_INTERVAL * 2).await;
        assert!(opens(), "an unusable file changes nothing");
        let error = check_seal_keys(&files).unwrap_err().to_string();
        assert!(error.starts_with('/') && error.contains("64 hexadecimal"), "{error}");
        fs::write(root.join("3"), "01".repeat(32)).unwrap();
        let error = check_seal_keys(&files).unwrap_err().to_string();
        assert!(error.ends_with("/1 hold the same key") && error.contains("/3 and "), "{error}");
        fs::remove_dir_all(&root).unwrap();
    }
}

//! Keys of the ring, as files hold them.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::SystemTime;

use secrecy::zeroize::Zeroizing;

/// Number of bytes of a key.
pub(crate) const KEY_LENGTH: usize = 32;

/// Maximum size of a key's file, in bytes: 64 digits and white space.
const MAX_FILE_SIZE: u64 = 1024;

/// 256-bit key.
#[derive(Clone)]
pub struct SealKey {
    bytes: Zeroizing<[u8; KEY_LENGTH]>,
    made_at: SystemTime,
    /// The file, if every user of the machine may read it.
    exposed: Option<Box<str>>,
}

/// Error of reading a seal key. Does not show the content of the file.
#[derive(Debug, thiserror::Error)]
pub enum SealKeyError {
    /// The file cannot be read.
    #[error("cannot read {path}: {source}")]
    Unreadable {
        /// The file.
        path: String,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// The content is not a key.
    #[error("{path} must hold 64 hexadecimal digits, such as `openssl rand -hex 32` prints")]
    NoKey {
        /// The file.
        path: String,
    },
    /// The path names a device, a pipe or a socket.
    #[error("{path} is not a regular file")]
    NoFile {
        /// The path.
        path: String,
    },
    /// A directory without files.
    #[error("{path} has no key")]
    EmptyDirectory {
        /// The directory.
        path: String,
    },
}

impl SealKey {
    /// Creates a key that seals at once.
    #[must_use]
    pub fn from_bytes(bytes: [u8; KEY_LENGTH]) -> Self {
        Self { bytes: Zeroizing::new(bytes), made_at: SystemTime::UNIX_EPOCH, exposed: None }
    }

    /// Sets the point in time at which the key was made.
    #[must_use]
    pub fn made_at(mut self, time: SystemTime) -> Self {
        self.made_at = time;
        self
    }

    /// Reads a key of 64 hexadecimal digits, and ignores surrounding white space. It was made when the file was last changed.
    ///
    /// # Errors
    /// [`SealKeyError`] if the file cannot be read or does not hold a key.
    pub fn read(path: &Path) -> Result<Self, SealKeyError> {
        let name = || path.display().to_string();
        let unreadable = |source| SealKeyError::Unreadable { path: name(), source };
        // Opening a pipe would wait for a writer.
        if !path.metadata().map_err(unreadable)?.is_file() {
            return Err(SealKeyError::NoFile { path: name() });
        }
        let file = File::open(path).map_err(unreadable)?;
        let metadata = file.metadata().map_err(unreadable)?;
        let mut text = Zeroizing::new(Vec::new());
        file.take(MAX_FILE_SIZE).read_to_end(&mut text).map_err(unreadable)?;
        let bytes = parse(text.trim_ascii()).ok_or_else(|| SealKeyError::NoKey { path: name() })?;
        let made_at = metadata.modified().map_err(unreadable)?;
        let is_exposed = metadata.permissions().mode() & 0o004 != 0;
        Ok(Self { bytes, made_at, exposed: is_exposed.then(|| name().into()) })
    }

    /// Returns the path of the file if every user of the machine can read it.
    #[must_use]
    pub fn exposed(&self) -> Option<&str> {
        self.exposed.as_deref()
    }

    pub(crate) fn bytes(&self) -> &[u8; KEY_LENGTH] {
        &self.bytes
    }

    pub(crate) fn time(&self) -> SystemTime {
        self.made_at
    }
}

fn parse(text: &[u8]) -> Option<Zeroizing<[u8; KEY_LENGTH]>> {
    let mut key = Zeroizing::new([0; KEY_LENGTH]);
    if text.len() != 2 * KEY_LENGTH {
        return None;
    }
    for (byte, pair) in key.iter_mut().zip(text.chunks_exact(2)) {
        *byte = (digit(pair[0])? << 4) | digit(pair[1])?;
    }
    Some(key)
}

fn digit(character: u8) -> Option<u8> {
    u8::try_from(char::from(character).to_digit(16)?).ok()
}

impl fmt::Debug for SealKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SealKey")
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use super::*;

    /// Returns the path of a test's own file.
    fn file(test: &str) -> PathBuf {
        std::env::temp_dir().join(format!("vmcp-seal-{test}-{}", std::process::id()))
    }

    #[test]
    fn accepts_only_64_hexadecimal_digits() {
        let file = file("digits");
        let read = |text: &str| {
            fs::write(&file, text).unwrap();
            SealKey::read(&file)
        };
        let text = "00fF".repeat(16);
        for good in [text.clone(), format!(" {text}\n"), format!("{text}\r\n")] {
            assert_eq!(read(&good).unwrap().bytes()[..3], [0, 255, 0]);
        }
        let long = text.repeat(100);
        for bad in ["", "00ff", &"0g".repeat(32), &"+f".repeat(32), &text[1..], &long] {
            let error = read(bad).unwrap_err().to_string();
            assert!(error.contains("64 hexadecimal digits"), "{error}");
            assert!(bad.is_empty() || !error.contains(bad), "{error}");
        }
        assert_eq!(format!("{:?}", read(&text)), "Ok(SealKey)");
        fs::remove_file(&file).unwrap();
        let device = SealKey::read(Path::new("/dev/zero")).unwrap_err().to_string();
        assert_eq!(device, "/dev/zero is not a regular file");
        let missing = SealKey::read(&file).unwrap_err();
        assert!(missing.to_string().starts_with("cannot read /"), "{missing}");
    }

    #[test]
    fn names_file_that_others_can_read() {
        let file = file("mode");
        fs::write(&file, "0f".repeat(32)).unwrap();
        for (mode, exposed) in [(0o600, false), (0o640, false), (0o644, true)] {
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(SealKey::read(&file).unwrap().exposed().is_some(), exposed, "{mode:o}");
        }
        fs::remove_file(&file).unwrap();
    }
}

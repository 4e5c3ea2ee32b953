//! Seal keys, which replicas share so that each can open what another one has sealed.

use std::fmt;
use std::path::Path;

use crate::file_mode::is_readable_by_others;

/// 256-bit key.
#[derive(Clone)]
pub struct SealKey {
    key: [u8; 32],
    /// The file, if every user of the machine may read it.
    exposed: Option<Box<str>>,
}

/// Error of reading a seal key.
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
}

impl SealKey {
    /// Reads a key of 64 hexadecimal digits, and ignores surrounding white space.
    ///
    /// # Errors
    /// Returns an error, which does not show the content, if the file cannot be read or does not hold a key.
    pub fn read(path: &Path) -> Result<Self, SealKeyError> {
        let name = || path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|source| SealKeyError::Unreadable { path: name(), source })?;
        let key = parse(text.trim()).ok_or_else(|| SealKeyError::NoKey { path: name() })?;
        let exposed = is_readable_by_others(path).then(|| name().into());
        Ok(Self { exposed, ..key })
    }

    /// Returns the path of the file if every user of the machine can read it.
    pub(crate) fn exposed(&self) -> Option<&str> {
        self.exposed.as_deref()
    }

    pub(crate) fn bytes(&self) -> [u8; 32] {
        self.key
    }
}

fn parse(text: &str) -> Option<SealKey> {
    let mut key = [0; 32];
    if text.len() != 64 || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    for (byte, at) in key.iter_mut().zip((0..64).step_by(2)) {
        *byte = u8::from_str_radix(text.get(at..at + 2)?, 16).ok()?;
    }
    Some(SealKey { key, exposed: None })
}

impl fmt::Debug for SealKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SealKey")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_only_64_hexadecimal_digits() {
        let text = "00ff".repeat(16);
        assert_eq!(parse(&text).unwrap().bytes()[..2], [0, 255]);
        for bad in ["", "00ff", &"0g".repeat(32), &"+f".repeat(32), &text[1..]] {
            assert!(parse(bad).is_none(), "{bad}");
        }
        assert_eq!(format!("{:?}", parse(&text)), "Some(SealKey)");
    }
}

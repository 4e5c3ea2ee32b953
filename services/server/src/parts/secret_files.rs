//! Secrets in files.

use std::fs::File;
use std::hash::{DefaultHasher, Hash};
use std::io::{self, Read};
use std::path::Path;

use secrecy::{ExposeSecret, SecretSlice, SecretString};
use vmcp_config::{ConfigError, SecretFile};

use crate::file_mode::is_readable_by_others;

/// Maximum size of a secret file, in bytes.
const MAX_FILE_SIZE: u64 = 64 << 10;

/// Reason why a file is unusable.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReadError {
    #[error("which cannot be read ({0})")]
    Unreadable(#[from] io::Error),
    #[error("which is not a regular file")]
    NotRegular,
    #[error("which is empty")]
    Empty,
    #[error("which is larger than {MAX_FILE_SIZE} bytes")]
    TooLarge,
}

/// Reader of secret files, which collects errors.
#[derive(Default)]
pub(super) struct SecretFiles {
    pub(super) errors: Vec<ConfigError>,
    /// Configuration path and file path of files that users beyond the owner and the group can read.
    pub(super) exposed: Vec<(String, String)>,
    /// Digest of all contents.
    pub(super) digest: DefaultHasher,
}

impl SecretFiles {
    /// Returns the content of the file that the setting at `at` names; `None` after an error.
    pub(super) fn bytes(&mut self, at: &str, secret: &SecretFile) -> Option<SecretSlice<u8>> {
        let SecretFile { file } = secret;
        match read(file.as_path()) {
            Ok(bytes) => {
                if is_readable_by_others(file.as_path()) {
                    let file = file.as_path().display().to_string();
                    self.exposed.push((format!("{at}.file"), file));
                }
                bytes.hash(&mut self.digest);
                Some(bytes.into())
            }
            Err(problem) => {
                let found = format!("\"{}\", {problem}", file.as_path().display());
                let allowed = format!("a readable file of 1 to {MAX_FILE_SIZE} bytes");
                self.errors.push(ConfigError::new(format!("{at}.file"), found, allowed));
                None
            }
        }
    }

    /// Returns the text of the file that the setting at `at` names, without the final line break; `None` after an
    /// error.
    pub(super) fn text(&mut self, at: &str, secret: &SecretFile) -> Option<SecretString> {
        let bytes = self.bytes(at, secret)?;
        let text = std::str::from_utf8(bytes.expose_secret()).ok();
        let text = text.map(|text| text.trim_end_matches(['\r', '\n']));
        if let Some(text) = text.filter(|text| !text.is_empty()) {
            return Some(text.into());
        }
        let found = format!("\"{}\", which holds no text", secret.file.as_path().display());
        self.errors.push(ConfigError::new(
            format!("{at}.file"),
            found,
            "a file with a line of text",
        ));
        None
    }
}

/// Returns the content, or the reason why the file is unusable.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, ReadError> {
    // Opening a FIFO or a device may block.
    if !path.metadata()?.is_file() {
        return Err(ReadError::NotRegular);
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_FILE_SIZE + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 {
        0 => Err(ReadError::Empty),
        1..=MAX_FILE_SIZE => Ok(bytes),
        _ => Err(ReadError::TooLarge),
    }
}

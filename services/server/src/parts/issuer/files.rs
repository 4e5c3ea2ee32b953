//! Secrets that stand in files.

use std::fs::File;
use std::hash::{DefaultHasher, Hash};
use std::io::{self, Read};
use std::path::Path;

use secrecy::{ExposeSecret, SecretSlice, SecretString};
use vmcp_config::{Mistake, SecretFile};

use crate::file_mode::is_readable_by_others;

/// The largest file that is taken for a secret, in bytes.
const LARGEST: u64 = 64 << 10;

/// Reads them, and remembers what it could not read.
#[derive(Default)]
pub(super) struct Files {
    pub(super) mistakes: Vec<Mistake>,
    /// Paths of the configuration and of files that others than the owner and the group may read.
    pub(super) exposed: Vec<(String, String)>,
    /// Of everything that was read.
    pub(super) print: DefaultHasher,
}

impl Files {
    /// The bytes of the file that stands at `at`, as they are; `None` is a mistake.
    pub(super) fn bytes(&mut self, at: &str, secret: &SecretFile) -> Option<SecretSlice<u8>> {
        let SecretFile { file } = secret;
        match read(file.as_path()) {
            Ok(bytes) => {
                if is_readable_by_others(file.as_path()) {
                    let file = file.as_path().display().to_string();
                    self.exposed.push((format!("{at}.file"), file));
                }
                bytes.hash(&mut self.print);
                Some(bytes.into())
            }
            Err(problem) => {
                let found = format!("\"{}\", {problem}", file.as_path().display());
                let allowed = format!("a readable file of 1 to {LARGEST} bytes");
                self.mistakes.push(Mistake::new(format!("{at}.file"), found, allowed));
                None
            }
        }
    }

    /// The text of the file that stands at `at`, without the end of its last line; `None` is a mistake.
    pub(super) fn text(&mut self, at: &str, secret: &SecretFile) -> Option<SecretString> {
        let bytes = self.bytes(at, secret)?;
        let text = std::str::from_utf8(bytes.expose_secret()).ok();
        let text = text.map(|text| text.trim_end_matches(['\r', '\n']));
        if let Some(text) = text.filter(|text| !text.is_empty()) {
            return Some(text.into());
        }
        let found = format!("\"{}\", which holds no text", secret.file.as_path().display());
        self.mistakes.push(Mistake::new(format!("{at}.file"), found, "a file with a line of text"));
        None
    }
}

/// The bytes, or what is wrong with the file.
fn read(path: &Path) -> Result<Vec<u8>, String> {
    let unreadable = |error: io::Error| format!("which cannot be read ({error})");
    // Opening a FIFO or a device may block.
    if !path.metadata().map_err(unreadable)?.is_file() {
        return Err("which is no regular file".to_owned());
    }
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(unreadable)?;
    file.take(LARGEST + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    match bytes.len() as u64 {
        0 => Err("which is empty".to_owned()),
        1..=LARGEST => Ok(bytes),
        _ => Err("which is too large".to_owned()),
    }
}

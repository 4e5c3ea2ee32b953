//! Atomic write of a file that only its owner can read.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Writes `text` to `path`. Without `force`, an existing file stays unchanged.
pub(super) fn write(path: &Path, text: &str, force: bool) -> Result<(), String> {
    // Reserving the name first keeps two concurrent runs from both writing the file.
    let reserved = if force { Ok(()) } else { create(path, "") };
    let written = reserved.and_then(|()| {
        replace(path, text).inspect_err(|_| {
            if !force {
                // This function created the empty file, so a failed removal is harmless.
                _ = fs::remove_file(path);
            }
        })
    });
    written.map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => {
            format!("{} exists: overwrite it with --force", path.display())
        }
        _ => format!("cannot write {}: {error}", path.display()),
    })
}

fn replace(path: &Path, text: &str) -> io::Result<()> {
    let aside = beside(path);
    create(&aside, text)?;
    fs::rename(&aside, path).inspect_err(|_| _ = fs::remove_file(&aside))
}

fn create(path: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// Returns a name in the same folder, so that a single rename replaces the file.
fn beside(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    path.with_file_name(name)
}

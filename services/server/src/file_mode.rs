//! Permissions of files that hold secrets.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Returns `true` if every user of the machine can read the file, `false` if its mode is unavailable.
pub(crate) fn is_readable_by_others(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| metadata.permissions().mode() & 0o004 != 0)
}

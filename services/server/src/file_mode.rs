//! Permissions of files that hold secrets.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Whether every user of the machine may read a file. What cannot be looked at is not said to be so.
pub(crate) fn is_readable_by_others(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| metadata.permissions().mode() & 0o004 != 0)
}

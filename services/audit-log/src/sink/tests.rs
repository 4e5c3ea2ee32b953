use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::*;

/// Directory that is removed after the test.
struct TempDir(PathBuf);

impl TempDir {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("vmcp-audit-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn file_is_private_and_append_only() {
    let scratch = TempDir::new("append");
    let path = scratch.0.join("audit.log");
    for line in ["one\n", "two\n"] {
        FileSink::open(&path).unwrap().write(line.as_bytes()).unwrap();
    }
    assert_eq!(fs::read_to_string(&path).unwrap(), "one\ntwo\n");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn reopen_leaves_the_renamed_file() {
    let scratch = TempDir::new("rotate");
    let path = scratch.0.join("audit.log");
    let mut sink = FileSink::open(&path).unwrap();
    sink.write(b"one\n").unwrap();
    fs::rename(&path, scratch.0.join("audit.log.1")).unwrap();
    sink.write(b"two\n").unwrap();
    sink.reopen().unwrap();
    sink.write(b"three\n").unwrap();
    assert_eq!(fs::read_to_string(scratch.0.join("audit.log.1")).unwrap(), "one\ntwo\n");
    assert_eq!(fs::read_to_string(&path).unwrap(), "three\n");
}

#[test]
fn incomplete_line_ends_before_the_next() {
    let scratch = TempDir::new("torn");
    let path = scratch.0.join("audit.log");
    let mut sink = FileSink::open(&path).unwrap();
    sink.write(b"whole\nhal").unwrap();
    sink.write(b"next\n").unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "whole\nhal\nnext\n");
}

#[test]
fn errors_name_full_disk_and_missing_directory() {
    let mut full = FileSink::open("/dev/full").unwrap();
    assert_eq!(full.write(b"x\n").unwrap_err().kind(), io::ErrorKind::StorageFull);
    let error = FileSink::open("/nonexistent/audit.log").unwrap_err().to_string();
    assert!(error.contains("/nonexistent/audit.log"), "{error}");
}

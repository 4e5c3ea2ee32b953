use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::*;

/// A directory that is gone with the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("vmcp-audit-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_file_is_its_owners_and_only_grows() {
    let scratch = Scratch::new("append");
    let path = scratch.0.join("audit.log");
    for line in ["one\n", "two\n"] {
        FileSink::open(&path).unwrap().write(line.as_bytes()).unwrap();
    }
    assert_eq!(fs::read_to_string(&path).unwrap(), "one\ntwo\n");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_renamed_file_is_left_when_it_is_reopened() {
    let scratch = Scratch::new("rotate");
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
fn a_torn_line_stands_alone() {
    let scratch = Scratch::new("torn");
    let path = scratch.0.join("audit.log");
    let mut sink = FileSink::open(&path).unwrap();
    sink.write(b"whole\nhal").unwrap();
    sink.write(b"next\n").unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "whole\nhal\nnext\n");
}

#[test]
fn a_full_disk_is_an_error_and_a_missing_directory_names_the_file() {
    let mut full = FileSink::open("/dev/full").unwrap();
    assert_eq!(full.write(b"x\n").unwrap_err().kind(), io::ErrorKind::StorageFull);
    let error = FileSink::open("/nonexistent/audit.log").unwrap_err().to_string();
    assert!(error.contains("/nonexistent/audit.log"), "{error}");
}

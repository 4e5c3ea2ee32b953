use super::*;

/// A directory of one test's files, removed with it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("vmcp-env-{name}-{}", std::process::id()));
        _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn environment(&self) -> Environment {
        Environment::with_directory(&self.0)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        _ = std::fs::remove_dir_all(&self.0);
    }
}

fn name(text: &str) -> EnvName {
    EnvName::new(text).unwrap()
}

#[test]
fn cuts_one_final_line_break() {
    let folder = Folder::new("lines");
    for (content, expected) in
        [("a", "a"), ("a\n", "a"), ("a\r\n", "a"), ("a\n\n", "a\n"), (" a \n", " a ")]
    {
        std::fs::write(folder.0.join("KEY"), content).unwrap();
        assert_eq!(folder.environment().variable("KEY").as_deref(), Some(expected), "{content:?}");
    }
}

#[test]
fn files_win_over_variables_of_process() {
    let folder = Folder::new("wins");
    // Set in each process of a test.
    assert!(std::env::var("PATH").is_ok());
    let environment = folder.environment();
    assert_eq!(environment.variable("PATH"), std::env::var("PATH").ok());
    std::fs::write(folder.0.join("PATH"), "from the file").unwrap();
    assert_eq!(environment.variable("PATH").as_deref(), Some("from the file"));
    std::fs::write(folder.0.join("PATH"), "").unwrap();
    assert_eq!(environment.variable("PATH").as_deref(), Some(""));
    assert!(environment.secret("at", &name("PATH")).is_err());
}

#[test]
fn unusable_files_leave_backends_out() {
    let folder = Folder::new("unusable");
    let write = |name: &str, bytes: &[u8]| std::fs::write(folder.0.join(name), bytes).unwrap();
    write("EMPTY", b"\n");
    write("BINARY", &[0xff, 0xfe]);
    write("LARGE", &vec![b'a'; 2 << 20]);
    std::fs::create_dir(folder.0.join("FOLDER")).unwrap();
    for (key, reason, says) in [
        ("VMCP_TEST_NONE", LeftOutReason::SecretPending, "is not there yet"),
        ("EMPTY", LeftOutReason::SecretPending, "is not there yet"),
        ("BINARY", LeftOutReason::SecretInvalid, "which is not text"),
        ("LARGE", LeftOutReason::SecretInvalid, "larger than 65536 bytes"),
        ("FOLDER", LeftOutReason::SecretInvalid, "not a regular file"),
    ] {
        let found = folder.environment().backend_secret("at", &name(key));
        let Err(BackendError::LeftOut(found, message)) = found else { panic!("{found:?}") };
        assert!(found == reason && message.contains(says), "{key}: {message}");
        assert!(matches!(
            Environment::default().backend_secret("at", &name("VMCP_TEST_NONE")),
            Err(BackendError::Config(_))
        ));
    }
}

//! Files contain nothing of the machine that wrote them.

use super::*;

/// Private directories besides that of this checkout: a path into one of these is meaningless on another machine.
const PRIVATE: &[&str] = &["root", "work", "tmp"];

#[test]
fn files_contain_no_machine_specific_paths() {
    let mut broken = Vec::new();
    let checkout = fs::canonicalize(root()).unwrap().display().to_string();
    let places = || PRIVATE.iter().map(|place| format!("/{place}/"));
    for (path, text) in texts() {
        for sought in places().chain([checkout.clone()]) {
            // In a longer path or in a URL, the name is an ordinary path segment.
            let inside = |before: char| before.is_alphanumeric() || "-_.~}>$".contains(before);
            for (at, _) in text.match_indices(&sought) {
                if !text[..at].ends_with(inside) {
                    broken.push(format!("{}: {sought}", path.display()));
                }
            }
        }
    }
    assert_none(&broken, "paths begin at the workspace's root or come from the environment");
}

#[test]
fn lock_files_name_no_registry_host() {
    const CARGO: &str = "registry+https://github.com/rust-lang/crates.io-index";
    let mut broken = Vec::new();
    for (path, text) in texts() {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let is_foreign = |line: &&str| match name {
            "Cargo.lock" => line.starts_with("source = ") && !line.contains(CARGO),
            "package-lock.json" => line.contains("\"resolved\""),
            "requirements.txt" => line.contains("://") || line.contains("-index"),
            _ => false,
        };
        broken.extend(
            text.lines().filter(is_foreign).map(|line| format!("{}: {line}", path.display())),
        );
    }
    assert_none(&broken, "which registry is asked is the reader's own setting");
}

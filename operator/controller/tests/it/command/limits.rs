//! Files that are too large, unreadable, or linked in circles.

use std::os::unix::fs::symlink;

use super::{directory, run};

const GROUP: &str =
    "apiVersion: vmcp.dev/v1beta1\nkind: MCPGroup\nmetadata: {name: tools}\nspec: {}\n";

#[test]
fn directories_are_read_without_following_links() {
    let folder = directory("links");
    let inner = folder.join("inner");
    std::fs::create_dir(&inner).unwrap();
    std::fs::write(inner.join("group.yml"), GROUP).unwrap();
    std::fs::write(folder.join("notes.txt"), "not a manifest: [").unwrap();
    symlink(&folder, inner.join("circle")).unwrap();
    symlink(&folder, inner.join("circle.yaml")).unwrap();
    let output = run(&["check", "-f", folder.to_str().unwrap()], "");
    assert_eq!(output.stdout, "valid: 1 objects; 0 of other kinds ignored\n", "{}", output.stderr);
}

#[test]
fn large_files_are_refused() {
    let padding = "#".repeat(3 * 1024 * 1024);
    let output = run(&["check", "-f", "-"], &format!("{GROUP}{padding}"));
    assert_eq!(output.code, 1);
    assert!(output.stderr.contains("more than 3145728 bytes"), "{}", output.stderr);
}

#[test]
fn repeated_aliases_are_refused() {
    use std::fmt::Write as _;
    let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..9 {
        let alias = format!("*a{}", level - 1);
        let list = vec![alias; 10].join(", ");
        writeln!(text, "a{level}: &a{level} [{list}]").unwrap();
    }
    let output = run(&["check", "-f", "-"], &text);
    assert_eq!(output.code, 1);
    assert!(output.stderr.starts_with("-: invalid YAML: "), "{}", output.stderr);
}

#[test]
fn unreadable_files_are_named() {
    let output = run(&["check", "-f", "/no/such/file.yaml"], "");
    assert_eq!(output.code, 1);
    assert!(output.stderr.starts_with("/no/such/file.yaml: "), "{}", output.stderr);
    let output = run(&["check", "-f", "-"], "a: [");
    assert!(output.stderr.starts_with("-: invalid YAML: "), "{}", output.stderr);
}

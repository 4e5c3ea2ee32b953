//! Documents name files and tests that exist.

use std::collections::BTreeSet;

use super::*;

#[test]
fn paths_in_documents_exist() {
    let mut broken = Vec::new();
    for document in ["README.md", "CONTRIBUTING.md", "SECURITY.md"] {
        let text = fs::read_to_string(root().join(document)).unwrap();
        let outside_code = text.split("```").step_by(2);
        let spans = outside_code.flat_map(|part| part.split('`').skip(1).step_by(2));
        let folders = ["layers/", "services/", "examples/", "tests/"];
        let paths = spans.filter(|span| folders.iter().any(|folder| span.starts_with(folder)));
        let missing = paths.filter(|path| !root().join(path).exists());
        broken.extend(missing.map(|path| format!("{document}: {path}")));
    }
    assert_none(&broken, "a document names a path that does not exist");
}

#[test]
fn tests_named_in_security_exist() {
    let functions: BTreeSet<String> = rust_files()
        .flat_map(|(_, text)| {
            let names = text.split("fn ").skip(1).filter_map(|rest| rest.split_once('('));
            names.map(|(name, _)| name.to_owned()).collect::<Vec<_>>()
        })
        .collect();
    let security = fs::read_to_string(root().join("SECURITY.md")).unwrap();
    let cells = security.lines().filter_map(|line| line.strip_suffix('|')?.rsplit_once('|'));
    let named: Vec<_> = cells
        .flat_map(|(_, shown)| shown.split('`').skip(1).step_by(2))
        .filter(|name| name.contains('_'))
        .collect();
    assert!(named.len() > 20, "the threat model names the tests in its last column");
    // Scripts are referenced by their path.
    let exists = |name: &str| {
        if name.contains('/') { root().join(name).is_file() } else { functions.contains(name) }
    };
    let broken: Vec<_> =
        named.into_iter().filter(|name| !exists(name)).map(str::to_owned).collect();
    assert_none(&broken, "SECURITY.md names a test that does not exist");
}

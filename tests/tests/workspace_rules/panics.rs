//! Errors are values, and all tests run.

use super::*;

/// Forbidden everywhere, tests included: skipped tests and debug output. Split in two, so that this file does not match.
const NOWHERE: [(&str, &str); 2] = [("#[ig", "nore"), ("db", "g!(")];

/// Allowed in tests only.
const IN_TESTS: &[&str] = &[".unwrap()", "panic!(", "todo!(", "unimplemented!(", "unreachable!("];

#[test]
fn no_panics_outside_tests_and_no_skipped_tests() {
    let mut broken = Vec::new();
    let mut report = |path: &Path, line: &str, why: &str| {
        broken.push(format!("{}: {why} in {:?}", path.display(), line.trim()));
    };
    for (path, text) in texts() {
        let is_rust = path.extension().is_some_and(|ending| ending == "rs");
        if !is_rust && path.extension().is_none_or(|ending| ending != "md") {
            continue;
        }
        for line in text.lines() {
            for sought in NOWHERE.map(|(one, two)| format!("{one}{two}")) {
                if line.contains(&sought) {
                    report(&path, line, &sought);
                }
            }
            let fence = line.trim_start_matches(['/', '!', ' ']).strip_prefix("```");
            if fence.is_some_and(|kind| kind.contains("ignore")) {
                report(&path, line, "an example that is not compiled");
            }
        }
        if !is_rust || is_test(&path) {
            continue;
        }
        let code = without_tests(&text).into_iter().filter(|line| !line.trim().starts_with("//"));
        for line in code {
            for sought in IN_TESTS.iter().filter(|sought| line.contains(**sought)) {
                report(&path, line, sought);
            }
        }
    }
    assert_none(&broken, "errors are values, and tests run");
}

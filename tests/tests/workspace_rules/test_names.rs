//! The name of a test is a short sentence.

use super::*;

#[test]
fn test_names_have_at_most_eight_words() {
    const WORDS: usize = 8;
    let mut broken = Vec::new();
    let mut count = 0;
    for (path, text) in rust_files() {
        let mut is_test = false;
        for line in text.lines().map(str::trim) {
            let attribute = line.starts_with("#[test]") || line.starts_with("#[tokio::test");
            let Some((_, function)) = line.split_once("fn ").filter(|_| is_test) else {
                is_test |= attribute;
                continue;
            };
            is_test = false;
            count += 1;
            let name = function.split('(').next().unwrap_or_default();
            if name.split('_').count() > WORDS {
                broken.push(format!("{}: {name}", path.display()));
            }
        }
    }
    assert!(count > 2_000, "{count} tests were found");
    assert_none(&broken, "the name of a test is a sentence of at most eight words");
}

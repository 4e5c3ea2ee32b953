//! The fuzz target of the YAML entry, driven on stable Rust with damaged and made-up documents.

use proptest::prelude::*;

use crate::{
    support::{FULL, MINIMAL},
    survives,
};

#[test]
fn whole_documents_survive() {
    survives::check(FULL);
    survives::check(MINIMAL);
}

#[test]
fn truncated_document_does_not_panic() {
    for (end, _) in FULL.char_indices().step_by(11) {
        survives::check(&FULL[..end]);
    }
}

#[test]
fn document_without_one_line_does_not_panic() {
    let lines: Vec<&str> = FULL.lines().collect();
    for left_out in (0..lines.len()).step_by(3) {
        let text: Vec<&str> = lines
            .iter()
            .enumerate()
            .filter(|(n, _)| *n != left_out)
            .map(|(_, line)| *line)
            .collect();
        survives::check(&text.join("\n"));
    }
}

fn damaged() -> impl Strategy<Value = String> {
    let place = 0..FULL.len();
    let junk = prop::sample::select(vec![
        "", " ", "\n", "\t", "-", ":", "&a ", "*a", "!!str ", "{", "}", "[", "]", "#", "|", ">",
        "'", "\"", "---\n", "\0", "\u{feff}", "0x1", "~", "é",
    ]);
    prop::collection::vec((place, 0..4_usize, junk), 1..6).prop_map(|damages| {
        let mut text = FULL.to_owned();
        for (place, length, junk) in damages {
            let mut start = place.min(text.len());
            while !text.is_char_boundary(start) {
                start -= 1;
            }
            let mut end = (start + length).min(text.len());
            while !text.is_char_boundary(end) {
                end += 1;
            }
            text.replace_range(start..end, junk);
        }
        text
    })
}

proptest! {
    #[test]
    fn parses_or_rejects_damaged_document(text in damaged()) {
        survives::check(&text);
    }

    #[test]
    fn parses_or_rejects_arbitrary_text(text in "\\PC{0,200}") {
        survives::check(&text);
    }

    #[test]
    fn arbitrary_names_survive(name in "\\PC{1,30}", value in "(?s).{0,30}") {
        let document = serde_json::json!({
            "name": name,
            "incomingAuth": {"type": "anonymous"},
            "metadata": {(value.clone()): value},
        });
        survives::check(&document.to_string());
    }
}

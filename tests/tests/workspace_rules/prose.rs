//! Prose names its subject first, in words of the field.

use super::*;

/// Openers of a documentation block that postpone its subject.
const OPENERS: &[&str] = &[
    "Who", "What", "Whose", "Whom", "How", "Where", "Whoever", "Whatever", "Whether", "Why",
    "Nobody", "Somebody", "Anybody",
];

/// Words and phrases that this repository does not use in prose.
const BANNED: &[&str] = &[
    "whoever",
    "whomever",
    "nobody",
    "somebody",
    "anybody",
    "anew",
    "in vain",
    "is told",
    "are told",
    "can be had",
    "had to be had",
    "lets in",
    "let in",
];

/// Returns the comment blocks of a Rust file, each as its lines without the marks.
fn comment_blocks(text: &str) -> Vec<Vec<&str>> {
    let mut blocks = vec![Vec::new()];
    for line in text.lines() {
        let trimmed = line.trim_start();
        let own_line = ["///", "//!", "//"].iter().find_map(|mark| trimmed.strip_prefix(mark));
        // A URL contains two slashes, too.
        let comment = own_line.or_else(|| line.split_once(" // ").map(|(_, comment)| comment));
        match (comment, own_line) {
            (Some(comment), Some(_)) => blocks.last_mut().unwrap().push(comment.trim_start()),
            (comment, _) => {
                blocks.extend(comment.map(|comment| vec![comment]));
                blocks.push(Vec::new());
            }
        }
    }
    blocks.retain(|block| !block.is_empty());
    blocks
}

/// Returns the paragraphs of a Markdown file outside of code fences.
fn paragraphs(text: &str) -> Vec<Vec<&str>> {
    let outside_code = text.split("```").step_by(2);
    outside_code.map(|part| part.lines().collect()).collect()
}

#[test]
fn prose_names_its_subject_first() {
    let mut broken = Vec::new();
    for (path, text) in texts() {
        let is_rust = path.extension().is_some_and(|ending| ending == "rs");
        let is_markdown = path.extension().is_some_and(|ending| ending == "md");
        let blocks = match (is_rust, is_markdown) {
            (true, _) => comment_blocks(&text),
            (_, true) => paragraphs(&text),
            _ => continue,
        };
        for block in blocks {
            let opener = block[0].split(|it: char| !it.is_alphabetic()).next().unwrap_or_default();
            if is_rust && OPENERS.contains(&opener) {
                broken.push(format!("{}: opens with {opener}: {}", path.display(), block[0]));
            }
            let outside_code: Vec<_> =
                block.join(" ").split('`').step_by(2).map(str::to_lowercase).collect();
            let words = outside_code.join(" ");
            let words: Vec<_> = words
                .split(|it: char| !it.is_alphabetic())
                .filter(|word| !word.is_empty())
                .collect();
            let prose = format!(" {} ", words.join(" "));
            let found = BANNED.iter().filter(|phrase| prose.contains(&format!(" {phrase} ")));
            broken.extend(found.map(|phrase| format!("{}: {phrase}", path.display())));
        }
    }
    assert_none(&broken, "a sentence names its actor, in words of the field");
}

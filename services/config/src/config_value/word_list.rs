//! Lists of words in messages.

pub(crate) fn quoted(value: &str) -> String {
    if value.is_empty() { "\"\"".to_owned() } else { value.to_owned() }
}

/// Joins words to `a, b and c`, with `last` as the conjunction.
pub(crate) fn join_list(words: &[&str], last: &str) -> String {
    match words {
        [] => String::new(),
        [word] => quoted(word),
        [most @ .., word] => {
            let most: Vec<_> = most.iter().map(|word| quoted(word)).collect();
            format!("{} {last} {}", most.join(", "), quoted(word))
        }
    }
}

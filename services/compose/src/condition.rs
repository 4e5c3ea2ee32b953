//! Conditions of steps.

/// Parses the text of a condition: exactly one of the spellings of true and false, without space around it.
pub(crate) fn parse(text: &str) -> Option<bool> {
    match text {
        "true" | "True" | "TRUE" => Some(true),
        "false" | "False" | "FALSE" => Some(false),
        _ => None,
    }
}

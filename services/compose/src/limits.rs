//! Limits of definitions and runs.

use std::time::Duration;

use serde_json::Value;

/// Maximum number of steps of a workflow.
pub const MAX_STEPS: usize = 100;
/// Maximum number of steps of a run that run at the same time.
pub const MAX_PARALLEL_STEPS: usize = 10;
/// Timeout of a workflow that names none.
pub const WORKFLOW_TIMEOUT: Duration = Duration::from_mins(30);
/// Timeout of a step that names none.
pub const STEP_TIMEOUT: Duration = Duration::from_mins(5);
/// Longest time that a question waits for its answer.
pub const MAX_ELICITATION_TIMEOUT: Duration = Duration::from_mins(10);
/// Delay before the first retry of a step that names none.
pub const RETRY_DELAY: Duration = Duration::from_secs(1);
/// Maximum size of the schema of a question, in bytes of JSON.
pub const MAX_ELICITATION_SCHEMA_BYTES: usize = 100 * 1024;
/// Maximum nesting of the schema of a question, and of its answer.
pub const MAX_ELICITATION_DEPTH: usize = 10;
/// Maximum size of the message of a question, in bytes.
pub const MAX_MESSAGE_BYTES: usize = 100 * 1024;
/// Maximum size of an answer, in bytes of JSON.
pub const MAX_ANSWER_BYTES: usize = 1024 * 1024;
/// Maximum size of the output of a step or iteration, in bytes of JSON.
pub const MAX_STEP_OUTPUT_BYTES: usize = 1024 * 1024;
/// Maximum size of the output of a `forEach` step, in bytes of JSON.
pub const MAX_LOOP_OUTPUT_BYTES: usize = 10 * 1024 * 1024;
/// Maximum size of the output of a run, in bytes of JSON.
pub const MAX_RUN_OUTPUT_BYTES: usize = 10 * 1024 * 1024;
/// Maximum nesting of the output of a step.
pub const MAX_OUTPUT_DEPTH: usize = 64;
/// Maximum size of a rendered text, and of all texts of a call, in bytes.
pub const MAX_TEXT_BYTES: usize = 10 * 1024 * 1024;

/// Returns the nesting of a value: 1 for a scalar, one more for each object or array around it.
pub(crate) fn depth(value: &Value) -> usize {
    match value {
        Value::Object(members) => 1 + members.values().map(depth).max().unwrap_or(0),
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 1,
    }
}

/// Returns an estimate of the size of a value as JSON, without writing it. At least as large as what it holds in text.
pub(crate) fn size(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) => 5,
        Value::Number(_) => 8,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => 2 + items.iter().map(|item| size(item) + 1).sum::<usize>(),
        Value::Object(members) => {
            2 + members.iter().map(|(name, value)| name.len() + 4 + size(value)).sum::<usize>()
        }
    }
}

/// Cuts text of others in messages: to 300 characters, on one line.
pub(crate) fn shorten(text: &str) -> String {
    const MAX_CHARS: usize = 300;
    let cut: String =
        text.chars().take(MAX_CHARS).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.chars().nth(MAX_CHARS).is_some() { format!("{cut}…") } else { cut }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn measures_depth_and_size() {
        assert_eq!(depth(&json!(1)), 1);
        assert_eq!(depth(&json!([])), 1);
        assert_eq!(depth(&json!({"a": [{"b": 1}], "c": 1})), 4);
        for value in [json!(null), json!("text"), json!([1, "a", {"b": [true]}]), json!({"a": {}})]
        {
            let written = value.to_string().len();
            assert!((written..written + 24).contains(&size(&value)), "{value}: {}", size(&value));
        }
    }

    #[test]
    fn shortens_text_of_others() {
        assert_eq!(shorten("a\nb"), "a b");
        assert_eq!(shorten(&"é".repeat(301)), format!("{}…", "é".repeat(300)));
    }
}

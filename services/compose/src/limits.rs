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
/// Maximum size of the schema of a question, in bytes of compact JSON.
pub const MAX_ELICITATION_SCHEMA_BYTES: usize = 100 * 1024;
/// Maximum nesting of the schema of a question, and of its answer.
pub const MAX_ELICITATION_DEPTH: usize = 10;
/// Maximum size of the message of a question, in bytes.
pub const MAX_MESSAGE_BYTES: usize = 100 * 1024;
/// Maximum size of an answer, in bytes of compact JSON.
pub const MAX_ANSWER_BYTES: usize = 1024 * 1024;
/// Maximum size of the output of a step or iteration, in bytes of compact JSON.
pub const MAX_STEP_OUTPUT_BYTES: usize = 1024 * 1024;
/// Maximum size of the output of a `forEach` step, in bytes of compact JSON.
pub const MAX_LOOP_OUTPUT_BYTES: usize = 10 * 1024 * 1024;
/// Maximum size of the output of a run, in bytes of compact JSON.
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

/// Returns the size of a value as compact JSON, in bytes.
pub(crate) fn json_bytes(value: &Value) -> usize {
    // Brackets or braces, and a comma between two entries.
    let frame = |entries: usize| 2 + entries.saturating_sub(1);
    match value {
        Value::Null | Value::Bool(true) => 4,
        Value::Bool(false) => 5,
        Value::Number(number) => number.to_string().len(),
        Value::String(text) => text_bytes(text),
        Value::Array(items) => frame(items.len()) + items.iter().map(json_bytes).sum::<usize>(),
        Value::Object(members) => {
            let member = |(name, value): (&String, _)| text_bytes(name) + 1 + json_bytes(value);
            frame(members.len()) + members.iter().map(member).sum::<usize>()
        }
    }
}

/// Returns the size of a text as a JSON string with its quotes.
fn text_bytes(text: &str) -> usize {
    let escape = |byte: u8| match byte {
        b'"' | b'\\' | 0x08 | 0x0C | b'\n' | b'\r' | b'\t' => 1,
        0..0x20 => 5,
        _ => 0,
    };
    2 + text.len() + text.bytes().map(escape).sum::<usize>()
}

/// Returns an upper estimate of the memory that a value holds on the heap, in bytes. It is many times the JSON of small numbers
/// and objects.
pub(crate) fn memory(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text_memory(text),
        Value::Array(items) => {
            ALLOCATION_BYTES
                + items.capacity() * size_of::<Value>()
                + items.iter().map(memory).sum::<usize>()
        }
        Value::Object(members) if members.is_empty() => 0,
        Value::Object(members) => {
            let values: usize =
                members.iter().map(|(name, value)| text_memory(name) + memory(value)).sum();
            OBJECT_BYTES + members.len() * MEMBER_BYTES + values
        }
    }
}

fn text_memory(text: &String) -> usize {
    if text.capacity() == 0 { 0 } else { ALLOCATION_BYTES + text.capacity() }
}

/// Overhead of an allocation.
const ALLOCATION_BYTES: usize = 16;
/// Memory of an object's first node, which has room for eleven members, and of its head.
const OBJECT_BYTES: usize = 11 * (size_of::<String>() + size_of::<Value>()) + 24;
/// Memory of a member of an object without its texts: its slot, and as much room that is empty.
const MEMBER_BYTES: usize = (8 + size_of::<String>() + size_of::<Value>()) * 9 / 4;

/// Returns a size as text, in MiB if it is a whole number of them.
pub(crate) fn bytes_text(bytes: usize) -> String {
    const MIB: usize = 1024 * 1024;
    if bytes > 0 && bytes.is_multiple_of(MIB) {
        format!("{} MiB", bytes / MIB)
    } else {
        format!("{bytes} bytes")
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
    use serde_json::{Map, json};

    use super::*;

    #[test]
    fn measures_depth() {
        assert_eq!(depth(&json!(1)), 1);
        assert_eq!(depth(&json!([])), 1);
        assert_eq!(depth(&json!({"a": [{"b": 1}], "c": 1})), 4);
    }

    #[test]
    fn size_is_that_of_compact_json() {
        for value in [
            json!(null),
            json!([true, false]),
            json!("te\"xt\n\u{1}é"),
            json!((0..0x80).map(char::from).collect::<String>()),
            json!([1, -1.5e300, "a", {"b": [true]}]),
            json!({"a": {}, "\t": []}),
            json!(vec![0; 240_000]),
        ] {
            assert_eq!(json_bytes(&value), value.to_string().len());
        }
    }

    #[test]
    fn memory_covers_nodes_and_texts() {
        assert_eq!(memory(&json!({})), 0);
        assert_eq!(memory(&json!(5)), 0);
        assert!(memory(&json!("x".repeat(1_000))) >= 1_000);
        assert!(memory(&json!(vec![0; 1_000])) >= 1_000 * size_of::<Value>());
        // A B-tree allocates its first node whole: eleven slots.
        let slot = size_of::<String>() + size_of::<Value>();
        assert!(memory(&json!({"a": 1})) >= 11 * slot);
        let many: Map<_, _> = (0..1_000).map(|n| (n.to_string(), json!(n))).collect();
        assert!(memory(&Value::Object(many)) >= 2 * 1_000 * slot);
    }

    #[test]
    fn shortens_text_of_others() {
        assert_eq!(shorten("a\nb"), "a b");
        assert_eq!(shorten(&"é".repeat(301)), format!("{}…", "é".repeat(300)));
    }
}

//! Results of tools as outputs of steps.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::limits::{MAX_OUTPUT_DEPTH, MAX_STEP_OUTPUT_BYTES, depth, json_bytes, shorten};
use crate::record::null;
use crate::{StepResult, StepStatus, ToolOutcome};

/// Converts the result of a tool: its structured content, or else its content items by name. `keeps_content` keeps the items
/// beside structured content.
pub(super) fn step_result(outcome: ToolOutcome, keeps_content: bool) -> Result<StepResult, String> {
    let ToolOutcome { content, structured_content, is_error: _ } = outcome;
    let structured = structured_content.filter(Value::is_object);
    let (output, content) = match structured {
        Some(output) if keeps_content => (Arc::new(output), Arc::new(content_map(content))),
        Some(output) => (Arc::new(output), null()),
        None => {
            let content = Arc::new(content_map(content));
            (content.clone(), content)
        }
    };
    check_output(&output)?;
    if !Arc::ptr_eq(&output, &content) {
        check_output(&content)?;
    }
    Ok(StepResult { status: StepStatus::Completed, output, content, error: None })
}

fn check_output(output: &Value) -> Result<(), String> {
    if depth(output) > MAX_OUTPUT_DEPTH {
        return Err(format!("the output is nested deeper than {MAX_OUTPUT_DEPTH} levels"));
    }
    if json_bytes(output) > MAX_STEP_OUTPUT_BYTES {
        return Err(format!(
            "the output is larger than {} MiB: ask the tool for less",
            MAX_STEP_OUTPUT_BYTES / 1024 / 1024
        ));
    }
    Ok(())
}

/// Returns the content items by name: `text`, `text_1`, …, `image_0`, …, `resource`, `resource_1`, ….
fn content_map(content: Vec<Value>) -> Value {
    let (mut texts, mut images, mut resources) = (0_usize, 0_usize, 0_usize);
    let mut map = Map::new();
    for mut item in content {
        let kind = item.get("type").and_then(Value::as_str).unwrap_or_default();
        let (name, value) = match kind {
            "text" => (numbered("text", &mut texts), take(&mut item, "text")),
            "image" => {
                images += 1;
                (format!("image_{}", images - 1), take(&mut item, "data"))
            }
            "resource" => {
                let name = numbered("resource", &mut resources);
                let mut resource = take(&mut item, "resource").unwrap_or_default();
                let text = take(&mut resource, "text").filter(Value::is_string);
                (name, text.or_else(|| take(&mut resource, "blob")))
            }
            _ => continue,
        };
        map.insert(name, value.unwrap_or_default());
    }
    Value::Object(map)
}

fn numbered(name: &str, count: &mut usize) -> String {
    *count += 1;
    if *count == 1 { name.to_owned() } else { format!("{name}_{}", *count - 1) }
}

fn take(value: &mut Value, member: &str) -> Option<Value> {
    value.get_mut(member).map(Value::take)
}

/// Returns the text of a result with `isError`.
pub(super) fn error_text(outcome: &ToolOutcome) -> String {
    let text = outcome
        .content
        .iter()
        .filter(|item| item.get("type").and_then(Value::as_str) == Some("text"))
        .find_map(|item| item.get("text")?.as_str());
    let structured = || {
        let structured = outcome.structured_content.as_ref()?;
        ["error", "message", "text"].iter().find_map(|name| structured.get(name)?.as_str())
    };
    shorten(text.or_else(structured).unwrap_or("tool execution error"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_content_items() {
        let outcome = ToolOutcome {
            content: vec![
                json!({"type": "text", "text": "a"}),
                json!({"type": "image", "data": "aQ==", "mimeType": "image/png"}),
                json!({"type": "text", "text": "b"}),
                json!({"type": "resource", "resource": {"uri": "x:1", "text": "r"}}),
                json!({"type": "resource", "resource": {"uri": "x:2", "blob": "Yg=="}}),
                json!({"type": "audio", "data": ""}),
                json!({"type": "resource_link", "uri": "x:3"}),
            ],
            ..ToolOutcome::default()
        };
        let result = step_result(outcome, false).unwrap();
        let expected = json!({
            "text": "a", "text_1": "b", "image_0": "aQ==", "resource": "r", "resource_1": "Yg==",
        });
        assert_eq!(*result.output, expected);
        assert_eq!(*result.content, expected);
    }

    #[test]
    fn structured_content_is_the_output() {
        let outcome =
            ToolOutcome { structured_content: Some(json!({"n": 1})), ..ToolOutcome::text("text") };
        let result = step_result(outcome.clone(), true).unwrap();
        assert_eq!((*result.output).clone(), json!({"n": 1}));
        assert_eq!(*result.content, json!({"text": "text"}));
        assert_eq!(*step_result(outcome, false).unwrap().content, Value::Null);
        let list = ToolOutcome { structured_content: Some(json!([1])), ..ToolOutcome::text("a") };
        assert_eq!(*step_result(list, false).unwrap().output, json!({"text": "a"}));
    }

    #[test]
    fn limits_size_and_depth_of_output() {
        let large = ToolOutcome::text("x".repeat(MAX_STEP_OUTPUT_BYTES + 1));
        assert!(step_result(large, false).unwrap_err().contains("1 MiB"));
        let beside = ToolOutcome {
            structured_content: Some(json!({})),
            ..ToolOutcome::text("x".repeat(MAX_STEP_OUTPUT_BYTES + 1))
        };
        assert!(step_result(beside.clone(), true).unwrap_err().contains("1 MiB"));
        assert!(step_result(beside, false).is_ok(), "the text is not kept");
        let deep = (0..MAX_OUTPUT_DEPTH).fold(json!(1), |value, _| json!({ "a": value }));
        let error = step_result(ToolOutcome::structured(deep), false).unwrap_err();
        assert!(error.contains("64 levels"), "{error}");
    }

    #[test]
    fn error_text_prefers_text_content() {
        assert_eq!(error_text(&ToolOutcome::failure("broken")), "broken");
        let structured = ToolOutcome::structured(json!({"message": "m"}));
        assert_eq!(error_text(&structured), "m");
        assert_eq!(error_text(&ToolOutcome::default()), "tool execution error");
    }
}

//! `vmcp call`.

use clap::Args;
use serde_json::{Value, json};

use super::output::{Failure, OutputArgs, OutputFormat, block_on, eprint_line, print, print_json};
use super::server_args::ServerArgs;
use super::session::Session;

#[derive(Debug, Args)]
pub(crate) struct Call {
    /// The name of the tool, as `vmcp list` shows it.
    tool: String,
    /// The arguments of the tool: a JSON object.
    #[arg(long, value_name = "JSON", default_value = "{}", value_parser = object)]
    arguments: Value,
    #[command(flatten)]
    server: ServerArgs,
    #[command(flatten)]
    output: OutputArgs,
}

pub(crate) fn object(text: &str) -> Result<Value, String> {
    let value: Value = serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))?;
    if value.is_object() {
        Ok(value)
    } else {
        Err("must be a JSON object, such as {\"city\": \"Bern\"}".to_owned())
    }
}

impl Call {
    pub(crate) fn run(self) -> Result<(), Failure> {
        block_on(self.call())
    }

    async fn call(self) -> Result<(), Failure> {
        let Self { tool, arguments, server, output } = self;
        let session = Session::start(server.load()?.parts).await?;
        for line in session.unreachable() {
            eprint_line(&super::table::plain(&line));
        }
        let params = json!({"name": tool, "arguments": arguments});
        let result = session.request("tools/call", Some(&tool), params).await;
        session.close().await;
        let result = result?;
        match output.format {
            OutputFormat::Json => print_json(&result),
            OutputFormat::Text => print(&as_text(&result)),
        }
        match result["resultType"].as_str() {
            Some("input_required") => Err(Failure::Error(format!(
                "{tool} asks its user for input: call it from a client that can answer"
            ))),
            _ if result["isError"] == true => Err(Failure::AlreadyReported),
            _ => Ok(()),
        }
    }
}

/// Returns the text of a result, and the type of other content.
pub(crate) fn as_text(result: &Value) -> String {
    let content = result["content"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut out = String::new();
    for item in content {
        match item["text"].as_str() {
            Some(text) => out.push_str(&printable(text)),
            None => out.extend(["[", item["type"].as_str().unwrap_or("content"), "]"]),
        }
        out.push('\n');
    }
    if content.is_empty()
        && let Some(structured) = result.get("structuredContent")
    {
        out = format!("{structured:#}\n");
    }
    out
}

/// Removes control characters except line breaks and tabs: a backend must not move the cursor.
fn printable(text: &str) -> String {
    let is_harmful = |c: char| vmcp_core::is_invisible(c) && c != '\n' && c != '\t';
    text.chars().map(|c| if is_harmful(c) { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_text_and_names_other_content() {
        let result = json!({"content": [{"type": "text", "text": "a\n\u{1b}b"}, {"type": "image", "data": ""}]});
        assert_eq!(as_text(&result), "a\n\u{fffd}b\n[image]\n");
        let result = json!({"content": [], "structuredContent": {"a": 1}});
        assert_eq!(as_text(&result), "{\n  \"a\": 1\n}\n");
    }

    #[test]
    fn rejects_arguments_that_are_not_objects() {
        assert!(object("{\"a\": 1}").is_ok());
        for wrong in ["[]", "1", "{", ""] {
            assert!(object(wrong).is_err(), "{wrong}");
        }
    }
}

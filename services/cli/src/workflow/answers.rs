//! Answers to the questions of elicitation steps, from the command line or from the terminal.

use std::io::{self, BufRead, IsTerminal, Write};

use serde_json::{Map, Value, json};

use crate::output::{Failure, eprint_line};
use crate::table::plain;

/// Answers by step: content to accept with, or `decline` or `cancel`.
#[derive(Clone, Debug, Default)]
pub(super) struct Answers(Map<String, Value>);

/// Parses `--answers`.
pub(super) fn parse(text: &str) -> Result<Answers, String> {
    let value: Value = serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))?;
    let Value::Object(answers) = value else {
        return Err("must be a JSON object, such as {\"STEP\": {\"reason\": \"x\"}}".to_owned());
    };
    let is_answer = |answer: &Value| {
        answer.is_object() || matches!(answer.as_str(), Some("decline" | "cancel"))
    };
    match answers.iter().find(|(_, answer)| !is_answer(answer)) {
        Some((step, _)) => {
            Err(format!("the answer to {step} must be an object, \"decline\" or \"cancel\""))
        }
        None => Ok(Answers(answers)),
    }
}

impl Answers {
    /// Returns the steps that have an answer.
    pub(super) fn steps(&self) -> impl Iterator<Item = &String> {
        self.0.keys()
    }

    /// Returns the result of `elicitation/create` for a step: the given answer, or one from the terminal. A given answer
    /// counts once, so that a wrong one is not repeated.
    pub(super) fn answer(&mut self, step: &str, params: &Value) -> Result<Value, Failure> {
        if let Some(given) = self.0.remove(step) {
            return Ok(match given {
                Value::String(action) => json!({"action": action}),
                content => json!({"action": "accept", "content": content}),
            });
        }
        let message = params["message"].as_str().unwrap_or_default();
        if !io::stdin().is_terminal() {
            let message = plain(message);
            return Err(Failure::Error(format!(
                "step {step} asks \"{message}\": give an answer with --answers '{{\"{step}\": {{...}}}}', \
                 or run the command in a terminal"
            )));
        }
        let mut input = io::stdin().lock();
        prompt(message, &params["requestedSchema"], &mut input)
            .map_err(|error| Failure::Error(format!("failed to read the answer: {error}")))
    }
}

/// Asks for each property of the schema.
fn prompt(message: &str, schema: &Value, input: &mut impl BufRead) -> io::Result<Value> {
    for line in message.lines() {
        eprint_line(&plain(line));
    }
    match &*read_line("accept, decline or cancel? [a/d/c] ", input)? {
        "d" | "decline" => return Ok(json!({"action": "decline"})),
        "c" | "cancel" => return Ok(json!({"action": "cancel"})),
        _ => {}
    }
    let mut content = Map::new();
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let kind = property["type"].as_str().unwrap_or("string");
        let text = read_line(&format!("{} ({}): ", plain(name), plain(kind)), input)?;
        if !text.is_empty() {
            content.insert(name.clone(), parse_property(&text, kind));
        }
    }
    Ok(json!({"action": "accept", "content": content}))
}

/// Parses the value of a property. Text that does not fit stays text, and the schema rejects it.
fn parse_property(text: &str, kind: &str) -> Value {
    if kind == "string" {
        return text.into();
    }
    serde_json::from_str(text).unwrap_or_else(|_| text.into())
}

fn read_line(label: &str, input: &mut impl BufRead) -> io::Result<String> {
    let mut error_output = io::stderr().lock();
    error_output.write_all(label.as_bytes())?;
    error_output.flush()?;
    let mut line = String::new();
    if input.read_line(&mut line)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(line.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_typed_properties_from_terminal() {
        let schema = json!({"properties": {
            "n": {"type": "integer"}, "name": {"type": "string"}, "x": {"type": "boolean"},
        }});
        let answer = |text: &str| prompt("Go?", &schema, &mut text.as_bytes());
        let content = json!({"n": 3, "name": "12"});
        let accepted = json!({"action": "accept", "content": content});
        assert_eq!(answer("a\n3\n12\n\n").unwrap(), accepted);
        assert_eq!(answer("d\n").unwrap(), json!({"action": "decline"}));
        assert_eq!(answer("c\n").unwrap(), json!({"action": "cancel"}));
        assert!(answer("a\n").is_err());
    }

    #[test]
    fn given_answers_count_once() {
        let mut answers = parse(r#"{"a": {"n": 1}, "b": "decline"}"#).unwrap();
        let accepted = json!({"action": "accept", "content": {"n": 1}});
        assert_eq!(answers.answer("a", &json!({})).unwrap(), accepted);
        assert_eq!(answers.answer("b", &json!({})).unwrap(), json!({"action": "decline"}));
        for wrong in ["", "[]", r#"{"a": 1}"#, r#"{"a": "accept"}"#] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}

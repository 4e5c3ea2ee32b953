//! Arguments of calls of the two tools.

use bytes::Bytes;
use vmcp_core::escape_invisible;
use vmcp_wire::{Span, elements, members, parse_json_string, validate};

use crate::document::truncated;
use crate::meta_tools::{CALL_TOOL, FIND_TOOL};
use crate::query::Query;

/// Maximum length of a name in an error, in bytes.
const MAX_SHOWN_NAME: usize = 64;

/// Arguments of a call of `call_tool`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallToolArguments {
    /// Name of the tool to call.
    pub name: String,
    /// Range of the tool's own arguments, a JSON object, in the arguments.
    pub parameters: Span,
}

/// Error of arguments, for the model that wrote them: it says what to write instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ArgumentError {
    /// The arguments are not JSON, or not an object.
    #[error("the arguments of {tool} must be a JSON object")]
    NotAnObject {
        /// Name of the called tool.
        tool: &'static str,
    },
    /// A required argument is missing.
    #[error("{name} is required: {hint}")]
    Missing {
        /// Name of the argument.
        name: &'static str,
        /// Remedy.
        hint: &'static str,
    },
    /// An argument is of another type.
    #[error("{name} must be {expected}")]
    Type {
        /// Name of the argument.
        name: &'static str,
        /// Type of the argument.
        expected: &'static str,
    },
    /// An argument occurs twice.
    #[error("{name} occurs twice; write it once")]
    Duplicate {
        /// Name of the argument.
        name: &'static str,
    },
    /// An argument is written in other letter case, or so that some parsers take it for another one.
    #[error("unknown argument {found:?}; write {expected}")]
    Misspelled {
        /// Name as it was written.
        found: String,
        /// Name of the argument.
        expected: &'static str,
    },
    /// The tool has no argument of that name.
    #[error("unknown argument {found:?}; {tool} has {expected}")]
    Unknown {
        /// Name as it was written.
        found: String,
        /// Name of the called tool.
        tool: &'static str,
        /// Names of its arguments.
        expected: &'static str,
    },
}

/// Parses the arguments of `find_tool`.
///
/// # Errors
/// They do not fit its schema.
pub fn parse_find_tool(arguments: &[u8]) -> Result<Query, ArgumentError> {
    const DESCRIPTION: &str = "tool_description";
    const KEYWORDS: &str = "tool_keywords";
    let [description, keywords] = parse(arguments, FIND_TOOL, [DESCRIPTION, KEYWORDS])?;
    let hint = "describe in a sentence what the tool should do";
    let missing = ArgumentError::Missing { name: DESCRIPTION, hint };
    let description = string(arguments, description.ok_or(missing.clone())?, DESCRIPTION)?;
    if description.trim().is_empty() {
        return Err(missing);
    }
    let keywords = match keywords {
        None => Vec::new(),
        Some(span) => {
            let of_strings =
                || ArgumentError::Type { name: KEYWORDS, expected: "an array of strings" };
            let array = span.of(arguments);
            if !array.starts_with(b"[") {
                return Err(of_strings());
            }
            let keywords = elements(array);
            let keywords = keywords.map(|keyword| Some(parse_json_string(keyword)?.into_owned()));
            keywords.collect::<Option<_>>().ok_or_else(of_strings)?
        }
    };
    Ok(Query { description, keywords, max: None })
}

impl CallToolArguments {
    const NAME: &str = "tool_name";
    const PARAMETERS: &str = "parameters";

    /// Parses the arguments of `call_tool`. The tool's own arguments are not parsed: they belong to the tool.
    ///
    /// # Errors
    /// They do not fit its schema.
    pub fn parse(arguments: &[u8]) -> Result<Self, ArgumentError> {
        let [name, parameters] = parse(arguments, CALL_TOOL, [Self::NAME, Self::PARAMETERS])?;
        let hint = "write the name of a tool that find_tool returned, beside parameters and not inside of it";
        let missing = ArgumentError::Missing { name: Self::NAME, hint };
        let name = string(arguments, name.ok_or(missing.clone())?, Self::NAME)?;
        if name.is_empty() {
            return Err(missing);
        }
        let hint = "write the arguments of the tool as an object, or {} if it has none";
        let missing = ArgumentError::Missing { name: Self::PARAMETERS, hint };
        let parameters = parameters.ok_or(missing)?;
        if !parameters.of(arguments).starts_with(b"{") {
            return Err(ArgumentError::Type { name: Self::PARAMETERS, expected: "an object" });
        }
        Ok(Self { name, parameters })
    }

    /// Returns the tool's own arguments of the arguments that were parsed.
    #[must_use]
    pub fn parameters_of(&self, arguments: &Bytes) -> Bytes {
        self.parameters.slice(arguments)
    }
}

/// Returns the range of each argument, of which `names` are all that `tool` has.
fn parse(
    arguments: &[u8],
    tool: &'static str,
    names: [&'static str; 2],
) -> Result<[Option<Span>; 2], ArgumentError> {
    if validate(arguments).is_err() || !arguments.trim_ascii_start().starts_with(b"{") {
        return Err(ArgumentError::NotAnObject { tool });
    }
    let mut found = [None; 2];
    for member in members(arguments) {
        let similar = names.iter().zip(&mut found).find(|(name, _)| member.key.resembles(name));
        let Some((name, place)) = similar else {
            let expected = if tool == FIND_TOOL {
                "tool_description and tool_keywords"
            } else {
                "tool_name and parameters"
            };
            return Err(ArgumentError::Unknown {
                found: shown(&member.key.read()),
                tool,
                expected,
            });
        };
        if !member.key.is(name) {
            return Err(ArgumentError::Misspelled {
                found: shown(&member.key.read()),
                expected: name,
            });
        }
        let span = Span::new(member.value_offset, member.value_offset + member.value.len());
        if place.replace(span).is_some() {
            return Err(ArgumentError::Duplicate { name });
        }
    }
    Ok(found)
}

fn string(arguments: &[u8], span: Span, name: &'static str) -> Result<String, ArgumentError> {
    let string = parse_json_string(span.of(arguments));
    let string = string.ok_or(ArgumentError::Type { name, expected: "a string" })?;
    Ok(string.into_owned())
}

/// Returns a name as an error shows it.
fn shown(name: &str) -> String {
    escape_invisible(truncated(name, MAX_SHOWN_NAME)).into_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn find(arguments: &str) -> Result<Query, String> {
        parse_find_tool(arguments.as_bytes()).map_err(|error| error.to_string())
    }

    fn call(arguments: &str) -> Result<(String, Bytes), String> {
        let parsed = CallToolArguments::parse(arguments.as_bytes());
        let parsed = parsed.map_err(|error| error.to_string())?;
        let parameters = parsed.parameters_of(&Bytes::copy_from_slice(arguments.as_bytes()));
        Ok((parsed.name, parameters))
    }

    #[test]
    fn parses_documented_arguments() {
        let query = find(r#"{"tool_description":"caf\u00e9","tool_keywords":["a","b"]}"#).unwrap();
        assert_eq!((query.description.as_str(), query.keywords.len()), ("café", 2));
        assert!(find(r#" {"tool_description":"a"}"#).unwrap().keywords.is_empty());
        let (name, parameters) = call(r#"{"parameters": {"n": 1.0 }, "tool_name":"t"}"#).unwrap();
        assert_eq!((name.as_str(), &*parameters), ("t", &br#"{"n": 1.0 }"#[..]));
    }

    #[test]
    fn errors_say_what_to_write() {
        for (arguments, expected) in [
            ("", "must be a JSON object"),
            ("[]", "must be a JSON object"),
            ("{", "must be a JSON object"),
            ("{}", "tool_description is required: describe"),
            (r#"{"tool_description":" "}"#, "tool_description is required"),
            (r#"{"tool_description":5}"#, "tool_description must be a string"),
            (
                r#"{"Tool_Description":"a"}"#,
                r#"unknown argument "Tool_Description"; write tool_description"#,
            ),
            (r#"{"tool_description":"a","tool_description":"b"}"#, "tool_description occurs twice"),
            (r#"{"tool_description":"a","tool_d\u0065scription":"b"}"#, "occurs twice"),
            (r#"{"tool_description":"a","tool_keywords":"b"}"#, "must be an array of strings"),
            (r#"{"tool_description":"a","tool_keywords":[1]}"#, "must be an array of strings"),
            (r#"{"tool_description":"a","tool_keywords":null}"#, "must be an array of strings"),
            (r#"{"query":"a"}"#, "find_tool has tool_description and tool_keywords"),
        ] {
            let error = find(arguments).unwrap_err();
            assert!(error.contains(expected), "{arguments}: {error}");
        }
        for (arguments, expected) in [
            (r#"{"tool_name":"t"}"#, "parameters is required"),
            (r#"{"parameters":{"tool_name":"t"}}"#, "beside parameters and not inside of it"),
            (r#"{"tool_name":"","parameters":{}}"#, "tool_name is required"),
            (r#"{"tool_name":"t","parameters":[]}"#, "parameters must be an object"),
            (r#"{"tool_name":"t","parameters":null}"#, "parameters must be an object"),
            (r#"{"tool_name":"t","parameters":{},"PARAMETERS":{}}"#, "write parameters"),
            (r#"{"tool_name":"t","arguments":{}}"#, "call_tool has tool_name and parameters"),
        ] {
            let error = call(arguments).unwrap_err();
            assert!(error.contains(expected), "{arguments}: {error}");
        }
    }

    #[test]
    fn errors_show_names_safely() {
        let error = find(&format!(r#"{{"\u202e{}":1}}"#, "x".repeat(100_000))).unwrap_err();
        assert!(error.len() < 250 && !error.contains('\u{202e}'), "{error}");
    }

    proptest! {
        #[test]
        fn arbitrary_arguments_do_not_panic(arguments in "\\PC{0,60}") {
            let _ = find(&arguments);
            let _ = call(&arguments);
        }

        #[test]
        fn all_strings_survive(text in "\\PC{1,40}", name in "\\PC{1,40}") {
            let arguments = serde_json::json!({"tool_name": name, "parameters": {"a": text}}).to_string();
            let (found, parameters) = call(&arguments).unwrap();
            prop_assert_eq!(found, name);
            let parameters: serde_json::Value = serde_json::from_slice(&parameters).unwrap();
            prop_assert_eq!(parameters["a"].as_str(), Some(&*text));
        }
    }
}

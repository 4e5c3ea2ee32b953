//! Arguments that are repeated in headers: `x-mcp-header` in a tool's input schema (MCP 2026-07-28).

use std::collections::HashSet;

use http::{HeaderMap, HeaderName, HeaderValue};
use memchr::memmem;
use serde_json::Value;
use vmcp_core::Rejection;
use vmcp_decode::header_value;
use vmcp_wire::{find, parse_json_string};

const ANNOTATION: &str = "x-mcp-header";

/// Maximum nesting depth of properties.
const MAX_DEPTH: usize = 64;

/// Argument that is repeated in a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ParamHeader {
    header: HeaderName,
    /// Property names on the path from the arguments to the value.
    path: Vec<String>,
}

/// Returns `true` if some of the definitions may have annotations; other schemas need not be parsed.
pub(crate) fn annotated(definitions: &[u8]) -> bool {
    memmem::find(definitions, ANNOTATION.as_bytes()).is_some()
}

/// Parses the annotations of a tool; `None` if they are invalid, which makes the tool unusable for clients of the stateless
/// generation.
pub(crate) fn of(tool: &[u8]) -> Option<Vec<ParamHeader>> {
    if !annotated(tool) {
        return Some(Vec::new());
    }
    let schema: Value = serde_json::from_slice(find(tool, "inputSchema")?).ok()?;
    let mut found = Vec::new();
    collect(&schema, &mut Vec::new(), &mut found)?;
    let mut seen = HashSet::new();
    found.iter().all(|param: &ParamHeader| seen.insert(param.header.clone())).then_some(found)
}

fn collect(schema: &Value, path: &mut Vec<String>, found: &mut Vec<ParamHeader>) -> Option<()> {
    if path.len() > MAX_DEPTH {
        return None;
    }
    let Some(Value::Object(properties)) = schema.get("properties") else { return Some(()) };
    for (property, schema) in properties {
        path.push(property.clone());
        if let Some(annotation) = schema.get(ANNOTATION) {
            let header = format!("mcp-param-{}", annotation.as_str().filter(|h| !h.is_empty())?);
            let header = HeaderName::from_bytes(header.as_bytes()).ok()?;
            let kind = schema.get("type").and_then(Value::as_str)?;
            if !matches!(kind, "string" | "integer" | "boolean") {
                return None;
            }
            found.push(ParamHeader { header, path: path.clone() });
        }
        collect(schema, path, found)?;
        path.pop();
    }
    Some(())
}

/// Rejects a request whose headers contradict its arguments.
pub(crate) fn check(
    params: &[ParamHeader],
    headers: &HeaderMap,
    arguments: Option<&[u8]>,
) -> Result<(), Rejection> {
    for param in params {
        let argument = param.value(arguments);
        let mut values = headers.get_all(&param.header).iter();
        let (first, second) = (values.next(), values.next());
        let problem = match (first, argument) {
            _ if second.is_some() => "appears more than once",
            (None, None) => continue,
            (None, Some(_)) => "is missing",
            (Some(_), None) => "is there, but not the argument",
            (Some(value), Some(argument)) => match header_value::decode(value) {
                Some(text) if text == argument => continue,
                Some(_) => "differs from the argument",
                None => "is not valid base64 text",
            },
        };
        return Err(Rejection::header_mismatch(param.header.as_str(), problem));
    }
    Ok(())
}

/// Copies the annotated arguments into the headers of a request to the backend.
pub(crate) fn add(params: &[ParamHeader], headers: &mut HeaderMap, arguments: Option<&[u8]>) {
    for param in params {
        let value: Option<HeaderValue> =
            param.value(arguments).and_then(|text| header_value::encode(&text));
        if let Some(value) = value {
            headers.insert(param.header.clone(), value);
        }
    }
}

impl ParamHeader {
    /// Returns the argument as text; `None` if it is absent, null or of a type that a header cannot repeat.
    fn value(&self, arguments: Option<&[u8]>) -> Option<String> {
        let mut value = arguments?;
        for property in &self.path {
            value = find(value, property)?;
        }
        match value.first()? {
            b'"' => parse_json_string(value).map(std::borrow::Cow::into_owned),
            b'n' | b'{' | b'[' => None,
            _ => std::str::from_utf8(value).ok().map(str::to_owned),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOOL: &[u8] = br#"{"name":"q","inputSchema":{"type":"object","properties":{
        "region":{"type":"string","x-mcp-header":"Region"},
        "deep":{"type":"object","properties":{"n":{"type":"integer","x-mcp-header":"N"}}}}}}"#;

    #[test]
    fn rejects_arguments_that_contradict_headers() {
        let params = of(TOOL).unwrap();
        let arguments: &[u8] = br#"{"region":"gr\u00fcn","deep":{"n":3}}"#;
        let mut headers = HeaderMap::new();
        assert!(check(&params, &headers, Some(arguments)).is_err());
        add(&params, &mut headers, Some(arguments));
        assert_eq!(headers["mcp-param-n"], "3");
        assert_eq!(check(&params, &headers, Some(arguments)), Ok(()));
        assert!(check(&params, &headers, Some(b"{}")).is_err());
        headers.insert("mcp-param-n", HeaderValue::from_static("4"));
        assert_eq!(check(&params, &headers, Some(arguments)).unwrap_err().code(), -32020);
    }

    #[test]
    fn rejects_invalid_header_annotations() {
        for bad in [
            r#"{"a":{"type":"object","x-mcp-header":"A"}}"#,
            r#"{"a":{"type":"string","x-mcp-header":""}}"#,
            r#"{"a":{"type":"string","x-mcp-header":"a b"}}"#,
            r#"{"a":{"type":"string","x-mcp-header":"A"},"b":{"type":"string","x-mcp-header":"a"}}"#,
        ] {
            let tool = format!(r#"{{"name":"t","inputSchema":{{"properties":{bad}}}}}"#);
            assert_eq!(of(tool.as_bytes()), None, "{bad}");
        }
        assert_eq!(of(br#"{"name":"t","inputSchema":{}}"#), Some(Vec::new()));
    }
}

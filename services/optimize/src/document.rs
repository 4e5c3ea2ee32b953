//! One tool as the index knows it.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;
use vmcp_core::Fingerprint;
use vmcp_wire::{find, parse_json_string, validate};

use crate::terms::TermHashes;

/// Units in which occurrences count, so that lengths add up exactly in any order: a description's word is one occurrence.
pub(crate) const UNITS: u16 = 4;

/// Weight of a word by its place, in [`UNITS`]. Names are chosen to be found by; descriptions of parameters mention much that
/// the tool is not about.
const NAME: u16 = 12;
const TITLE: u16 = 4;
const DESCRIPTION: u16 = 4;
const SERVER: u16 = 4;
const PARAMETER_NAME: u16 = 2;
const PARAMETER_DESCRIPTION: u16 = 1;

/// Maximum length of a description that is indexed, in bytes. The rest is ignored.
const MAX_TEXT: usize = 16 * 1024;

/// Maximum number of parameters of a tool that are indexed, those of inner objects included.
const MAX_PARAMETERS: usize = 256;

/// Maximum depth of a schema that is searched for parameters.
const MAX_DEPTH: usize = 8;

/// Maximum length of the text that is embedded, in bytes. Models read 256 to 8,192 tokens.
pub(crate) const MAX_EMBEDDED_TEXT: usize = 4 * 1024;

/// Tool of the index: its definition, and the terms by which it is found.
pub(crate) struct Document {
    pub(crate) server: Arc<str>,
    pub(crate) name: Box<str>,
    pub(crate) definition: Bytes,
    /// Hashes of the terms, in order.
    pub(crate) terms: Box<[u64]>,
    /// Number of occurrences of each term, in [`UNITS`].
    pub(crate) frequencies: Box<[u16]>,
    /// Sum of the frequencies.
    pub(crate) length: u32,
    /// Fingerprint of the text that is embedded.
    pub(crate) embedding_key: Fingerprint,
}

/// Members of a definition that are indexed. All but the name may be missing or of another type.
struct Definition<'a> {
    name: Cow<'a, str>,
    title: Cow<'a, str>,
    description: Cow<'a, str>,
    input_schema: Value,
}

impl Document {
    /// Indexes a tool.
    ///
    /// Returns `None` if the definition is not a JSON object with a `name`.
    pub(crate) fn new(
        server: Arc<str>,
        definition: Bytes,
        terms: &mut TermHashes<'_>,
    ) -> Option<Self> {
        let parsed = Definition::parse(&definition)?;
        // Sorted once at the end: that costs less than a map with an entry for each term.
        let mut occurrences = Vec::<(u64, u16)>::new();
        let mut count = |text: &str, weight: u16| {
            terms.for_each(truncated(text, MAX_TEXT), |term| occurrences.push((term, weight)));
        };
        count(&parsed.name, NAME);
        count(&parsed.title, TITLE);
        count(&parsed.description, DESCRIPTION);
        count(&server, SERVER);
        let mut parameters_left = MAX_PARAMETERS;
        for_each_parameter(&parsed.input_schema, 0, &mut parameters_left, &mut |name, text| {
            count(name, PARAMETER_NAME);
            count(text, PARAMETER_DESCRIPTION);
        });
        let (terms, frequencies) = sum_by_term(occurrences);
        let length = frequencies.iter().map(|frequency| u32::from(*frequency)).sum();
        let embedding_key = Fingerprint::of(&*embedded_text(&server, &parsed));
        let name = parsed.name.into();
        Some(Self { server, name, definition, terms, frequencies, length, embedding_key })
    }

    /// Returns the text that is embedded. It is not stored: it is needed once for each model.
    pub(crate) fn embedded_text(&self) -> String {
        // The same bytes were parsed when the document was made; the name alone is a text, too.
        let parsed = Definition::parse(&self.definition);
        parsed.map_or_else(|| (*self.name).to_owned(), |it| embedded_text(&self.server, &it))
    }
}

impl<'a> Definition<'a> {
    fn parse(json: &'a [u8]) -> Option<Self> {
        validate(json).ok()?;
        let string = |name| find(json, name).and_then(parse_json_string);
        // A number may be out of serde_json's range; the tool is found by the rest.
        let schema = find(json, "inputSchema").map(serde_json::from_slice);
        Some(Self {
            name: string("name")?,
            title: string("title").unwrap_or_default(),
            description: string("description").unwrap_or_default(),
            input_schema: schema.and_then(Result::ok).unwrap_or_default(),
        })
    }
}

/// Returns the different terms in order, and the sum of the weights of each.
fn sum_by_term(mut occurrences: Vec<(u64, u16)>) -> (Box<[u64]>, Box<[u16]>) {
    occurrences.sort_unstable();
    let groups = occurrences.chunk_by(|(one, _), (other, _)| one == other);
    let sums = groups.map(|group| {
        let sum = group.iter().fold(0_u16, |sum, (_, weight)| sum.saturating_add(*weight));
        (group[0].0, sum)
    });
    let (terms, frequencies): (Vec<_>, Vec<_>) = sums.unzip();
    (terms.into(), frequencies.into())
}

/// Returns the text of which the embedding of a tool is made.
fn embedded_text(server: &str, definition: &Definition<'_>) -> String {
    let Definition { name, description, .. } = definition;
    let mut text = format!("server: {server} name: {name} description: {description}");
    text.truncate(truncated(&text, MAX_EMBEDDED_TEXT).len());
    text
}

/// Returns the longest beginning of `text` that has at most `max` bytes.
pub(crate) fn truncated(text: &str, max: usize) -> &str {
    if text.len() <= max { text } else { &text[..text.floor_char_boundary(max)] }
}

/// Calls `visit` with the name and the description of each parameter, those of inner objects included.
fn for_each_parameter<'a>(
    schema: &'a Value,
    depth: usize,
    left: &mut usize,
    visit: &mut impl FnMut(&'a str, &'a str),
) {
    if depth > MAX_DEPTH {
        return;
    }
    if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
        for (name, property) in properties {
            let Some(fewer) = left.checked_sub(1) else { return };
            *left = fewer;
            let text = property.get("description").and_then(Value::as_str).unwrap_or_default();
            visit(name, text);
            for_each_parameter(property, depth + 1, left, visit);
        }
    }
    for inner in ["items", "additionalProperties"] {
        if let Some(inner) = schema.get(inner) {
            for_each_parameter(inner, depth + 1, left, visit);
        }
    }
    for alternatives in ["anyOf", "oneOf", "allOf"] {
        let alternatives = schema.get(alternatives).and_then(Value::as_array);
        for alternative in alternatives.into_iter().flatten() {
            for_each_parameter(alternative, depth + 1, left, visit);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::terms::Vocabulary;

    fn parse(server: &str, definition: Bytes) -> Option<Document> {
        Document::new(server.into(), definition, &mut TermHashes::new(&Vocabulary::new()))
    }

    fn document(definition: &Value) -> Document {
        parse("git-hub", definition.to_string().into()).unwrap()
    }

    #[test]
    fn places_have_weights() {
        let bare = document(&json!({"name": "createIssue"}));
        assert_eq!(bare.length, u32::from(2 * NAME + 2 * SERVER));
        let full = document(&json!({
            "name": "createIssue", "title": "Opens", "description": "Opens tickets",
            "inputSchema": {"properties": {"labels": {
                "description": "colors",
                "items": {"anyOf": [{"properties": {"tint": {}}}]},
            }}},
        }));
        let more = TITLE + 2 * DESCRIPTION + 2 * PARAMETER_NAME + PARAMETER_DESCRIPTION;
        assert_eq!(full.length, bare.length + u32::from(more));
        assert_eq!(full.terms.len(), 4 + 5);
    }

    #[test]
    fn large_definitions_are_bounded() {
        let properties: serde_json::Map<_, _> =
            (0..1000).map(|at| (format!("p{at}"), json!({}))).collect();
        let description = "word ".repeat(100_000);
        let document = document(&json!({
            "name": "a", "description": description, "inputSchema": {"properties": properties},
        }));
        assert!(document.terms.len() <= 3 + 1 + MAX_PARAMETERS + 1, "{}", document.terms.len());
        assert!(document.embedded_text().len() <= MAX_EMBEDDED_TEXT);
    }

    #[test]
    fn odd_members_do_not_matter() {
        let odd = r#"{"name":"read","title":5,"description":null,"inputSchema":{"maximum":1e999}}"#;
        let document = parse("s", Bytes::from_static(odd.as_bytes())).unwrap();
        assert_eq!((&*document.name, document.terms.len()), ("read", 2));
        assert_eq!(document.embedded_text(), "server: s name: read description: ");
    }

    #[test]
    fn rejects_definition_without_name() {
        for definition in ["{}", "[]", "", r#"{"name":5}"#, r#"{"name":"a""#, r#"{"name":"a"} {}"#]
        {
            let definition = Bytes::from_static(definition.as_bytes());
            assert!(parse("s", definition).is_none());
        }
    }
}

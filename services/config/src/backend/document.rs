//! Types of a backend that depend on the document: a file may read environment variables in the URL and in headers, a
//! resource may not.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde::Serialize;
use url::Url;

use crate::{
    config_value::{ConfigValue, values},
    context::Context,
    patterns,
    string_types::HeaderName,
    template::{MissingVariable, Template},
    tree::{Node, NodeKind},
};

/// Maximum number of headers of one backend.
const MAX_HEADERS: usize = 32;

/// The kind of document that a backend is listed in: [`FileDocument`] or [`ResourceDocument`].
pub trait BackendDocument: Clone + std::fmt::Debug + PartialEq + Send + Sync + 'static {
    /// The type of `url`.
    type Url: ConfigValue + Clone + std::fmt::Debug + PartialEq + Send + Sync;
    /// The type of `headers`.
    type Headers: ConfigValue + Clone + std::fmt::Debug + PartialEq + Default + Send + Sync;

    /// Returns the last part of the type's name in the JSON Schema.
    fn schema_name() -> &'static str;
}

/// File that the server reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileDocument {}

/// Inline configuration of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResourceDocument {}

/// Headers of a backend in a resource. The type has no values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoHeaders {}

/// The URL of a backend, with or without placeholders.
#[derive(Clone, Debug, PartialEq)]
pub enum BackendUrl {
    /// A URL without placeholders.
    Literal(Url),
    /// A URL with placeholders for environment variables.
    Template(Template),
}

/// Headers of one backend: at most 32, with names that are unique regardless of case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headers(Vec<(HeaderName, HeaderTemplate)>);

/// The value of a header, with or without placeholders. `Debug` hides it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderTemplate(Template);

/// Error of a URL whose placeholders cannot be filled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BackendUrlError {
    /// A variable has no value.
    #[error(transparent)]
    MissingVariable(#[from] MissingVariable),
    /// The text with the values is not a URL of a backend. Does not quote it: a value may be a secret.
    #[error("with the values of its variables, the URL is not {}", patterns::HTTP.meaning)]
    InvalidUrl,
}

impl BackendDocument for FileDocument {
    type Url = BackendUrl;
    type Headers = Headers;

    fn schema_name() -> &'static str {
        "File"
    }
}

impl BackendDocument for ResourceDocument {
    type Url = Url;
    type Headers = Option<NoHeaders>;

    fn schema_name() -> &'static str {
        "Resource"
    }
}

// === impl BackendUrl ===

impl BackendUrl {
    /// Returns the URL with its placeholders filled. `lookup` returns the value of a variable.
    ///
    /// # Errors
    /// A variable has no value, or the result is not an http or https URL without user and password.
    pub fn resolve(&self, lookup: impl Fn(&str) -> Option<String>) -> Result<Url, BackendUrlError> {
        match self {
            Self::Literal(url) => Ok(url.clone()),
            Self::Template(template) => {
                parse(&template.resolve(lookup)?).ok_or(BackendUrlError::InvalidUrl)
            }
        }
    }

    /// Returns the origin with its placeholders if it contains any. Messages show it instead of the resolved origin,
    /// because the value of a placeholder may be a secret.
    #[must_use]
    pub fn hidden_origin(&self) -> Option<&str> {
        let Self::Template(template) = self else { return None };
        let source = template.source();
        let (mut depth, mut slashes, mut has_variable) = (false, 0, false);
        let mut end = source.len();
        for (at, c) in source.char_indices() {
            match c {
                '{' if source[..at].ends_with('$') && !depth => {
                    (depth, has_variable) = (true, true);
                }
                '}' => depth = false,
                _ if depth => {}
                '/' => slashes += 1,
                _ => {}
            }
            // The third one begins the path, unless a variable holds the scheme too.
            let begins_path = slashes == if source.starts_with("${") { 1 } else { 3 };
            if begins_path || (!depth && matches!(c, '?' | '#')) {
                end = at;
                break;
            }
        }
        has_variable.then(|| &source[..end])
    }

    /// Returns the URL as written in the document, with its placeholders.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Literal(url) => url.as_str(),
            Self::Template(template) => template.source(),
        }
    }
}

fn parse(text: &str) -> Option<Url> {
    let url = Url::parse(text).ok()?;
    let plain = url.username().is_empty() && url.password().is_none();
    (plain && patterns::HTTP.matches(text) && url.has_host()).then_some(url)
}

impl ConfigValue for BackendUrl {
    fn read(node: &Node, cx: &mut Context) -> Option<Self> {
        let template = read_template(node, false, cx)?;
        if template.is_literal() {
            return Url::read(node, cx).map(Self::Literal);
        }
        // A digit fits into each part of a URL, the port too.
        let sample =
            template.resolve(|_| Some("1".to_owned())).expect("all variables have a value");
        if !template.starts_with_variable() && parse(&sample).is_none() {
            let allowed = format!("{}, without user and password", patterns::HTTP.meaning);
            cx.reject_as(node, "an invalid URL with placeholders", allowed, None);
            return None;
        }
        Some(Self::Template(template))
    }

    fn field_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": r"^(https?://|\$\{)" })
    }

    fn placeholder() -> Option<Self> {
        Url::placeholder().map(Self::Literal)
    }
}

impl Serialize for BackendUrl {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl schemars::JsonSchema for BackendUrl {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "BackendUrl".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Self::field_schema(generator)
    }
}

// === impl Headers ===

impl Headers {
    /// Returns the headers in document order.
    pub fn iter(&self) -> impl Iterator<Item = &(HeaderName, HeaderTemplate)> {
        self.0.iter()
    }

    /// Returns `true` if there are no headers.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn contains(&self, name: &HeaderName) -> bool {
        self.iter().any(|(known, _)| known.as_str().eq_ignore_ascii_case(name.as_str()))
    }
}

impl ConfigValue for Headers {
    fn read(node: &Node, cx: &mut Context) -> Option<Self> {
        let NodeKind::Map(entries) = &node.kind else {
            cx.reject_as(node, node.describe_kind(), "a map", None);
            return None;
        };
        let before = cx.count();
        if entries.len() > MAX_HEADERS {
            let found = format!("{} headers", entries.len());
            cx.reject_as(node, found, format!("at most {MAX_HEADERS} headers"), None);
        }
        let mut headers = Self::default();
        for entry in entries {
            cx.at_key(&entry.key, |cx| {
                let value = HeaderTemplate::read(&entry.value, cx);
                match HeaderName::new(&entry.key) {
                    None => {
                        let allowed = patterns::HEADER_NAME.meaning;
                        cx.reject_as(
                            &entry.value,
                            "a key that is not a header name",
                            allowed,
                            None,
                        );
                    }
                    Some(name) if headers.contains(&name) => {
                        let found = "a duplicate header (names ignore case)";
                        cx.reject_as(&entry.value, found, "each header once", None);
                    }
                    Some(name) => headers.0.extend(value.map(|value| (name, value))),
                }
            });
        }
        (cx.count() == before).then_some(headers)
    }

    fn field_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "maxProperties": MAX_HEADERS,
            "propertyNames": { "pattern": patterns::HEADER_NAME.regex },
            "additionalProperties": { "type": "string", "minLength": 1 },
        })
    }
}

impl Serialize for Headers {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter().map(|(name, value)| (name, value)))
    }
}

impl schemars::JsonSchema for Headers {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Headers".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Self::field_schema(generator)
    }
}

// === impl HeaderTemplate ===

impl HeaderTemplate {
    /// Returns the template of the value.
    #[must_use]
    pub fn template(&self) -> &Template {
        &self.0
    }
}

impl ConfigValue for HeaderTemplate {
    fn read(node: &Node, cx: &mut Context) -> Option<Self> {
        if node.text() == Some("") {
            cx.reject_as(node, "an empty value", "non-empty text", None);
            return None;
        }
        read_template(node, true, cx).map(Self)
    }

    fn is_secret() -> bool {
        true
    }
}

impl Serialize for HeaderTemplate {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.source())
    }
}

impl schemars::JsonSchema for HeaderTemplate {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "HeaderTemplate".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "minLength": 1 })
    }
}

fn read_template(node: &Node, is_secret: bool, cx: &mut Context) -> Option<Template> {
    match Template::new(values::text(node, is_secret, cx)?) {
        Ok(template) => Some(template),
        Err(error) => {
            let allowed = "text with ${NAME} or ${NAME:-default} for environment variables; write $${ for a literal ${";
            cx.reject_as(node, error.to_string(), allowed, None);
            None
        }
    }
}

// === impl NoHeaders ===

impl ConfigValue for NoHeaders {
    fn read(node: &Node, cx: &mut Context) -> Option<Self> {
        let allowed = "no headers; use an MCPExternalAuthConfig of type headerInjection";
        cx.reject_as(node, "headers of a backend", allowed, None);
        None
    }

    fn is_never() -> bool {
        true
    }
}

impl Serialize for NoHeaders {
    fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        match *self {}
    }
}

impl schemars::JsonSchema for NoHeaders {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "NoHeaders".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "not": {} })
    }
}

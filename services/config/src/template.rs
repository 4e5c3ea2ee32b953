//! Text with placeholders for environment variables: `${NAME}` and `${NAME:-default}`.

use std::fmt;

use crate::string_types::EnvName;

/// Maximum number of placeholders in one text.
const MAX_PLACEHOLDERS: usize = 16;

/// Text in which `${NAME}` is replaced by an environment variable and `${NAME:-default}` by the default where the
/// variable is unset or empty. `$${` is a literal `${`. Values are inserted as they are. `Debug` shows the names of the
/// variables alone: the rest may be a secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Template {
    source: String,
    parts: Vec<Part>,
}

#[derive(Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    Variable { name: EnvName, default: Option<String> },
}

/// Error of a text that is not a template. Quotes nothing of the text but a variable's name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// `${` without `}`.
    #[error("a ${{ without }}")]
    Unclosed,
    /// A placeholder that does not hold the name of an environment variable.
    #[error("a placeholder that is not ${{NAME}} or ${{NAME:-default}}")]
    InvalidName,
    /// Too many placeholders.
    #[error("more than {MAX_PLACEHOLDERS} placeholders")]
    TooManyPlaceholders,
}

/// Error of a template with a variable that is unset or empty and has no default.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the environment variable {0} is not set")]
pub struct MissingVariable(pub EnvName);

impl Template {
    /// Parses a template.
    ///
    /// # Errors
    /// The first placeholder that cannot be read.
    pub fn new(source: &str) -> Result<Self, TemplateError> {
        let mut parts = Vec::new();
        let mut text = String::new();
        let mut rest = source;
        while let Some(at) = rest.find("${") {
            if let Some(before) = rest[..at].strip_suffix('$') {
                text.push_str(before);
                text.push_str("${");
                rest = &rest[at + 2..];
                continue;
            }
            text.push_str(&rest[..at]);
            if !text.is_empty() {
                parts.push(Part::Text(std::mem::take(&mut text)));
            }
            let end = rest[at..].find('}').ok_or(TemplateError::Unclosed)? + at;
            parts.push(parse_variable(&rest[at + 2..end])?);
            rest = &rest[end + 1..];
        }
        text.push_str(rest);
        if !text.is_empty() {
            parts.push(Part::Text(text));
        }
        let template = Self { source: source.to_owned(), parts };
        if template.variables().count() > MAX_PLACEHOLDERS {
            return Err(TemplateError::TooManyPlaceholders);
        }
        Ok(template)
    }

    /// Returns the text with its placeholders.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Returns the variables of the placeholders, in order.
    pub fn variables(&self) -> impl Iterator<Item = &EnvName> {
        self.parts.iter().filter_map(|part| match part {
            Part::Text(_) => None,
            Part::Variable { name, default: _ } => Some(name),
        })
    }

    /// Returns `true` if the text contains no placeholder.
    #[must_use]
    pub fn is_literal(&self) -> bool {
        self.variables().next().is_none()
    }

    /// Returns `true` if the text begins with a placeholder.
    pub(crate) fn starts_with_variable(&self) -> bool {
        matches!(self.parts.first(), Some(Part::Variable { .. }))
    }

    /// Returns the text with its placeholders filled. `lookup` returns the value of a variable.
    ///
    /// # Errors
    /// A variable without value and default.
    pub fn resolve(
        &self,
        lookup: impl Fn(&str) -> Option<String>,
    ) -> Result<String, MissingVariable> {
        let mut text = String::with_capacity(self.source.len());
        for part in &self.parts {
            match part {
                Part::Text(literal) => text.push_str(literal),
                Part::Variable { name, default } => {
                    let value = lookup(name.as_str()).filter(|value| !value.is_empty());
                    let value = value.or_else(|| default.clone());
                    text.push_str(&value.ok_or_else(|| MissingVariable(name.clone()))?);
                }
            }
        }
        Ok(text)
    }
}

impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Template").field(&self.variables().collect::<Vec<_>>()).finish()
    }
}

fn parse_variable(inside: &str) -> Result<Part, TemplateError> {
    let (name, default) = match inside.split_once(":-") {
        Some((name, default)) => (name, Some(default.to_owned())),
        None => (inside, None),
    };
    let name = EnvName::new(name).ok_or(TemplateError::InvalidName)?;
    Ok(Part::Variable { name, default })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn resolve(text: &str) -> Result<String, MissingVariable> {
        Template::new(text).unwrap().resolve(|name| match name {
            "A" => Some("1".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        })
    }

    #[test]
    fn fills_placeholders_with_variables_or_defaults() {
        for (text, filled) in [
            ("", ""),
            ("plain $A {A}", "plain $A {A}"),
            ("${A}", "1"),
            ("x${A}y${A}z", "x1y1z"),
            ("${B:-https://b.test}/mcp", "https://b.test/mcp"),
            ("${EMPTY:-e}", "e"),
            ("${B:-}", ""),
            ("$${A}", "${A}"),
            ("$$${A}", "$${A}"),
        ] {
            assert_eq!(resolve(text).as_deref(), Ok(filled), "{text}");
        }
        assert_eq!(resolve("${B}").unwrap_err().0.as_str(), "B");
        assert_eq!(resolve("${EMPTY}").unwrap_err().0.as_str(), "EMPTY");
    }

    #[test]
    fn rejects_malformed_placeholders() {
        for (text, error) in [
            ("${", TemplateError::Unclosed),
            ("a ${A", TemplateError::Unclosed),
            ("${}", TemplateError::InvalidName),
            ("${env:A}", TemplateError::InvalidName),
            ("${1A}", TemplateError::InvalidName),
            ("${A B}", TemplateError::InvalidName),
        ] {
            assert_eq!(Template::new(text), Err(error), "{text}");
        }
        assert_eq!(Template::new(&"${A}".repeat(17)), Err(TemplateError::TooManyPlaceholders));
    }

    #[test]
    fn hides_text_in_debug_output() {
        let template = Template::new("Bearer hunter2 ${TOKEN:-hunter3}").unwrap();
        assert!(!format!("{template:?}").contains("hunter"));
        assert!(format!("{template:?}").contains("TOKEN"));
    }

    proptest! {
        #[test]
        fn keeps_text_without_placeholders(text in "[^$]*") {
            prop_assert_eq!(resolve(&text).unwrap(), text);
        }

        #[test]
        fn never_panics(text in "[$\\{\\}A:-é ]*") {
            _ = Template::new(&text).map(|template| template.resolve(|_| None));
        }
    }
}

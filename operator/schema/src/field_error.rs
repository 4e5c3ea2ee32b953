use std::fmt;

use serde_json::Value;

/// One mistake in an object, in the API server's form.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct FieldError {
    /// Path of the field, such as `spec.ports[0].name`.
    pub field: String,
    /// Kind of the mistake.
    pub kind: FieldErrorKind,
    /// Value found; `None` where the API server leaves it out.
    pub value: Option<Value>,
    /// Detail after the kind and the value; may be empty.
    pub detail: String,
}

/// Kind of a [`FieldError`]: `reason` of a cause in a `Status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FieldErrorKind {
    /// Required field without a value.
    Required,
    /// Value outside its bounds, pattern or rule.
    Invalid,
    /// Value of another type.
    TypeInvalid,
    /// Value outside an enumeration.
    NotSupported,
    /// Two items of a list with equal keys.
    Duplicate,
    /// String longer than allowed.
    TooLong,
    /// More items than allowed.
    TooMany,
    /// Field that must not be set.
    Forbidden,
}

impl FieldError {
    pub(crate) fn new(
        field: &str,
        kind: FieldErrorKind,
        value: Option<&Value>,
        detail: impl Into<String>,
    ) -> Self {
        let field = field.strip_prefix('.').unwrap_or(field).to_owned();
        Self { field, kind, value: value.cloned(), detail: detail.into() }
    }

    /// Returns the message without the field's path.
    #[must_use]
    pub fn body(&self) -> String {
        let mut text = self.kind.label().to_owned();
        if let Some(value) = &self.value {
            text.push_str(": ");
            text.push_str(&value.to_string());
        }
        if !self.detail.is_empty() {
            text.push_str(": ");
            text.push_str(&self.detail);
        }
        text
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A path without segments is `<nil>` in Go's `field.Path`.
        let field = if self.field.is_empty() { "<nil>" } else { &self.field };
        write!(f, "{field}: {}", self.body())
    }
}

impl std::error::Error for FieldError {}

impl FieldErrorKind {
    /// Returns whether an object with this mistake is not judged by CEL rules.
    pub(crate) fn blocks_rules(self) -> bool {
        matches!(
            self,
            Self::NotSupported | Self::Required | Self::TooLong | Self::TooMany | Self::TypeInvalid
        )
    }

    /// Returns the text in messages, such as `Required value`.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Required => "Required value",
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Duplicate => "Duplicate value",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
            Self::Forbidden => "Forbidden",
        }
    }

    /// Returns the `reason` of a `StatusCause`.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Self::Required => "FieldValueRequired",
            Self::Invalid => "FieldValueInvalid",
            Self::TypeInvalid => "FieldValueTypeInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Duplicate => "FieldValueDuplicate",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::Forbidden => "FieldValueForbidden",
        }
    }
}

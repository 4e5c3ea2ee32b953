use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::cel::Rules;
use crate::{FieldError, FieldErrorKind};

/// Structural schema (`openAPIV3Schema` of a CustomResourceDefinition).
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
#[expect(clippy::struct_excessive_bools, reason = "each is a keyword of the schema")]
pub struct Schema {
    /// JSON type; absent with `x-kubernetes-int-or-string`.
    #[serde(rename = "type")]
    pub type_name: Option<String>,
    /// Format of a string or number.
    pub format: Option<String>,
    /// `true` if `null` is a value.
    pub nullable: bool,
    /// Value of an absent field.
    pub default: Option<Value>,
    /// Allowed values.
    #[serde(rename = "enum")]
    pub enumeration: Option<Vec<Value>>,
    /// Regular expression of a string.
    pub pattern: Option<String>,
    /// Maximum characters of a string.
    pub max_length: Option<u64>,
    /// Minimum characters of a string.
    pub min_length: Option<u64>,
    /// Upper bound of a number.
    pub maximum: Option<serde_json::Number>,
    /// `true` if the upper bound itself is excluded.
    pub exclusive_maximum: bool,
    /// Lower bound of a number.
    pub minimum: Option<serde_json::Number>,
    /// `true` if the lower bound itself is excluded.
    pub exclusive_minimum: bool,
    /// Factor of a number.
    pub multiple_of: Option<f64>,
    /// Maximum items of a list.
    pub max_items: Option<u64>,
    /// Minimum items of a list.
    pub min_items: Option<u64>,
    /// Maximum fields of an object.
    pub max_properties: Option<u64>,
    /// Minimum fields of an object.
    pub min_properties: Option<u64>,
    /// Fields that an object requires.
    pub required: Vec<String>,
    /// Fields of an object.
    pub properties: BTreeMap<String, Schema>,
    /// Values of a map.
    pub additional_properties: Option<AdditionalProperties>,
    /// Items of a list.
    pub items: Option<Box<Schema>>,
    /// Schemas that all hold.
    pub all_of: Vec<Schema>,
    /// Schemas of which at least one holds.
    pub any_of: Vec<Schema>,
    /// Schemas of which exactly one holds.
    pub one_of: Vec<Schema>,
    /// Schema that does not hold.
    pub not: Option<Box<Schema>>,
    /// `true` if unknown fields stay.
    #[serde(rename = "x-kubernetes-preserve-unknown-fields")]
    pub preserve_unknown_fields: bool,
    /// `true` if the value is an integer or a string.
    #[serde(rename = "x-kubernetes-int-or-string")]
    pub int_or_string: bool,
    /// `true` if the value is a whole Kubernetes object.
    #[serde(rename = "x-kubernetes-embedded-resource")]
    pub embedded_resource: bool,
    /// Identity of the items of a list.
    #[serde(rename = "x-kubernetes-list-type")]
    pub list_type: Option<ListType>,
    /// Fields that identify an item of a `map` list.
    #[serde(rename = "x-kubernetes-list-map-keys")]
    pub list_map_keys: Vec<String>,
    /// `true` if fields of an object have managers of their own.
    #[serde(rename = "x-kubernetes-map-type")]
    pub map_type: Option<MapType>,
    /// CEL rules.
    #[serde(rename = "x-kubernetes-validations")]
    pub validations: Vec<Validation>,
    #[serde(skip)]
    pub(crate) rules: Rules,
}

/// `additionalProperties`: whether other fields are allowed, or their schema.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum AdditionalProperties {
    /// `true` if other fields are allowed.
    Allowed(bool),
    /// Schema of each other field.
    Schema(Box<Schema>),
}

/// `x-kubernetes-list-type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ListType {
    /// One value with one manager.
    Atomic,
    /// Scalars, each at most once.
    Set,
    /// Objects with keys, each at most once.
    Map,
}

/// `x-kubernetes-map-type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MapType {
    /// One value with one manager.
    Atomic,
    /// Each field has its managers.
    Granular,
}

/// One CEL rule of `x-kubernetes-validations`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct Validation {
    /// Expression.
    pub rule: String,
    /// Text of the error.
    pub message: Option<String>,
    /// Expression whose result is the text of the error.
    pub message_expression: Option<String>,
}

/// A document that is not a structural schema.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaError {
    /// A keyword has a value of another type.
    #[error("failed to read the schema: {0}")]
    Keyword(#[from] serde_json::Error),
    /// A CEL rule does not compile.
    #[error("failed to compile the rule at {path}: {message}")]
    Rule {
        /// Path of the schema with the rule.
        path: String,
        /// Message of the compiler.
        message: String,
    },
    /// A pattern is not a regular expression.
    #[error("failed to compile the pattern {pattern:?}: {message}")]
    Pattern {
        /// The pattern.
        pattern: String,
        /// Message of the compiler.
        message: String,
    },
}

impl Schema {
    /// Reads a schema and compiles its rules.
    pub fn from_value(value: &Value) -> Result<Self, SchemaError> {
        let mut schema: Self = serde_json::from_value(value.clone())?;
        schema.check_patterns()?;
        schema.rules = Rules::compile(value, schema.has_rules())?;
        Ok(schema)
    }

    /// Judges an object: types, bounds, keys of lists and CEL rules. With `old`, rules that compare with `oldSelf` run, and
    /// mistakes in values that are unchanged do not count.
    #[must_use]
    pub fn validate(&self, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = Vec::new();
        self.check(object, "", &mut errors);
        self.check_lists(object, "", &mut errors);
        if let Some(old) = old {
            errors.retain(|error| !crate::validate::is_unchanged(error, object, old));
        }
        // As in the API server, rules run on objects of the right shape alone.
        if self.rules.is_empty() {
            return errors;
        }
        if errors.iter().any(|error| error.kind.blocks_rules()) {
            const DETAIL: &str = "some validation rules were not checked because the object was invalid; correct the \
                                  existing errors to complete validation";
            errors.push(FieldError::new("", FieldErrorKind::Invalid, Some(&Value::Null), DETAIL));
            return errors;
        }
        let mut broken = Vec::new();
        self.rules.check(self, object, old, &mut broken);
        if let Some(old) = old {
            broken.retain(|error| !crate::validate::is_unchanged(error, object, old));
        }
        errors.append(&mut broken);
        errors
    }

    fn has_rules(&self) -> bool {
        !self.validations.is_empty() || self.children().any(Self::has_rules)
    }

    fn check_patterns(&self) -> Result<(), SchemaError> {
        if let Some(pattern) = &self.pattern {
            regex_lite::Regex::new(pattern).map_err(|error| SchemaError::Pattern {
                pattern: pattern.clone(),
                message: error.to_string(),
            })?;
        }
        self.children().try_for_each(Self::check_patterns)
    }

    /// Returns the schemas directly below.
    pub(crate) fn children(&self) -> impl Iterator<Item = &Self> {
        self.properties
            .values()
            .chain(self.additional())
            .chain(self.items.as_deref())
            .chain(self.all_of.iter().chain(&self.any_of).chain(&self.one_of))
            .chain(self.not.as_deref())
    }

    /// Returns the schema of the values of a map.
    #[must_use]
    pub fn additional(&self) -> Option<&Self> {
        match &self.additional_properties {
            Some(AdditionalProperties::Schema(schema)) => Some(schema),
            _ => None,
        }
    }
}

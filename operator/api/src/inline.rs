//! Parts of a resource that have the types of the server's configuration.

use std::{borrow::Cow, fmt, marker::PhantomData};

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::DeserializeOwned};
use serde_json::Value;
use vmcp_config::ConfigErrors;

/// A part of a resource whose type is `T`, as written.
///
/// Reading it never fails, so that a resource which an older schema admitted does not stop the watch of all resources of its
/// kind. [`Inline::parse`] reports the errors.
pub struct Inline<T> {
    value: Value,
    parsed: PhantomData<fn() -> T>,
}

// === impl Inline ===

impl<T> Inline<T> {
    /// Takes a part as written.
    #[must_use]
    pub fn new(value: Value) -> Self {
        Self { value, parsed: PhantomData }
    }

    /// Returns the part as written.
    #[must_use]
    pub fn value(&self) -> &Value {
        &self.value
    }
}

impl<T: InlineType> Inline<T> {
    /// Reads the part.
    ///
    /// # Errors
    ///
    /// Returns all errors of the part, with paths within it.
    pub fn parse(&self) -> Result<T, ConfigErrors> {
        T::read(&self.value)
    }
}

/// Type of the server's configuration that a resource contains.
pub trait InlineType: DeserializeOwned + JsonSchema {
    /// Reads the type.
    ///
    /// # Errors
    ///
    /// Returns all errors, with paths within the part.
    fn read(value: &Value) -> Result<Self, ConfigErrors>;
}

macro_rules! inline_types {
    ($($type:ty),+ $(,)?) => {
        $(
            impl InlineType for $type {
                fn read(value: &Value) -> Result<Self, ConfigErrors> {
                    vmcp_config::from_json(value)
                }
            }
        )+
    };
}

inline_types!(
    vmcp_config::AuthServer<vmcp_config::SecretRef>,
    vmcp_config::AwsSts,
    vmcp_config::CompositeTool,
    vmcp_config::Config,
    vmcp_config::ToolOverride,
    vmcp_config::UpstreamInject,
);

impl<T> Clone for Inline<T> {
    fn clone(&self) -> Self {
        Self::new(self.value.clone())
    }
}

impl<T> PartialEq for Inline<T> {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl<T> fmt::Debug for Inline<T> {
    /// Writes the type alone: the value may hold secrets in plain text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Inline<{}>", std::any::type_name::<T>())
    }
}

impl<T> Default for Inline<T> {
    fn default() -> Self {
        Self::new(Value::Object(serde_json::Map::new()))
    }
}

impl<T> Serialize for Inline<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.value.serialize(serializer)
    }
}

impl<'de, T> Deserialize<'de> for Inline<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Value::deserialize(deserializer).map(Self::new)
    }
}

impl<T: JsonSchema> JsonSchema for Inline<T> {
    fn inline_schema() -> bool {
        T::inline_schema()
    }

    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn schema_id() -> Cow<'static, str> {
        T::schema_id()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}

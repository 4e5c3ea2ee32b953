//! References to other resources, which resources support and files do not.

use crate::config_value::{ConfigValue, Constraint, section};

/// Reference from one resource to another: [`ResourceRef`] in a resource, [`Never`] in a file.
pub trait Reference:
    ConfigValue + Clone + std::fmt::Debug + PartialEq + Send + Sync + 'static
{
}

section! {
    /// The name of a resource in the same namespace.
    pub struct ResourceRef {
        /// Name of the resource.
        pub name: String, [Constraint::NotEmpty];
    }
}

/// Reference type of files, which has no values: files cannot refer to resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Never {}

impl Reference for ResourceRef {}
impl Reference for Never {}

impl ConfigValue for Never {
    fn read(node: &crate::tree::Node, cx: &mut crate::context::Context) -> Option<Self> {
        cx.reject_as(
            node,
            "a reference to a resource",
            "no reference; only the operator resolves references",
            None,
        );
        None
    }

    fn is_never() -> bool {
        true
    }
}

impl serde::Serialize for Never {
    fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        match *self {}
    }
}

impl schemars::JsonSchema for Never {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Never".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "not": {} })
    }
}

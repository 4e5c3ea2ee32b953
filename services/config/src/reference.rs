//! References to other resources, which a resource may hold and a file may not.

use crate::shape::{Limit, Shape, section};

/// Reference from one resource to another: [`ResourceRef`] in a resource, [`NoRef`] in a file.
pub trait Reference: Shape + Clone + std::fmt::Debug + PartialEq + Send + Sync + 'static {}

section! {
    /// The name of a resource in the same namespace.
    pub struct ResourceRef {
        /// Name of the resource.
        pub name: String, [Limit::NotEmpty];
    }
}

/// A reference that cannot be there: files don't refer to resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoRef {}

impl Reference for ResourceRef {}
impl Reference for NoRef {}

impl Shape for NoRef {
    fn read(node: &crate::tree::Node, cx: &mut crate::context::Context) -> Option<Self> {
        cx.refuse_as(
            node,
            "a reference to a resource",
            "nothing: references are resolved by the operator only",
            None,
        );
        None
    }

    fn is_never() -> bool {
        true
    }
}

impl serde::Serialize for NoRef {
    fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        match *self {}
    }
}

impl schemars::JsonSchema for NoRef {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "NoRef".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "not": {} })
    }
}

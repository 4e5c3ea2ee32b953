//! Output of a composite tool.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::{
    config_value::{Constraint, Rule, keyword_enum, section},
    context::Context,
    tree::Node,
};

section! {
    /// Structured output of a composite tool.
    pub struct Output {
        /// The members of the output.
        pub properties: BTreeMap<String, Property>, [Constraint::MinItems(1)];
        /// Required members.
        pub required: Vec<String> = Vec::new();
    }
    check Output::check
}

section! {
    /// One member of the output.
    pub struct Property {
        /// Type of the value.
        pub r#type: OutputType;
        /// Description of the value.
        pub description: Option<String>;
        /// Template of the value, such as {{.steps.search.output.title}}; for an object, JSON text.
        pub value: Option<String>, [Constraint::NotEmpty];
        /// Members of an object, instead of `value`.
        pub properties: Option<BTreeMap<String, Property>>, [Constraint::MinItems(1)];
        /// Value if the template has none.
        pub default: Option<Value>;
    }
    rules [Rule::ExactlyOne(&["value", "properties"])]
    check Property::check
}

const MAX_NESTING: usize = 10;

keyword_enum! {
    /// Type of a value.
    pub enum OutputType {
        /// Text.
        String = "string",
        /// A whole number.
        Integer = "integer",
        /// A number.
        Number = "number",
        /// True or false.
        Boolean = "boolean",
        /// An object.
        Object = "object",
        /// An array.
        Array = "array",
    }
}

impl Output {
    fn check(&self, node: &Node, cx: &mut Context) {
        let Self { properties, required } = self;
        if properties.values().map(Property::depth).max() > Some(MAX_NESTING) {
            let allowed = format!("at most {MAX_NESTING} levels of properties");
            cx.reject_as(node, "properties nested too deeply", allowed, None);
        }
        for name in required.iter().filter(|name| !properties.contains_key(*name)) {
            cx.reject_key(node, "required", format!("\"{name}\""), "the name of a property");
        }
    }
}

impl Property {
    fn depth(&self) -> usize {
        1 + self.properties.iter().flat_map(BTreeMap::values).map(Self::depth).max().unwrap_or(0)
    }

    fn check(&self, node: &Node, cx: &mut Context) {
        if self.properties.is_some() && self.r#type != OutputType::Object {
            let found = format!("properties with type: {}", self.r#type);
            cx.reject_key(node, "properties", found, "properties only with type: object");
        }
    }
}

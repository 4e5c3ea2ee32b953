//! What policies look at, found in their syntax trees once: it bounds what a decision can depend on.
//!
//! Everything here may say too much and never too little.

use std::collections::BTreeSet;

use cedar_policy::{Policy, PrincipalConstraint};
use serde_json::{Value, json};

use crate::model::{BACKEND, CLIENT, GENERATION, ITEMS};

/// What some policies look at.
#[derive(Clone, Debug, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is found by itself, and none excludes another"
)]
pub(crate) struct PolicyDependencies {
    /// The attributes that are named anywhere, whosever they are.
    pub(crate) attributes: BTreeSet<String>,
    /// Those that could be asked of the context.
    pub(crate) of_context: BTreeSet<String>,
    /// Those that could be asked of something else.
    pub(crate) of_others: BTreeSet<String>,
    /// The attributes that are asked of a variable, with that.
    pub(crate) of_variables: BTreeSet<(String, String)>,
    /// The context as a whole.
    pub(crate) context: bool,
    /// Who the principal is, beyond its attributes and groups.
    pub(crate) principal: bool,
    /// What the principal is in.
    pub(crate) groups: bool,
    /// The resource, beyond what the head of the policy says of it.
    pub(crate) resource: bool,
}

impl PolicyDependencies {
    /// What `policy` looks at, whose syntax tree is `json`.
    pub(crate) fn of(policy: &Policy, json: &Value) -> Self {
        let mut reads = Self::default();
        match policy.principal_constraint() {
            PrincipalConstraint::Any | PrincipalConstraint::Is(_) => {}
            PrincipalConstraint::Eq(_) => reads.principal = true,
            PrincipalConstraint::In(of) | PrincipalConstraint::IsIn(_, of) => {
                reads.groups = true;
                // Everybody is in themselves.
                reads.principal |= of.type_name().to_string() == CLIENT;
            }
        }
        for clause in clauses(json) {
            reads.expression(&clause["body"]);
        }
        reads
    }

    pub(crate) fn join(&mut self, other: &Self) {
        let Self {
            attributes,
            of_context,
            of_others,
            of_variables,
            context,
            principal,
            groups,
            resource,
        } = other;
        self.of_variables.extend(of_variables.iter().cloned());
        self.attributes.extend(attributes.iter().cloned());
        self.of_context.extend(of_context.iter().cloned());
        self.of_others.extend(of_others.iter().cloned());
        self.context |= context;
        self.principal |= principal;
        self.groups |= groups;
        self.resource |= resource;
    }

    /// Whether an attribute `name` could be asked for.
    pub(crate) fn attribute(&self, name: &str) -> bool {
        self.attributes.contains(name)
    }

    /// Whether the context could be asked for an attribute `name`.
    pub(crate) fn in_context(&self, name: &str) -> bool {
        self.context || self.of_context.contains(name)
    }

    /// Whether an entity could be asked for an attribute `name`.
    pub(crate) fn in_entities(&self, name: &str) -> bool {
        self.of_others.contains(name)
    }

    /// Whether an entity could be asked for an argument.
    pub(crate) fn arguments_in_entities(&self) -> bool {
        self.of_others.iter().any(|name| name.starts_with("arg_"))
    }

    /// Whether the backend of an item, or its generation, could matter.
    pub(crate) fn backend(&self) -> bool {
        [BACKEND, GENERATION].iter().any(|name| self.attribute(name))
    }

    /// Whether the arguments of a call could matter.
    pub(crate) fn arguments(&self) -> bool {
        self.context || self.attributes.iter().any(|name| name.starts_with("arg_"))
    }

    fn expression(&mut self, expression: &Value) {
        let Some((operator, body)) = expression.as_object().and_then(|one| one.iter().next())
        else {
            return;
        };
        match (operator.as_str(), body) {
            ("Var", Value::String(variable)) => {
                self.context |= variable == "context";
                self.principal |= variable == "principal";
                self.resource |= variable == "resource";
            }
            ("Value", value) => {
                self.principal |= mentions(value, CLIENT);
                // What is asked about can be named instead.
                self.resource |= ITEMS.iter().any(|kind| mentions(value, kind));
            }
            ("." | "has", body) => {
                let variable = body["left"].get("Var").and_then(Value::as_str);
                match &body["attr"] {
                    Value::String(name) => self.attribute_of(variable, name),
                    // The first is asked of the variable, the others of what that is.
                    Value::Array(names) => {
                        for (position, name) in names.iter().filter_map(Value::as_str).enumerate() {
                            self.attribute_of(variable.filter(|_| position == 0), name);
                        }
                    }
                    _ => {}
                }
                self.operand(&body["left"]);
            }
            ("in", body) => {
                self.groups = true;
                // Being in a group that is named says nothing of who one is.
                if literal(&body["right"]) {
                    self.operand(&body["left"]);
                } else {
                    self.expression(&body["left"]);
                }
                self.expression(&body["right"]);
            }
            ("is", body) => {
                self.groups |= body.get("in").is_some();
                if body.get("in").is_none_or(literal) {
                    self.operand(&body["left"]);
                } else {
                    self.expression(&body["left"]);
                }
                self.expression(&body["in"]);
            }
            ("like", body) => self.expression(&body["left"]),
            ("Record", Value::Object(members)) => {
                members.values().for_each(|member| self.expression(member));
            }
            (_, Value::Array(parts)) => parts.iter().for_each(|part| self.expression(part)),
            (_, Value::Object(parts)) => parts.values().for_each(|part| self.expression(part)),
            _ => {}
        }
    }

    /// An attribute that is asked of a variable, or of who knows what.
    fn attribute_of(&mut self, variable: Option<&str>, name: &str) {
        if let Some(variable) = variable {
            self.of_variables.insert((variable.to_owned(), name.to_owned()));
        }
        if variable.is_none_or(|variable| variable == "context") {
            self.of_context.insert(name.to_owned());
        }
        if variable != Some("context") {
            self.of_others.insert(name.to_owned());
        }
        self.attributes.insert(name.to_owned());
    }

    /// An operand of which not the whole is looked at.
    fn operand(&mut self, operand: &Value) {
        match operand.get("Var") {
            Some(variable) => self.resource |= variable == "resource",
            None => self.expression(operand),
        }
    }
}

/// What has to hold for `policy`, a permit that looks at arguments, whatever the arguments are: the
/// parts of its conditions that don't look at them.
pub(crate) fn argument_independent_part(json: &Value) -> Value {
    let mut kept = Vec::new();
    for clause in clauses(json) {
        let unless = clause["kind"] == "unless";
        let mut parts = Vec::new();
        split(&clause["body"], if unless { "||" } else { "&&" }, &mut parts);
        for part in parts {
            let mut reads = PolicyDependencies::default();
            reads.expression(part);
            if !reads.arguments() {
                kept.push(json!({"kind": clause["kind"], "body": part}));
            }
        }
    }
    let mut json = json.clone();
    json["conditions"] = Value::Array(kept);
    json
}

fn clauses(policy: &Value) -> impl Iterator<Item = &Value> {
    policy["conditions"].as_array().into_iter().flatten()
}

fn split<'a>(expression: &'a Value, operator: &str, parts: &mut Vec<&'a Value>) {
    match expression.get(operator) {
        Some(both) => {
            split(&both["left"], operator, parts);
            split(&both["right"], operator, parts);
        }
        None => parts.push(expression),
    }
}

/// Whether an expression is a fixed entity that is no caller, or a set of them.
fn literal(expression: &Value) -> bool {
    match (expression.get("Value"), expression.get("Set")) {
        (Some(value), _) => !mentions(value, CLIENT),
        (None, Some(Value::Array(parts))) => parts.iter().all(literal),
        _ => false,
    }
}

/// Whether `text` stands anywhere in `value`.
pub(crate) fn mentions(value: &Value, text: &str) -> bool {
    match value {
        Value::String(string) => string == text,
        Value::Array(values) => values.iter().any(|value| mentions(value, text)),
        Value::Object(members) => members.values().any(|value| mentions(value, text)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

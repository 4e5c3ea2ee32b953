//! Dependencies of policies, derived from their syntax trees: they bound the inputs of a decision.
//!
//! The result may include too much, but never too little.

use std::collections::BTreeSet;

use cedar_policy::{Policy, PrincipalConstraint};
use serde_json::{Value, json};

use crate::names::{BACKEND, CLIENT, GENERATION, ITEMS};

/// Inputs that policies reference.
#[derive(Clone, Debug, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is found by itself, and none excludes another"
)]
pub(crate) struct PolicyDependencies {
    /// Attributes that are referenced anywhere, of any entity.
    pub(crate) attributes: BTreeSet<String>,
    /// Attributes that may be read from the context.
    pub(crate) of_context: BTreeSet<String>,
    /// Attributes that may be read from entities.
    pub(crate) of_others: BTreeSet<String>,
    /// Attributes that are read from a variable, with that variable.
    pub(crate) of_variables: BTreeSet<(String, String)>,
    /// `true` if the whole context is referenced.
    pub(crate) context: bool,
    /// `true` if the principal is referenced beyond its attributes and groups.
    pub(crate) principal: bool,
    /// `true` if the ancestors of the principal are referenced.
    pub(crate) groups: bool,
    /// `true` if the resource is referenced beyond the scope of the policy.
    pub(crate) resource: bool,
}

impl PolicyDependencies {
    /// Returns the dependencies of `policy`, whose syntax tree is `json`.
    pub(crate) fn of(policy: &Policy, json: &Value) -> Self {
        let mut reads = Self::default();
        match policy.principal_constraint() {
            PrincipalConstraint::Any | PrincipalConstraint::Is(_) => {}
            PrincipalConstraint::Eq(_) => reads.principal = true,
            PrincipalConstraint::In(of) | PrincipalConstraint::IsIn(_, of) => {
                reads.groups = true;
                // `in` is reflexive.
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

    /// Returns whether an attribute `name` may be read.
    pub(crate) fn attribute(&self, name: &str) -> bool {
        self.attributes.contains(name)
    }

    /// Returns whether an attribute `name` may be read from the context.
    pub(crate) fn in_context(&self, name: &str) -> bool {
        self.context || self.of_context.contains(name)
    }

    /// Returns whether an attribute `name` may be read from an entity.
    pub(crate) fn in_entities(&self, name: &str) -> bool {
        self.of_others.contains(name)
    }

    /// Returns whether an argument may be read from an entity.
    pub(crate) fn arguments_in_entities(&self) -> bool {
        self.of_others.iter().any(|name| name.starts_with("arg_"))
    }

    /// Returns whether the backend of an item, or its generation, may matter.
    pub(crate) fn backend(&self) -> bool {
        [BACKEND, GENERATION].iter().any(|name| self.attribute(name))
    }

    /// Returns whether the arguments of a call may matter.
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
                // The item may be named as a literal.
                self.resource |= ITEMS.iter().any(|kind| mentions(value, kind));
            }
            ("." | "has", body) => {
                let variable = body["left"].get("Var").and_then(Value::as_str);
                match &body["attr"] {
                    Value::String(name) => self.attribute_of(variable, name),
                    // The first attribute is read from the variable, the others from its value.
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
                // Membership in a literal group does not reveal the identity of the principal.
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

    /// Records an attribute that is read from a variable, or from an unknown entity.
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

    /// Visits an operand that is not referenced as a whole.
    fn operand(&mut self, operand: &Value) {
        match operand.get("Var") {
            Some(variable) => self.resource |= variable == "resource",
            None => self.expression(operand),
        }
    }
}

/// Returns the conditions of `policy`, a permit that references arguments, that are independent of
/// them.
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

/// Returns whether an expression is a literal entity other than a caller, or a set of them.
fn literal(expression: &Value) -> bool {
    match (expression.get("Value"), expression.get("Set")) {
        (Some(value), _) => !mentions(value, CLIENT),
        (None, Some(Value::Array(parts))) => parts.iter().all(literal),
        _ => false,
    }
}

/// Returns whether `value` contains the string `text`.
pub(crate) fn mentions(value: &Value, text: &str) -> bool {
    match value {
        Value::String(string) => string == text,
        Value::Array(values) => values.iter().any(|value| mentions(value, text)),
        Value::Object(members) => members.values().any(|value| mentions(value, text)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

//! Cost of the CEL rules, as the API server estimates it when a definition is applied.
//!
//! The estimate follows the published costs of cel-go and of Kubernetes' libraries: one unit for a variable, a field or a call,
//! a tenth of a unit for each character of a text that is read, the bound of a list for each pass over it. It is an upper
//! bound: both sides of every condition count, and a presence test counts as a field. A rule within lists and maps runs once for each value that their bounds admit.

use std::collections::BTreeMap;

use cel::{
    Program,
    common::ast::{ComprehensionExpr, Expr, IdedExpr, LiteralValue},
};
use serde_json::Value;

use crate::support::schemas;

/// Limit of the API server for one rule.
const RULE_LIMIT: u64 = 10_000_000;
/// Limit of the API server for all rules of a definition.
const DEFINITION_LIMIT: u64 = 100_000_000;

#[test]
fn rules_cost_tenth_of_limits_at_most() {
    for (kind, schema) in schemas() {
        let mut rules = Vec::new();
        collect(&schema, 1, "", &mut rules);
        for (path, rule, cost) in &rules {
            assert!(*cost <= RULE_LIMIT / 10, "{kind} {path}: {cost} for {rule}");
        }
        let total: u64 = rules.iter().map(|(_, _, cost)| cost).sum();
        assert!(total <= DEFINITION_LIMIT / 10, "{kind}: {total}");
    }
}

#[test]
fn estimate_grows_with_bounds() {
    let schema = |items: u64| {
        serde_json::json!({
            "type": "array", "maxItems": items,
            "items": { "type": "string", "maxLength": 100 },
        })
    };
    let rule = "self.all(item, item.startsWith('a'))";
    assert_eq!(estimate(rule, &schema(0)), 3);
    let step = estimate(rule, &schema(1)) - estimate(rule, &schema(0));
    assert!(step >= 12, "{step}");
    assert_eq!(estimate(rule, &schema(1000)), 3 + 1000 * step);
}

/// Collects path, rule and cost of all rules below a schema of which `count` values may exist.
fn collect(schema: &Value, count: u64, path: &str, rules: &mut Vec<(String, String, u64)>) {
    if let Some(Value::Array(validations)) = schema.get("x-kubernetes-validations") {
        for validation in validations {
            let rule = validation["rule"].as_str().unwrap();
            rules.push((path.to_owned(), rule.to_owned(), count * estimate(rule, schema)));
        }
    }
    if let Some(Value::Object(properties)) = schema.get("properties") {
        for (name, schema) in properties {
            collect(schema, count, &format!("{path}.{name}"), rules);
        }
    }
    for (values, bound) in [("items", "maxItems"), ("additionalProperties", "maxProperties")] {
        if let Some(inner) = schema.get(values).filter(|inner| inner.is_object()) {
            let many = schema.get(bound).and_then(Value::as_u64).unwrap_or(0);
            // Only the status has lists without a bound, and no rules.
            collect(inner, count * many, &format!("{path}[]"), rules);
        }
    }
}

fn estimate(rule: &str, schema: &Value) -> u64 {
    let program = Program::compile(rule).unwrap_or_else(|error| panic!("{rule}: {error}"));
    let variables = ["self", "oldSelf"].map(|name| (name.to_owned(), schema));
    let mut estimate = Estimate { rule, variables: BTreeMap::from(variables) };
    estimate.cost(program.expression()).units
}

struct Estimate<'a> {
    rule: &'a str,
    variables: BTreeMap<String, &'a Value>,
}

/// Cost of an expression, and the schema and maximum size of its value.
#[derive(Clone, Copy, Default)]
struct Cost<'a> {
    units: u64,
    schema: Option<&'a Value>,
    size: u64,
}

// === impl Estimate ===

impl<'a> Estimate<'a> {
    fn cost(&mut self, expression: &IdedExpr) -> Cost<'a> {
        match &expression.expr {
            Expr::Literal(LiteralValue::String(text)) => {
                Cost { size: text.inner().len() as u64, ..Cost::default() }
            }
            Expr::Literal(_) => Cost::default(),
            Expr::Ident(name) => Cost::of(1, self.variables.get(name).copied()),
            Expr::Select(select) => {
                let operand = self.cost(&select.operand);
                let field = operand.schema.and_then(|schema| {
                    let properties = schema.get("properties")?;
                    properties.get(&select.field)
                });
                assert!(field.is_some(), "{}: no field {}", self.rule, select.field);
                Cost::of(operand.units + 1, field)
            }
            Expr::List(list) => {
                let cost: u64 = list.elements.iter().map(|element| self.cost(element).units).sum();
                Cost { units: cost + 10, size: list.elements.len() as u64, schema: None }
            }
            Expr::Call(call) => {
                let target = call.target.as_deref().map(|target| self.cost(target));
                let arguments = call.args.iter().map(|argument| self.cost(argument));
                let operands: Vec<_> =
                    target.into_iter().chain(arguments.collect::<Vec<_>>()).collect();
                let cost: u64 = operands.iter().map(|operand| operand.units).sum();
                let schema = match &*call.func_name {
                    "_[_]" => operands[0].schema.and_then(values),
                    _ => None,
                };
                Cost::of(cost + call_cost(&call.func_name, &operands), schema)
            }
            Expr::Comprehension(comprehension) => self.comprehension(comprehension),
            Expr::Unspecified | Expr::Map(_) | Expr::Struct(_) => {
                panic!("{}: not estimated", self.rule)
            }
        }
    }

    fn comprehension(&mut self, comprehension: &ComprehensionExpr) -> Cost<'a> {
        let range = self.cost(&comprehension.iter_range);
        let items = range.schema.filter(|schema| schema.get("items").is_some()).and_then(values);
        if let Some(items) = items {
            self.variables.insert(comprehension.iter_var.clone(), items);
        }
        let once =
            self.cost(&comprehension.accu_init).units + self.cost(&comprehension.result).units;
        let each =
            self.cost(&comprehension.loop_cond).units + self.cost(&comprehension.loop_step).units;
        self.variables.remove(&comprehension.iter_var);
        Cost { units: range.units + once + 1 + range.size * each, ..Cost::default() }
    }
}

impl<'a> Cost<'a> {
    fn of(units: u64, schema: Option<&'a Value>) -> Self {
        let bound = |keyword| schema.and_then(|schema| schema.get(keyword)).and_then(Value::as_u64);
        let size = ["maxLength", "maxItems", "maxProperties"].into_iter().find_map(bound);
        Self { units, schema, size: size.unwrap_or(0) }
    }
}

fn values(schema: &Value) -> Option<&Value> {
    schema.get("items").or_else(|| schema.get("additionalProperties"))
}

/// Returns the cost of a call beyond that of its operands.
fn call_cost(function: &str, operands: &[Cost<'_>]) -> u64 {
    let smaller = operands.iter().map(|operand| operand.size).min().unwrap_or(0);
    let larger = operands.iter().map(|operand| operand.size).max().unwrap_or(0);
    match function {
        "_==_" | "_!=_" => 1 + smaller.div_ceil(10),
        "@in" => operands[1].size * (1 + operands[0].size.max(64).div_ceil(10)),
        "duration" | "double" | "startsWith" => 1 + larger.div_ceil(10),
        "_&&_"
        | "_||_"
        | "!_"
        | "@not_strictly_false"
        | "_?_:_"
        | "_[_]"
        | "size"
        | "_<_"
        | "_<=_"
        | "_>_"
        | "_>=_" => 1,
        other => panic!("the cost of {other} is not known"),
    }
}

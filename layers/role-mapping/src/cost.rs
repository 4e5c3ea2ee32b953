//! What evaluating an expression may cost.
//!
//! The CEL interpreter knows no limit, so this is where one comes from. A choice has a budget of
//! units; one unit stands for one visited node or 32 bytes. Before an expression is evaluated it is
//! charged for its nodes, each node that may hold claims counting as much as all claims together;
//! before each round of a loop, the loop's body is charged the same way. So the number of rounds is
//! bounded whatever the claims hold, and so is the memory, since nothing that grows is allowed in
//! an expression.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;

use cel::Value as CelValue;
use cel::objects::{Key, Map};
use serde_json::Value;
use vmcp_core::Claims;

use crate::RoleError;

/// What one choice may cost: a few tenths of a second at the very worst.
const MAX_COST: i64 = 8_000_000;
/// How much the claims may weigh: about 500 KiB of text, or as many values.
const MAX_WEIGHT: i64 = 16_384;
/// How deep claims may nest.
const MAX_DEPTH: usize = 32;
const BYTES_PER_UNIT: usize = 32;

/// What is left for one choice, and what the claims weigh.
#[derive(Clone, Copy)]
pub(crate) struct CostBudget {
    remaining: i64,
    weight: i64,
}

/// What evaluating a piece of an expression once costs, loops' bodies aside.
#[derive(Clone, Copy, Default)]
pub(crate) struct Cost {
    /// How many nodes it has.
    pub(crate) nodes: i64,
    /// How many of them may hold all claims.
    pub(crate) heavy: i64,
}

thread_local! {
    // An evaluation stays on its thread, and functions of the interpreter have no other way to what
    // belongs to one evaluation alone.
    static CURRENT: Cell<CostBudget> = const { Cell::new(CostBudget { remaining: 0, weight: 0 }) };
}

// === impl Budget ===

impl CostBudget {
    pub(crate) fn new() -> Self {
        Self { remaining: MAX_COST, weight: 0 }
    }

    /// The claims as the interpreter takes them, and their weight noted.
    pub(crate) fn convert_claims(&mut self, claims: &Claims) -> Result<CelValue, RoleError> {
        let mut weight = 1;
        let map = claims
            .object()
            .iter()
            .map(|(name, value)| Some((key(name, &mut weight), convert(value, 1, &mut weight)?)))
            .collect::<Option<HashMap<_, _>>>();
        let map = map.filter(|_| weight <= MAX_WEIGHT).ok_or(RoleError::TooCostly)?;
        self.weight = weight;
        self.remaining -= weight;
        Ok(CelValue::Map(Map { map: Arc::new(map) }))
    }

    /// Charges `cost` and then lets `evaluate` go on with what is left.
    pub(crate) fn spend<T>(
        &mut self,
        cost: Cost,
        evaluate: impl FnOnce() -> T,
    ) -> Result<T, RoleError> {
        self.charge(cost)?;
        CURRENT.set(*self);
        let outcome = evaluate();
        *self = CURRENT.get();
        if self.remaining < 0 { Err(RoleError::TooCostly) } else { Ok(outcome) }
    }

    fn charge(&mut self, Cost { nodes, heavy }: Cost) -> Result<(), RoleError> {
        let text_units = nodes.saturating_add(heavy.saturating_mul(self.weight));
        self.remaining = self.remaining.saturating_sub(text_units);
        if self.remaining < 0 { Err(RoleError::TooCostly) } else { Ok(()) }
    }
}

// === impl Cost ===

impl Cost {
    pub(crate) fn and(self, other: Self) -> Self {
        Self { nodes: self.nodes + other.nodes, heavy: self.heavy + other.heavy }
    }
}

/// Charges one round of a loop. `false` when nothing is left; the outcome of the evaluation is
/// thrown away then.
pub(crate) fn charge_round(nodes: i64, heavy: i64) -> bool {
    let mut current = CURRENT.get();
    let charged = current.charge(Cost { nodes, heavy });
    CURRENT.set(current);
    charged.is_ok()
}

fn convert(value: &Value, depth: usize, weight: &mut i64) -> Option<CelValue> {
    *weight += 1;
    if depth > MAX_DEPTH || *weight > MAX_WEIGHT {
        return None;
    }
    Some(match value {
        Value::Null => CelValue::Null,
        Value::Bool(value) => CelValue::Bool(*value),
        Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(number), _) => CelValue::Int(number),
            (None, Some(number)) => CelValue::UInt(number),
            (None, None) => CelValue::Float(number.as_f64()?),
        },
        Value::String(text) => CelValue::String(Arc::new(copy(text, weight))),
        Value::Array(list) => {
            let list: Option<Vec<_>> =
                list.iter().map(|item| convert(item, depth + 1, weight)).collect();
            CelValue::List(Arc::new(list?))
        }
        Value::Object(map) => {
            let map = map
                .iter()
                .map(|(name, value)| Some((key(name, weight), convert(value, depth + 1, weight)?)));
            CelValue::Map(Map { map: Arc::new(map.collect::<Option<HashMap<_, _>>>()?) })
        }
    })
}

fn key(name: &str, weight: &mut i64) -> Key {
    Key::String(Arc::new(copy(name, weight)))
}

fn copy(text: &str, weight: &mut i64) -> String {
    *weight += text_units(text.len());
    // What is too heavy is not copied either.
    if *weight > MAX_WEIGHT { String::new() } else { text.to_owned() }
}

fn text_units(bytes: usize) -> i64 {
    i64::try_from(bytes / BYTES_PER_UNIT).unwrap_or(i64::MAX / 4)
}

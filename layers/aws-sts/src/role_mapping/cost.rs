//! Cost limits for the evaluation of expressions.
//!
//! The CEL interpreter has no limits of its own. Each role selection has a budget of units; one unit stands for one
//! visited node or 32 bytes. The nodes of an expression are charged before its evaluation, and those of a loop's body
//! before each iteration. A node whose value may contain claims costs the weight of all claims. This bounds the number
//! of iterations for any claims. Memory is bounded as well, because operations that build values larger than their
//! inputs are rejected or limited in number.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;

use cel::Value as CelValue;
use cel::objects::{Key, Map};
use serde_json::Value;
use vmcp_core::Claims;

use crate::RoleError;

/// Budget of one role selection: a few tenths of a second in the worst case.
const MAX_COST: i64 = 8_000_000;
/// Maximum weight of the claims: about 500 KiB of text, or 16,384 values.
const MAX_WEIGHT: i64 = 16_384;
/// Maximum nesting depth of the claims.
const MAX_DEPTH: usize = 32;
const BYTES_PER_UNIT: usize = 32;

/// Remaining budget of a role selection, and the weight of its claims.
#[derive(Clone, Copy)]
pub(crate) struct CostBudget {
    remaining: i64,
    weight: i64,
}

/// Cost of evaluating a subexpression once, without the iterations of its loops.
#[derive(Clone, Copy, Default)]
pub(crate) struct Cost {
    /// Number of nodes.
    pub(crate) nodes: i64,
    /// Number of nodes whose value may contain all claims.
    pub(crate) heavy: i64,
}

thread_local! {
    // An evaluation does not leave its thread, and the interpreter gives functions no other access to the state of a
    // single evaluation.
    static CURRENT: Cell<CostBudget> = const { Cell::new(CostBudget { remaining: 0, weight: 0 }) };
}

// === impl CostBudget ===

impl CostBudget {
    pub(crate) fn new() -> Self {
        Self { remaining: MAX_COST, weight: 0 }
    }

    /// Converts the claims to a CEL value, records their weight and charges for it.
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

    /// Charges `cost`, then runs `evaluate` with the remaining budget.
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

/// Charges one iteration of a loop. Returns `false` if the budget is exhausted; [`CostBudget::spend`] then discards the
/// result of the evaluation.
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
    // The conversion fails once the weight is exceeded, so the copy is skipped.
    if *weight > MAX_WEIGHT { String::new() } else { text.to_owned() }
}

fn text_units(bytes: usize) -> i64 {
    i64::try_from(bytes / BYTES_PER_UNIT).unwrap_or(i64::MAX / 4)
}

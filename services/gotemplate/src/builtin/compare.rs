//! `eq`, `ne`, `lt`, `le`, `gt`, `ge`.

use std::cmp::Ordering;

use crate::{budget::Budget, datum::Datum, evaluation_error::EvaluationError, function::Function};

/// Compares the first argument with the others.
pub(super) fn compare(
    function: Function,
    first: &Datum<'_>,
    arguments: &[Datum<'_>],
    budget: &mut Budget,
) -> Result<bool, EvaluationError> {
    let others = &arguments[1..];
    if others.is_empty() {
        let name = function.name();
        return Err(EvaluationError::new(format!(
            "{name} needs a second argument to compare with"
        )));
    }
    for other in others {
        budget.steps(cost(first, other))?;
        if compare_pair(function, first, other)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn compare_pair(
    function: Function,
    one: &Datum<'_>,
    other: &Datum<'_>,
) -> Result<bool, EvaluationError> {
    match function {
        Function::Eq => is_equal(function, one, other),
        Function::Ne => is_equal(function, one, other).map(|it| !it),
        Function::Lt => order(function, one, other).map(Ordering::is_lt),
        Function::Le => order(function, one, other).map(Ordering::is_le),
        Function::Gt => order(function, one, other).map(Ordering::is_gt),
        _ => order(function, one, other).map(Ordering::is_ge),
    }
}

fn is_equal(
    function: Function,
    one: &Datum<'_>,
    other: &Datum<'_>,
) -> Result<bool, EvaluationError> {
    match (one, other) {
        (Datum::Boolean(one), Datum::Boolean(other)) => Ok(one == other),
        (Datum::Absent | Datum::Null, other) | (other, Datum::Absent | Datum::Null) => {
            Ok(!other.is_present())
        }
        (Datum::List(_) | Datum::Map(_), _) | (_, Datum::List(_) | Datum::Map(_)) => {
            let (one, other) = (one.description(), other.description());
            let name = function.name();
            Err(EvaluationError::new(format!(
                "{name} cannot compare {one} with {other}; compare their fields, or their json"
            )))
        }
        _ => order(function, one, other).map(Ordering::is_eq),
    }
}

fn order(
    function: Function,
    one: &Datum<'_>,
    other: &Datum<'_>,
) -> Result<Ordering, EvaluationError> {
    let order = match (one, other) {
        (Datum::Text(one), Datum::Text(other)) => one.as_str().cmp(other.as_str()),
        (Datum::Whole(one), Datum::Whole(other)) => one.cmp(other),
        _ => match ((integer(one), integer(other)), (float(one), float(other))) {
            ((Some(one), Some(other)), _) => one.cmp(&other),
            // `fromJson` and JSON documents contain no number that is not comparable.
            (_, (Some(one), Some(other))) => one.partial_cmp(&other).unwrap_or(Ordering::Less),
            _ => return Err(incomparable(function, one, other)),
        },
    };
    Ok(order)
}

fn integer(value: &Datum<'_>) -> Option<i64> {
    match value {
        Datum::Integer(value) => Some(*value),
        Datum::Byte(value) => Some(i64::from(*value)),
        _ => None,
    }
}

fn float(value: &Datum<'_>) -> Option<f64> {
    match value {
        Datum::Float(value) => Some(*value),
        Datum::Whole(value) => Some(value.to_f64()),
        _ => None,
    }
}

fn incomparable(function: Function, one: &Datum<'_>, other: &Datum<'_>) -> EvaluationError {
    let name = function.name();
    let is_mixed =
        |one: &Datum<'_>, other: &Datum<'_>| float(one).is_some() && integer(other).is_some();
    if is_mixed(one, other) || is_mixed(other, one) {
        return EvaluationError::new(format!(
            "{name} cannot compare a number of a JSON document with an integer; write 3.0 instead of 3"
        ));
    }
    let (one, other) = (one.description(), other.description());
    EvaluationError::new(format!(
        "{name} cannot compare {one} with {other}; both need the same type"
    ))
}

/// Returns the cost of a comparison in steps.
fn cost(one: &Datum<'_>, other: &Datum<'_>) -> usize {
    match (one, other) {
        (Datum::Text(one), Datum::Text(other)) => one.as_str().len().min(other.as_str().len()) / 64,
        _ => 0,
    }
}

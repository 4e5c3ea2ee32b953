//! `index`, `slice`, `len`.

use crate::{datum::Datum, evaluation_error::EvaluationError};

/// Returns an element of nested maps, lists and texts.
pub(super) fn index<'a>(
    value: &Datum<'a>,
    keys: &[Datum<'a>],
) -> Result<Datum<'a>, EvaluationError> {
    if !value.is_present() {
        return Err(missing("index", value));
    }
    let mut value = value.clone();
    for key in keys {
        value = match &value {
            Datum::Map(map) => {
                let Datum::Text(key) = key else {
                    let found = key.description();
                    return Err(EvaluationError::new(format!(
                        "the key of a map is a text, not {found}"
                    )));
                };
                map.get(key.as_str()).unwrap_or(Datum::Null)
            }
            Datum::List(list) => {
                let index = position(key)?;
                list.get(index).ok_or_else(|| out_of_range(index, list.len()))?
            }
            Datum::Text(text) => {
                let index = position(key)?;
                let bytes = text.as_str().as_bytes();
                let byte = bytes.get(index).ok_or_else(|| out_of_range(index, bytes.len()))?;
                Datum::Byte(*byte)
            }
            Datum::Absent | Datum::Null => return Err(missing("index", &value)),
            other => {
                let found = other.description();
                let message = format!("index needs a map, list or text, not {found}");
                return Err(EvaluationError::new(message));
            }
        };
    }
    Ok(value)
}

/// Returns a part of a list or text, between up to two positions. A third one limits further parts.
pub(super) fn slice<'a>(
    value: &Datum<'a>,
    positions: &[Datum<'a>],
) -> Result<Datum<'a>, EvaluationError> {
    if positions.len() > 3 {
        return Err(EvaluationError::new(
            "slice accepts at most three positions; remove the others",
        ));
    }
    let (length, capacity) = match value {
        Datum::Absent | Datum::Null => return Err(missing("slice", value)),
        Datum::Text(text) if positions.len() < 3 => (text.as_str().len(), text.as_str().len()),
        Datum::Text(_) => {
            return Err(EvaluationError::new(
                "slice accepts at most two positions in a text; remove one",
            ));
        }
        Datum::List(list) => (list.len(), list.capacity()),
        other => {
            let found = other.description();
            return Err(EvaluationError::new(format!("slice needs a list or a text, not {found}")));
        }
    };
    let mut bounds = [0, length, capacity];
    for (bound, key) in bounds.iter_mut().zip(positions) {
        *bound = position(key)?;
        if *bound > capacity {
            return Err(out_of_range(*bound, capacity));
        }
    }
    let [start, end, capacity] = bounds;
    if start > end || end > capacity {
        let message = format!("slice needs ascending positions, not {start}, {end}, {capacity}");
        return Err(EvaluationError::new(message));
    }
    match value {
        Datum::List(list) => Ok(Datum::List(list.slice(start..end, capacity))),
        Datum::Text(text) => text.slice(start..end).map(Datum::Text).ok_or_else(|| {
            let message = format!(
                "slice cuts a character at byte {start} or {end}; use printf \"%.5s\" for the first 5 characters"
            );
            EvaluationError::new(message)
        }),
        _ => Ok(Datum::Absent),
    }
}

/// Returns the number of elements, or of bytes of a text.
pub(super) fn len<'a>(value: &Datum<'a>) -> Result<Datum<'a>, EvaluationError> {
    let length = match value {
        Datum::Text(text) => text.as_str().len(),
        Datum::List(list) => list.len(),
        Datum::Map(map) => map.len(),
        other => {
            let found = other.description();
            return Err(EvaluationError::new(format!(
                "len needs a map, list or text, not {found}"
            )));
        }
    };
    // Lengths fit, because an allocation has at most `isize::MAX` bytes.
    Ok(Datum::Integer(i64::try_from(length).unwrap_or(i64::MAX)))
}

fn position(key: &Datum<'_>) -> Result<usize, EvaluationError> {
    let position = match key {
        Datum::Integer(position) => *position,
        Datum::Byte(position) => i64::from(*position),
        Datum::Float(_) | Datum::Whole(_) => {
            let message =
                "a position is an integer, not a number of a JSON document; write 3, or use range";
            return Err(EvaluationError::new(message));
        }
        other => {
            let found = other.description();
            return Err(EvaluationError::new(format!("a position is an integer, not {found}")));
        }
    };
    usize::try_from(position).map_err(|_| {
        EvaluationError::new(format!("the position {position} is negative; count from 0"))
    })
}

fn out_of_range(position: usize, length: usize) -> EvaluationError {
    EvaluationError::new(format!(
        "the position {position} is out of range; there are {length} elements, counted from 0"
    ))
}

fn missing(name: &str, value: &Datum<'_>) -> EvaluationError {
    let found = value.description();
    EvaluationError::new(format!("{name} got {found}; test it before with if or with"))
}

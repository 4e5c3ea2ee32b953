//! Placeholders for missing settings of steps, in lossy mode.

use serde_json::{Map, Value};

/// Returns the value. In lossy mode a placeholder replaces a missing one, so that the rest of the step can be checked.
pub(super) fn or_placeholder<T>(
    value: Option<T>,
    is_lossy: bool,
    placeholder: impl FnOnce() -> T,
) -> Option<T> {
    value.or_else(|| is_lossy.then(placeholder))
}

pub(super) fn placeholder_text() -> String {
    "placeholder".to_owned()
}

pub(super) fn placeholder_schema() -> Map<String, Value> {
    Map::from_iter([("type".to_owned(), "object".into())])
}

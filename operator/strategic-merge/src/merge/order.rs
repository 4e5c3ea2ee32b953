//! Order of merged lists: that of the patch comes before that of the object.

use serde_json::Value;

use crate::{PatchError, PatchErrorKind};

/// Returns the value of the merge key; scalars are their own key.
pub(super) fn key_of<'v>(item: &'v Value, key: &str) -> Result<&'v Value, PatchError> {
    if key.is_empty() {
        return Ok(item);
    }
    item.get(key).ok_or_else(|| PatchErrorKind::MissingMergeKey(key.to_owned()).into())
}

/// Separates the items that another list has too from those that it has not.
pub(super) fn partition(
    items: Vec<Value>,
    others: &[Value],
    key: &str,
) -> Result<(Vec<Value>, Vec<Value>), PatchError> {
    let (mut both, mut rest) = (Vec::new(), Vec::new());
    for item in items {
        let is_in_both = position(others, key_of(&item, key)?, key).is_some();
        if is_in_both { both.push(item) } else { rest.push(item) }
    }
    Ok((both, rest))
}

/// Sorts the items of a patch like `order`, the others like `before`, and joins them: the others keep their place in front of the
/// items that followed them.
pub(super) fn restore_order(
    mut of_patch: Vec<Value>,
    mut others: Vec<Value>,
    order: &[Value],
    before: &[Value],
    key: &str,
) -> Result<Vec<Value>, PatchError> {
    for list in [&of_patch, &others, order, before] {
        list.iter().try_for_each(|item| key_of(item, key).map(drop))?;
    }
    sort_like(&mut of_patch, order, key);
    sort_like(&mut others, before, key);
    let mut joined = Vec::with_capacity(of_patch.len() + others.len());
    let mut of_patch = of_patch.into_iter().peekable();
    for other in others {
        let place = position_of(before, &other, key);
        while let Some(item) = of_patch.peek() {
            let follows = matches!((place, position_of(before, item, key)), (Some(own), Some(next)) if own < next);
            if follows {
                break;
            }
            joined.extend(of_patch.next());
        }
        joined.push(other);
    }
    joined.extend(of_patch);
    Ok(joined)
}

/// Sorts items by their place in `order`. Kubernetes moves an item without a place in front of all before it.
fn sort_like(items: &mut [Value], order: &[Value], key: &str) {
    let is_before = |item: &Value, other: &Value| match (
        position_of(order, item, key),
        position_of(order, other, key),
    ) {
        (Some(place), Some(next)) => place < next,
        _ => true,
    };
    for end in 1..items.len() {
        let mut place = end;
        while place > 0 && is_before(&items[place], &items[place - 1]) {
            items.swap(place, place - 1);
            place -= 1;
        }
    }
}

fn position(items: &[Value], name: &Value, key: &str) -> Option<usize> {
    items.iter().position(|item| key_of(item, key).is_ok_and(|other| other == name))
}

fn position_of(items: &[Value], item: &Value, key: &str) -> Option<usize> {
    position(items, key_of(item, key).ok()?, key)
}

//! `$setElementOrder`: the order of a list, in place of those in the patch and in the object.

use serde_json::{Map, Value};

use super::list::{item_type, merge_list};
use super::order::{key_of, partition, restore_order};
use super::{PATCH, SET_ORDER, malformed, target, without_directives};
use crate::object_type::ObjectType;
use crate::{PatchError, PatchErrorKind};

/// Merges the lists with `$setElementOrder`, and removes them from the patch.
pub(super) fn apply_order(
    kind: ObjectType,
    object: &mut Map<String, Value>,
    patch: &mut Map<String, Value>,
) -> Result<(), PatchError> {
    let directives: Vec<_> =
        patch.keys().filter(|name| name.starts_with(SET_ORDER)).cloned().collect();
    for directive in directives {
        let Some(Value::Array(order)) = patch.remove(&directive) else {
            return Err(malformed(&directive));
        };
        let name = target(&directive, SET_ORDER)?;
        let as_list = |list: Option<Value>| match list {
            None => Ok(None),
            Some(Value::Array(items)) => Ok(Some(items)),
            Some(_) => Err(malformed(&directive)),
        };
        let lists = (as_list(object.remove(name))?, as_list(patch.remove(name))?);
        if let Some(items) =
            merge_in_order(kind, name, lists, &order).map_err(|error| error.within(name))?
        {
            object.insert(name.to_owned(), Value::Array(items));
        }
    }
    Ok(())
}

/// Merges a list with its patch, in the given order. `None` without lists.
fn merge_in_order(
    kind: ObjectType,
    name: &str,
    lists: (Option<Vec<Value>>, Option<Vec<Value>>),
    order: &[Value],
) -> Result<Option<Vec<Value>>, PatchError> {
    let field = kind.list_field(name)?;
    let key = field.merge_key();
    let (old, patch) = lists;
    check_order(patch.as_deref().unwrap_or_default(), order, key)?;
    if old.is_none() && patch.is_none() {
        return Ok(None);
    }
    let of_both = [old.as_deref().unwrap_or_default(), patch.as_deref().unwrap_or_default()];
    if item_type(of_both)?.is_none() {
        return Err(PatchErrorKind::NothingToOrder.into());
    }
    let before = old.clone().unwrap_or_default();
    let merged = match (old, patch) {
        (Some(old), Some(patch)) if field.merges_items() => merge_list(field, old, patch)?,
        (Some(_), Some(patch)) => patch,
        (Some(old), None) => old,
        (None, patch) => patch.into_iter().flatten().filter_map(without_directives).collect(),
    };
    let (ordered, others) = partition(merged, order, key)?;
    restore_order(ordered, others, order, &before, key).map(Some)
}

/// Checks that the items of a patch are in an order, apart from those with directives.
fn check_order(patch: &[Value], order: &[Value], key: &str) -> Result<(), PatchError> {
    if patch.is_empty() || order.is_empty() {
        return Ok(());
    }
    let mut order = order.iter();
    for item in patch.iter().filter(|item| item.get(PATCH).is_none()) {
        let name = key_of(item, key)?;
        loop {
            let next = order.next().ok_or(PatchErrorKind::DifferentOrder)?;
            if key_of(next, key)? == name {
                break;
            }
        }
    }
    Ok(())
}

//! Merge of lists, by the merge key of their items.

use std::mem::{Discriminant, discriminant};

use serde_json::Value;

use super::order::{key_of, partition, restore_order};
use super::{PATCH, merge_object};
use crate::object_type::Field;
use crate::{PatchError, PatchErrorKind};

/// Merges the items of a patch into a list.
pub(super) fn merge_list(
    field: &'static Field,
    old: Vec<Value>,
    patch: Vec<Value>,
) -> Result<Vec<Value>, PatchError> {
    let key = field.merge_key();
    let (old, patch, merged) = match item_type([&old, &patch])? {
        None => return Ok(old),
        Some(ItemType::Scalar) => {
            let mut merged: Vec<Value> = Vec::with_capacity(old.len() + patch.len());
            for item in old.iter().chain(&patch) {
                if !merged.contains(item) {
                    merged.push(item.clone());
                }
            }
            (old, patch, merged)
        }
        Some(ItemType::Object) if key.is_empty() => return Err(PatchErrorKind::NoMergeKey.into()),
        Some(ItemType::Object) => {
            let (old, patch) = apply_directives(old, patch, key)?;
            let merged = merge_items(field, old.clone(), &patch)?;
            (old, patch, merged)
        }
    };
    let (of_patch, others) = partition(merged, &patch, key)?;
    restore_order(of_patch, others, &patch, &old, key)
}

/// Type of the items of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ItemType {
    Scalar,
    Object,
}

/// Returns the type that all items have; `None` without items.
pub(super) fn item_type(lists: [&[Value]; 2]) -> Result<Option<ItemType>, PatchError> {
    // Kubernetes distinguishes integers from other numbers.
    let type_of =
        |item: &Value| -> (Discriminant<Value>, bool) { (discriminant(item), item.is_f64()) };
    let mut items = lists.into_iter().flatten();
    let Some(first) = items.next() else { return Ok(None) };
    if first.is_array() {
        return Err(PatchErrorKind::ListOfLists.into());
    }
    if !items.all(|item| type_of(item) == type_of(first)) {
        return Err(PatchErrorKind::MixedItems.into());
    }
    Ok(Some(if first.is_object() { ItemType::Object } else { ItemType::Scalar }))
}

/// Follows the directives among the items of a patch. Returns the list, and the patch without directives.
fn apply_directives(
    mut old: Vec<Value>,
    patch: Vec<Value>,
    key: &str,
) -> Result<(Vec<Value>, Vec<Value>), PatchError> {
    let mut replaces = false;
    let mut items = Vec::with_capacity(patch.len());
    for item in patch {
        match item.get(PATCH) {
            None => items.push(item),
            Some(directive) => match directive.as_str() {
                Some("delete") => {
                    let deleted = Some(key_of(&item, key)?);
                    old.retain(|item| item.get(key) != deleted);
                }
                Some("replace") => replaces = true,
                _ => return Err(PatchErrorKind::UnknownDirective(directive.to_string()).into()),
            },
        }
    }
    Ok(if replaces { (items, Vec::new()) } else { (old, items) })
}

/// Merges each item of a patch into the first one with the same key, or appends it.
fn merge_items(
    field: &'static Field,
    mut items: Vec<Value>,
    patch: &[Value],
) -> Result<Vec<Value>, PatchError> {
    let key = field.merge_key();
    for change in patch {
        let name = Some(key_of(change, key)?);
        let same = items.iter_mut().find(|item| item.get(key) == name);
        match (same, change) {
            (Some(Value::Object(item)), Value::Object(change)) => {
                let old = std::mem::take(item);
                *item = merge_object(field.object_type(), old, change.clone())?;
            }
            _ => items.push(change.clone()),
        }
    }
    Ok(items)
}

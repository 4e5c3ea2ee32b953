//! Merge of objects, with the directives in them.

use serde_json::{Map, Value};

use self::list::merge_list;
use self::set_order::apply_order;
use crate::object_type::ObjectType;
use crate::{PatchError, PatchErrorKind};

mod list;
mod order;
mod set_order;

/// Directive that replaces or deletes the object in which it is.
const PATCH: &str = "$patch";

/// Directive with the names of the fields that remain.
const RETAIN_KEYS: &str = "$retainKeys";

/// Prefix of the name of a list, for the scalars to delete from it.
const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList";

/// Prefix of the name of a list, for the order of its items.
const SET_ORDER: &str = "$setElementOrder";

type Object = Map<String, Value>;

impl ObjectType {
    /// Applies a patch to an object of this type.
    ///
    /// # Errors
    ///
    /// The patch is malformed, an item has no merge key, or the type has no such field.
    pub fn merge(self, object: Value, patch: Value) -> Result<Value, PatchError> {
        let (Value::Object(object), Value::Object(patch)) = (object, patch) else {
            return Err(PatchErrorKind::NotAnObject.into());
        };
        merge_object(self, object, patch).map(Value::Object)
    }
}

/// Applies a patch to an object.
fn merge_object(
    kind: ObjectType,
    mut object: Object,
    mut patch: Object,
) -> Result<Object, PatchError> {
    if let Some(directive) = patch.remove(PATCH) {
        return match directive.as_str() {
            Some("replace") => Ok(patch),
            Some("delete") => Ok(Object::new()),
            _ => Err(PatchErrorKind::UnknownDirective(directive.to_string()).into()),
        };
    }
    retain_keys(&mut object, &mut patch)?;
    apply_order(kind, &mut object, &mut patch)?;
    // Deletions come first, in whatever order the patch has them.
    let (deletions, changes): (Vec<_>, Vec<_>) =
        patch.into_iter().partition(|(name, _)| name.starts_with(DELETE_FROM_LIST));
    for (name, scalars) in deletions {
        delete_scalars(kind, &mut object, &name, scalars)?;
    }
    for (name, change) in changes {
        if change.is_null() {
            object.remove(&name);
            continue;
        }
        let merged = match (object.get_mut(&name).map(Value::take), change) {
            (Some(Value::Object(old)), Value::Object(change)) => {
                let field = kind.object_field(&name)?;
                if field.replaces() {
                    Some(Value::Object(change))
                } else {
                    let merged = merge_object(field.object_type(), old, change);
                    Some(Value::Object(merged.map_err(|error| error.within(&name))?))
                }
            }
            (Some(Value::Array(old)), Value::Array(change)) => {
                let field = kind.list_field(&name)?;
                if field.merges_items() {
                    let merged = merge_list(field, old, change);
                    Some(Value::Array(merged.map_err(|error| error.within(&name))?))
                } else {
                    Some(Value::Array(change))
                }
            }
            (_, mut change) => {
                discard_nulls(&mut change);
                without_directives(change)
            }
        };
        match merged {
            Some(value) => drop(object.insert(name, value)),
            None => drop(object.remove(&name)),
        }
    }
    Ok(object)
}

/// Removes the fields that `$retainKeys` does not name.
fn retain_keys(object: &mut Object, patch: &mut Object) -> Result<(), PatchError> {
    let Some(directive) = patch.remove(RETAIN_KEYS) else { return Ok(()) };
    let Value::Array(retained) = directive else { return Err(malformed(RETAIN_KEYS)) };
    let is_retained = |name: &str| retained.iter().any(|one| one == name);
    let is_directive =
        |name: &str| [DELETE_FROM_LIST, SET_ORDER].iter().any(|one| name.starts_with(one));
    let lost = patch
        .iter()
        .find(|(name, value)| !value.is_null() && !is_directive(name) && !is_retained(name));
    if let Some((name, _)) = lost {
        return Err(PatchErrorKind::NotRetained(name.clone()).into());
    }
    object.retain(|name, _| is_retained(name));
    Ok(())
}

fn delete_scalars(
    kind: ObjectType,
    object: &mut Object,
    directive: &str,
    scalars: Value,
) -> Result<(), PatchError> {
    let name = target(directive, DELETE_FROM_LIST)?;
    let scalars = match scalars {
        Value::Null => {
            object.remove(name);
            return Ok(());
        }
        Value::Array(scalars) => scalars,
        _ => return Err(malformed(directive)),
    };
    if let Some(Value::Array(items)) = object.get_mut(name) {
        kind.list_field(name)?;
        items.retain(|item| !scalars.contains(item));
    }
    Ok(())
}

/// Returns the name of the list that a directive is for.
fn target<'d>(directive: &'d str, prefix: &str) -> Result<&'d str, PatchError> {
    let name = directive.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('/'));
    name.ok_or_else(|| malformed(directive))
}

fn malformed(directive: &str) -> PatchError {
    PatchErrorKind::MalformedDirective(directive.to_owned()).into()
}

/// Removes all fields with `null`.
fn discard_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(discard_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(discard_nulls),
        _ => {}
    }
}

/// Returns a new value of an object without the parts that are directives; `None` if it is one itself.
fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(fields) if fields.contains_key(PATCH) => None,
        Value::Object(fields) => {
            let rest = fields
                .into_iter()
                .filter_map(|(name, value)| Some((name, without_directives(value)?)));
            Some(Value::Object(rest.collect()))
        }
        Value::Array(items) => {
            Some(Value::Array(items.into_iter().filter_map(without_directives).collect()))
        }
        scalar => Some(scalar),
    }
}

#[cfg(test)]
mod tests;

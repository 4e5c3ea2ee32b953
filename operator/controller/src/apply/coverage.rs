//! Comparison of an object with the fields that a manager has.

use serde_json::{Map, Value};

/// Returns whether the field set of a manager (`fieldsV1`) contains all fields of an object that was applied.
///
/// A field that another manager changed has left the set.
pub(super) fn covers(fields: &Value, object: &Value) -> bool {
    let Some(object) = object.as_object() else { return false };
    object.iter().all(|(name, value)| match name.as_str() {
        "apiVersion" | "kind" => true,
        "metadata" => metadata_is_covered(&fields["f:metadata"], value),
        _ => field_is_covered(fields, name, value),
    })
}

/// Name and namespace have no manager.
fn metadata_is_covered(fields: &Value, metadata: &Value) -> bool {
    let members = metadata.as_object().into_iter().flatten();
    members
        .filter(|(name, _)| !matches!(name.as_str(), "name" | "namespace"))
        .all(|(name, value)| field_is_covered(fields, name, value))
}

fn field_is_covered(fields: &Value, name: &str, value: &Value) -> bool {
    // Serialized objects leave absent fields out; null would not be applied.
    value.is_null()
        || fields.get(format!("f:{name}")).is_some_and(|inner| value_is_covered(inner, value))
}

fn value_is_covered(fields: &Value, value: &Value) -> bool {
    let Some(members) = fields.as_object().filter(|members| !is_leaf(members)) else { return true };
    match value {
        Value::Object(object) => {
            object.iter().all(|(name, value)| field_is_covered(fields, name, value))
        }
        Value::Array(items) => items.iter().all(|item| item_is_covered(members, item)),
        _ => false,
    }
}

/// Returns whether a set stands for the value as a whole.
fn is_leaf(members: &Map<String, Value>) -> bool {
    members.keys().all(|name| name == ".")
}

fn item_is_covered(members: &Map<String, Value>, item: &Value) -> bool {
    members.iter().any(|(element, inner)| {
        let read = |text: &str| serde_json::from_str::<Value>(text).unwrap_or(Value::Null);
        if let Some(value) = element.strip_prefix("v:") {
            return read(value) == *item;
        }
        let Some(key) = element.strip_prefix("k:") else { return false };
        let Value::Object(key) = read(key) else { return false };
        // A key with a default (the protocol of a port) may be absent from the item.
        let is_same =
            key.iter().all(|(name, value)| item.get(name).is_none_or(|found| found == value));
        is_same && value_is_covered(inner, item)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fields() -> Value {
        json!({
            "f:metadata": {"f:labels": {"f:app": {}}, "f:ownerReferences": {"k:{\"uid\":\"u\"}": {}}},
            "f:spec": {
                "f:selector": {},
                "f:template": {"f:spec": {"f:containers": {
                    "k:{\"name\":\"vmcp\"}": {
                        ".": {}, "f:name": {}, "f:image": {}, "f:args": {},
                        "f:ports": {"k:{\"containerPort\":1,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}, "f:name": {}}},
                    },
                }}},
            },
            "f:list": {"v:\"a\"": {}},
        })
    }

    fn object() -> Value {
        let container = json!({"name": "vmcp", "image": "i", "args": ["x", "y"], "ports": [{"containerPort": 1, "name": "http"}]});
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "n", "namespace": "ns", "labels": {"app": "n"}, "ownerReferences": [{"uid": "u", "name": "o"}]},
            "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"spec": {"containers": [container]}}},
            "list": ["a"],
        })
    }

    #[test]
    fn own_fields_cover_their_object() {
        assert!(covers(&fields(), &object()));
    }

    #[test]
    fn field_of_another_manager_is_missing() {
        let containers = "/f:spec/f:template/f:spec/f:containers";
        let vmcp = format!("{containers}/k:{{\"name\":\"vmcp\"}}");
        let port = format!("{vmcp}/f:ports/k:{{\"containerPort\":1,\"protocol\":\"TCP\"}}/f:name");
        let paths = [
            "/f:metadata/f:labels/f:app",
            "/f:metadata/f:ownerReferences/k:{\"uid\":\"u\"}",
            "/f:spec/f:selector",
            &format!("{vmcp}/f:image"),
            &port,
            "/f:list/v:\"a\"",
        ];
        for path in paths {
            let mut fields = fields();
            let (parent, name) = path.rsplit_once('/').unwrap();
            let parent = fields.pointer_mut(parent).unwrap().as_object_mut().unwrap();
            parent.remove(name).unwrap();
            parent.insert("f:other".to_owned(), json!({}));
            assert!(!covers(&fields, &object()), "{path}");
        }
    }

    #[test]
    fn foreign_fields_do_not_matter() {
        let mut fields = fields();
        fields["f:metadata"]["f:labels"]["f:other"] = json!({});
        assert!(covers(&fields, &object()));
    }
}

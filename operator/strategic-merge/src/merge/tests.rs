use serde_json::{Value, json};

use crate::ObjectType;

/// Patches with their result in Kubernetes' own Go code (`tests/tools/kubernetes`).
const VECTORS: &str = include_str!("vectors.json");

#[test]
fn patches_end_as_in_api_server() {
    let deployment = ObjectType::of_kind("apps", "v1", "Deployment").unwrap();
    let vectors: Value = serde_json::from_str(VECTORS).unwrap();
    let vectors = vectors.as_array().unwrap();
    assert!(vectors.len() > 150, "{}", vectors.len());
    let mut broken = Vec::new();
    for vector in vectors {
        let result = deployment.merge(vector["object"].clone(), vector["patch"].clone());
        let is_same = match &result {
            Ok(merged) => vector.get("result") == Some(merged),
            Err(_) => vector.get("error").is_some(),
        };
        if !is_same {
            broken.push(format!("{vector}\nbut {result:?}"));
        }
    }
    assert!(broken.is_empty(), "{} broken:\n{}", broken.len(), broken.join("\n\n"));
}

#[test]
fn errors_name_field_and_remedy() {
    let message = |object: Value, patch: Value| {
        let error = ObjectType::pod_template_spec().merge(object, patch).unwrap_err();
        error.to_string()
    };
    let unknown = json!({"spec": {"extra": {"a": 1}}});
    assert_eq!(
        message(unknown.clone(), unknown),
        "spec.extra: the type has no field of this name that could be merged; correct the name or the value"
    );
    assert_eq!(
        message(json!({"spec": {}}), json!({"spec": {"$patch": "remove"}})),
        r#"spec: "$patch": "remove" is not allowed here; use "replace" or "delete""#
    );
    assert_eq!(
        message(json!({}), json!({"$retainKeys": ["spec"], "metadata": {}})),
        r#"the patch sets "metadata", but $retainKeys does not have it; add it there"#
    );
    assert_eq!(message(json!([]), json!({})), "the object and its patch have to be JSON objects");
}

#[test]
fn scalars_are_deleted_before_additions() {
    let service_account = ObjectType::of_kind("", "v1", "ServiceAccount").unwrap();
    let object = json!({"metadata": {"finalizers": ["a", "b"]}});
    let patch = json!({"metadata": {"finalizers": ["a"], "$deleteFromPrimitiveList/finalizers": ["a", "b"]}});
    let merged = service_account.merge(object, patch).unwrap();
    assert_eq!(merged, json!({"metadata": {"finalizers": ["a"]}}));
}

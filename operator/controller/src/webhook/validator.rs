//! Validation of an object that a client wants to store.

use serde::de::DeserializeOwned;
use serde_json::Value;
use vmcp_api::conversion::ResourceError;
use vmcp_api::{MCPExternalAuthConfig, VirtualMCPServer};

use super::review::{Outcome, Review};
use crate::controllers::shared_config::errors_of;
use crate::key::Kind;
use crate::server_review::{ServerReview, review_server};
use crate::settings::Settings;

/// Name of an object that the API server has yet to name.
const UNNAMED: &str = "unnamed";

/// Validator of objects, the same for each replica.
#[derive(Debug)]
pub(super) struct Validator {
    settings: Settings,
}

// === impl Validator ===

impl Validator {
    pub(super) fn new(settings: Settings) -> Self {
        Self { settings }
    }

    /// Validates a write. Writes that leave the spec as it is, and writes of an object that is being deleted, are allowed:
    /// finalizers and labels of an object that an older version admitted can be changed.
    pub(super) fn validate(&self, review: &Review) -> Outcome {
        let is_validated = match review.operation.as_str() {
            "CREATE" => true,
            "UPDATE" => review.object["spec"] != review.old_object["spec"],
            _ => false,
        };
        let is_deleted = !review.object["metadata"]["deletionTimestamp"].is_null();
        if !is_validated || is_deleted {
            return Outcome::Skipped;
        }
        let validated = match review.kind {
            Kind::MCPExternalAuthConfig => read::<MCPExternalAuthConfig>(review)
                .map(|config| ServerReview { errors: errors_of(&config), warnings: Vec::new() }),
            _ => read::<VirtualMCPServer>(review)
                .map(|server| review_server(&server, &self.settings)),
        };
        let ServerReview { errors, warnings } = match validated {
            Ok(validated) => validated,
            Err(error) => return Outcome::Denied { errors: vec![error] },
        };
        if errors.is_empty() {
            return Outcome::Allowed { warnings };
        }
        Outcome::Denied { errors: errors.iter().map(ResourceError::to_string).collect() }
    }
}

/// Reads the object. The error has the path alone: a value might be a secret in the wrong place.
fn read<R: DeserializeOwned>(review: &Review) -> Result<R, String> {
    let mut object = review.object.clone();
    let metadata = &mut object["metadata"];
    let fill = |field: &mut Value, text: &str, default: &str| {
        if field.as_str().is_none_or(str::is_empty) {
            *field = if text.is_empty() { default } else { text }.into();
        }
    };
    fill(&mut metadata["name"], &review.name, UNNAMED);
    fill(&mut metadata["namespace"], &review.namespace, "default");
    serde_path_to_error::deserialize(object)
        .map_err(|error| format!("{}: found a value that the schema does not allow", error.path()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const POLICY: &str = "permit(";

    fn server(policy: &str) -> Value {
        json!({
            "apiVersion": "vmcp.dev/v1beta1", "kind": "VirtualMCPServer",
            "metadata": {"name": "a", "namespace": "tools"},
            "spec": {"groupRef": {"name": "g"}, "incomingAuth": {"type": "anonymous", "authzConfig": {
                "type": "inline", "inline": {"policies": [policy]},
            }}},
        })
    }

    fn validate(operation: &str, object: Value, old_object: Value) -> Outcome {
        let review = Review {
            uid: "u".to_owned(),
            kind: Kind::VirtualMCPServer,
            namespace: "tools".to_owned(),
            name: String::new(),
            operation: operation.to_owned(),
            object,
            old_object,
        };
        Validator::new(Settings::new("vmcp")).validate(&review)
    }

    #[test]
    fn changed_spec_is_validated() {
        let valid = server("permit(principal, action, resource);");
        for (operation, old) in [("CREATE", Value::Null), ("UPDATE", valid.clone())] {
            let Outcome::Denied { errors } = validate(operation, server(POLICY), old) else {
                panic!("{operation} is denied");
            };
            let path = "spec.incomingAuth.authzConfig.inline.policies[0]: ";
            assert!(errors[0].starts_with(path), "{errors:?}");
        }
        assert_eq!(
            validate("CREATE", valid, Value::Null),
            Outcome::Allowed { warnings: Vec::new() }
        );
    }

    #[test]
    fn unchanged_spec_and_deletion_are_allowed() {
        let mut labeled = server(POLICY);
        labeled["metadata"]["labels"]["a"] = "b".into();
        assert_eq!(validate("UPDATE", labeled, server(POLICY)), Outcome::Skipped);
        let mut deleted = server(POLICY);
        deleted["metadata"]["deletionTimestamp"] = "2027-01-01T00:00:00Z".into();
        let before = server("permit(principal, action, resource);");
        assert_eq!(validate("UPDATE", deleted, before), Outcome::Skipped);
        assert_eq!(validate("DELETE", Value::Null, server(POLICY)), Outcome::Skipped);
    }

    #[test]
    fn object_without_name_is_validated() {
        let mut object = server(POLICY);
        object["metadata"] = json!({"generateName": "a-"});
        assert!(matches!(validate("CREATE", object, Value::Null), Outcome::Denied { .. }));
    }

    #[test]
    fn values_are_not_repeated() {
        let mut object = server(POLICY);
        object["spec"]["replicas"] = "s3cr3t".into();
        let outcome = validate("CREATE", object, Value::Null);
        let error = "spec.replicas: found a value that the schema does not allow".to_owned();
        assert_eq!(outcome, Outcome::Denied { errors: vec![error] });
    }
}

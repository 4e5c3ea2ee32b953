//! ValidatingWebhookConfiguration: the API server calls the webhook by it.

use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::{Api, Client};
use serde_json::{Value, json};
use vmcp_api::{GROUP, VERSION};

use super::{ServiceName, is_own, labels};
use crate::apply::{ApplyError, within};
use crate::key::Key;
use crate::names::FIELD_MANAGER;

/// Path of the webhook.
pub(super) const PATH: &str = "/validate";

/// Seconds that the API server waits for.
const TIMEOUT: i32 = 2;

/// Resources that the webhook validates.
const RESOURCES: [&str; 2] = ["mcpexternalauthconfigs", "virtualmcpservers"];

const KIND: &str = "ValidatingWebhookConfiguration";

/// Configuration of the webhook in the cluster.
#[derive(Debug)]
pub(super) struct Configuration {
    api: Api<ValidatingWebhookConfiguration>,
    service: ServiceName,
    /// Namespaces that the operator watches; none means all.
    namespaces: Vec<String>,
}

// === impl Configuration ===

impl Configuration {
    pub(super) fn new(client: Client, service: ServiceName, namespaces: Vec<String>) -> Self {
        Self { api: Api::all(client), service, namespaces }
    }

    /// Applies the configuration unless it is already so. Returns the authorities that it trusted before.
    pub(super) async fn apply(&self, bundle: &str) -> Result<Vec<u8>, ApplyError> {
        let live = self.read().await?;
        if let Some(live) = &live
            && !is_own(&live.metadata, &self.service)
        {
            return Err(self.foreign());
        }
        let desired = desired(&self.service, &self.namespaces, bundle);
        let live = live.map(|live| serde_json::to_value(live).expect("objects are JSON"));
        let live = live.unwrap_or_default();
        if !is_so(&live, &desired) {
            let name = self.service.configuration_name();
            let parameters = PatchParams::apply(FIELD_MANAGER).force();
            let patch = Patch::Apply(&desired);
            within(KIND, &self.key(), self.api.patch(&name, &parameters, &patch)).await?;
            tracing::info!(configuration = %name, "webhook configuration applied");
        }
        Ok(trusted(&live))
    }

    /// Deletes the configuration if it is that of this operator.
    pub(super) async fn delete(&self) -> Result<(), ApplyError> {
        let Some(live) = self.read().await? else { return Ok(()) };
        if !is_own(&live.metadata, &self.service) {
            return Ok(());
        }
        let preconditions = Preconditions {
            uid: live.metadata.uid,
            resource_version: live.metadata.resource_version,
        };
        let parameters =
            DeleteParams { preconditions: Some(preconditions), ..DeleteParams::background() };
        let name = self.service.configuration_name();
        within(KIND, &self.key(), self.api.delete(&name, &parameters)).await?;
        tracing::info!(configuration = %name, "webhook configuration deleted");
        Ok(())
    }

    async fn read(&self) -> Result<Option<ValidatingWebhookConfiguration>, ApplyError> {
        let name = self.service.configuration_name();
        within(KIND, &self.key(), self.api.get_opt(&name)).await
    }

    fn key(&self) -> Key {
        Key::new("", &self.service.configuration_name())
    }

    fn foreign(&self) -> ApplyError {
        let owner = format!("has no label {} of this operator", super::LABEL);
        ApplyError::Foreign { kind: KIND.to_owned(), key: self.key(), owner }
    }
}

/// Returns the configuration. It has all fields that have defaults, so that it can be compared with a stored one.
pub(super) fn desired(service: &ServiceName, namespaces: &[String], bundle: &str) -> Value {
    let ServiceName { namespace, name } = service;
    let bundle = k8s_openapi::ByteString(bundle.as_bytes().to_vec());
    let selector = if namespaces.is_empty() {
        json!({})
    } else {
        let key = "kubernetes.io/metadata.name";
        json!({"matchExpressions": [{"key": key, "operator": "In", "values": namespaces}]})
    };
    let webhook = json!({
        "name": format!("validation.{GROUP}"),
        "admissionReviewVersions": ["v1"],
        "clientConfig": {
            "caBundle": bundle,
            "service": {"namespace": namespace, "name": name, "path": PATH, "port": 443},
        },
        "failurePolicy": "Ignore",
        "matchPolicy": "Equivalent",
        "namespaceSelector": selector,
        "objectSelector": {},
        "rules": [{
            "apiGroups": [GROUP], "apiVersions": [VERSION], "operations": ["CREATE", "UPDATE"],
            "resources": RESOURCES, "scope": "Namespaced",
        }],
        "sideEffects": "None",
        "timeoutSeconds": TIMEOUT,
    });
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": KIND,
        "metadata": {"name": service.configuration_name(), "labels": labels(service)},
        "webhooks": [webhook],
    })
}

/// Returns whether a stored object has all that is desired. Fields and webhooks that others added stay.
fn is_so(live: &Value, desired: &Value) -> bool {
    let labels = desired["metadata"]["labels"].as_object().into_iter().flatten();
    let has_labels = |(name, value): (&String, &Value)| live["metadata"]["labels"][name] == *value;
    let webhook = &desired["webhooks"][0];
    let has_fields = |found: &Value| {
        webhook.as_object().into_iter().flatten().all(|(name, value)| found[name] == *value)
    };
    let webhooks = live["webhooks"].as_array();
    labels.into_iter().all(has_labels) && webhooks.is_some_and(|all| all.iter().any(has_fields))
}

/// Returns the authorities that a stored configuration trusts.
fn trusted(live: &Value) -> Vec<u8> {
    let name = format!("validation.{GROUP}");
    let webhooks = live["webhooks"].as_array().into_iter().flatten();
    let mut own = webhooks.filter(|webhook| webhook["name"] == *name);
    let bundle = own.next().map(|webhook| webhook["clientConfig"]["caBundle"].clone());
    let bundle = bundle.and_then(|bundle| serde_json::from_value(bundle).ok());
    let k8s_openapi::ByteString(bundle) = bundle.unwrap_or_default();
    bundle
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service() -> ServiceName {
        ServiceName { namespace: "system".to_owned(), name: "webhook".to_owned() }
    }

    #[test]
    fn equal_object_is_not_written() {
        let desired = desired(&service(), &["a".to_owned()], "bundle");
        let mut live = desired.clone();
        live["webhooks"][0]["matchConditions"] = json!([{"name": "mine", "expression": "true"}]);
        live["metadata"]["labels"]["mine"] = "x".into();
        assert!(is_so(&live, &desired));
        for change in [
            "/webhooks/0/failurePolicy",
            "/webhooks/0/clientConfig/caBundle",
            "/webhooks/0/namespaceSelector",
            "/metadata/labels/vmcp.dev~1webhook",
        ] {
            let mut live = live.clone();
            *live.pointer_mut(change).unwrap() = "other".into();
            assert!(!is_so(&live, &desired), "{change}");
        }
        assert!(!is_so(&Value::Null, &desired));
    }

    #[test]
    fn bundle_of_own_webhook_is_trusted() {
        let desired = desired(&service(), &[], "bundle");
        assert_eq!(trusted(&desired), b"bundle");
        assert_eq!(trusted(&Value::Null), b"");
    }
}

//! `vmcp-operator install`.

use clap::Args;
use serde_json::{Map, Value, json};

use super::output::{Failure, document, print};
use super::settings::non_empty;

/// Manifests that the command completes.
const OPERATOR: &str = include_str!("../../../deploy/operator.yaml");

/// Roles of the operator.
const ROLES: &str = include_str!("../../../deploy/role.yaml");

/// Name of all objects, or its beginning; also that of the role for the watched namespaces.
const NAME: &str = "vmcp-operator";

/// Namespace in the manifests.
const NAMESPACE: &str = "vmcp-system";

/// Maximum length of the name of a namespace, which is a DNS label (RFC 1123).
const MAX_LABEL: usize = 63;

const RBAC: &str = "rbac.authorization.k8s.io";

#[derive(Debug, Args)]
pub(crate) struct InstallArgs {
    /// Prints the manifests, for `kubectl apply --server-side -f -`. The command never connects to a cluster.
    #[arg(long, required = true)]
    print: bool,
    /// Namespace of the operator.
    #[arg(long, value_name = "NAME", default_value = "vmcp-system", value_parser = namespace)]
    namespace: String,
    /// Namespaces that the operator watches. None means all.
    #[arg(long, value_delimiter = ',', value_name = "NAME", value_parser = namespace)]
    watch_namespace: Vec<String>,
    /// Image of the operator.
    #[arg(
        long,
        value_name = "IMAGE",
        default_value = concat!("ghcr.io/vmcp-dev/vmcp-operator:", env!("CARGO_PKG_VERSION"))
    )]
    image: String,
    /// Image of the servers.
    #[arg(
        long,
        value_name = "IMAGE",
        default_value = concat!("ghcr.io/vmcp-dev/vmcp:", env!("CARGO_PKG_VERSION"))
    )]
    server_image: String,
}

// === impl InstallArgs ===

impl InstallArgs {
    /// Prints the definitions, then the objects of the operator, in an order in which they can be applied.
    pub(crate) fn run(self) -> Result<(), Failure> {
        for definition in vmcp_api::definitions() {
            let definition = serde_json::to_value(&definition).map_err(|error| {
                Failure::Error(format!("failed to write a definition as JSON: {error}"))
            })?;
            print(&document(&[], &definition)?);
        }
        for object in self.objects()? {
            print(&document(&[], &object)?);
        }
        Ok(())
    }

    /// Returns the objects of the operator.
    fn objects(&self) -> Result<Vec<Value>, Failure> {
        let mut objects = Vec::new();
        for mut object in parse(OPERATOR)? {
            if object["kind"] == "Namespace" {
                object["metadata"]["name"] = self.namespace.clone().into();
            } else {
                object["metadata"]["namespace"] = self.namespace.clone().into();
            }
            if object["kind"] == "Deployment" {
                self.complete(&mut object["spec"]["template"]);
            }
            objects.push(object);
        }
        // The pods of the Deployment need the permissions as soon as they start.
        let deployment = objects.pop();
        for role in parse(ROLES)? {
            objects.extend(self.with_bindings(role));
        }
        objects.extend(deployment);
        for object in &mut objects {
            label(&mut object["metadata"]);
        }
        Ok(objects)
    }

    /// Completes the pod template.
    fn complete(&self, template: &mut Value) {
        label(&mut template["metadata"]);
        let container = &mut template["spec"]["containers"][0];
        container["image"] = self.image.clone().into();
        if let Some(variables) = container["env"].as_array_mut() {
            variables.push(json!({"name": "VMCP_IMAGE", "value": self.server_image}));
            let watched = non_empty(&self.watch_namespace).join(",");
            if !watched.is_empty() {
                variables.push(json!({"name": "WATCH_NAMESPACE", "value": watched}));
            }
        }
    }

    /// Returns a role with its bindings. The name of a ClusterRole begins with the namespace, so that installations in several
    /// namespaces do not share it.
    fn with_bindings(&self, mut role: Value) -> Vec<Value> {
        let is_cluster_role = role["kind"] == "ClusterRole";
        let is_scoped = role["metadata"]["name"] == NAME;
        self.rename(&mut role["rules"]);
        let name = role["metadata"]["name"].as_str().unwrap_or(NAME);
        let name =
            if is_cluster_role { format!("{}:{name}", self.namespace) } else { name.to_owned() };
        role["metadata"]["name"] = name.clone().into();
        let watched = non_empty(&self.watch_namespace);
        let spaces: Vec<Option<String>> = if !is_cluster_role {
            role["metadata"]["namespace"] = self.namespace.clone().into();
            vec![Some(self.namespace.clone())]
        } else if watched.is_empty() || !is_scoped {
            vec![None]
        } else {
            watched.into_iter().map(Some).collect()
        };
        let bindings = spaces.into_iter().map(|space| self.binding(&role["kind"], &name, space));
        let bindings: Vec<_> = bindings.collect();
        [role].into_iter().chain(bindings).collect()
    }

    /// Gives the objects that rules name the namespace of this installation.
    fn rename(&self, rules: &mut Value) {
        for rule in rules.as_array_mut().into_iter().flatten() {
            let names = rule.get_mut("resourceNames").and_then(Value::as_array_mut);
            for name in names.into_iter().flatten() {
                if let Some(text) = name.as_str() {
                    *name = text.replace(NAMESPACE, &self.namespace).into();
                }
            }
        }
    }

    /// Returns the binding of a role in a namespace, or in the whole cluster.
    fn binding(&self, kind: &Value, name: &str, namespace: Option<String>) -> Value {
        let is_namespaced = namespace.is_some();
        let mut metadata = Map::from_iter([("name".to_owned(), name.into())]);
        metadata.extend(namespace.map(|namespace| ("namespace".to_owned(), namespace.into())));
        json!({
            "apiVersion": format!("{RBAC}/v1"),
            "kind": if is_namespaced { "RoleBinding" } else { "ClusterRoleBinding" },
            "metadata": metadata,
            "roleRef": {"apiGroup": RBAC, "kind": kind, "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": self.namespace}],
        })
    }
}

/// Adds the labels of an object or a pod.
fn label(metadata: &mut Value) {
    for (name, value) in [
        ("app.kubernetes.io/name", NAME),
        ("app.kubernetes.io/instance", NAME),
        ("app.kubernetes.io/version", env!("CARGO_PKG_VERSION")),
        ("app.kubernetes.io/part-of", "vmcp"),
    ] {
        metadata["labels"][name] = value.into();
    }
}

/// Returns the documents of a manifest that is part of this program.
fn parse(manifest: &str) -> Result<Vec<Value>, Failure> {
    serde_saphyr::from_multiple(manifest)
        .map_err(|error| Failure::Error(format!("a manifest of this program is not YAML: {error}")))
}

/// Parses the name of a namespace.
fn namespace(text: &str) -> Result<String, String> {
    let is_inside = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_label = (1..=MAX_LABEL).contains(&text.len())
        && text.bytes().all(|byte| is_inside(&byte) || byte == b'-')
        && !text.starts_with('-')
        && !text.ends_with('-');
    if is_label {
        return Ok(text.to_owned());
    }
    Err(format!(
        "must be the name of a namespace: up to {MAX_LABEL} lower-case letters, digits and inner hyphens"
    ))
}

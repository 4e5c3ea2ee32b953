//! Resources of ToolHive, converted into those of vmcp.

mod backend;

use serde_json::{Map, Value, json};
use vmcp_api::{GROUP, VERSION};

use self::backend::backend;
use super::Finding;
use super::admission::{Admission, RESOURCES};
use crate::key::Kind;

/// API group of ToolHive.
const TOOLHIVE: &str = "toolhive.stacklok.dev";

/// Versions that are converted. Both have the same fields, but for some that are names in one and objects in the other.
const VERSIONS: [&str; 2] = ["v1alpha1", "v1beta1"];

/// Fields of the metadata that a manifest keeps.
const METADATA: [&str; 4] = ["name", "namespace", "labels", "annotations"];

/// Annotation with the manifest that was applied last.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Result of a conversion.
#[derive(Debug, Default)]
pub struct Imported {
    /// Resources that [`Manifests::read`](super::Manifests::read) accepts, in the order of the documents.
    pub resources: Vec<Value>,
    /// Fields and objects without a counterpart, which are left out.
    pub notes: Vec<Finding>,
    /// Resources that cannot be converted, with the reasons.
    pub findings: Vec<Finding>,
}

/// Converts resources of ToolHive. MCPServer and MCPRemoteProxy, which its operator goes on to run, become MCPServerEntries for
/// their Services in a cluster with the DNS domain `domain`. References to Secrets and ConfigMaps stay.
#[must_use]
pub fn import(documents: Vec<Value>, domain: &str) -> Imported {
    let mut imported = Imported::default();
    let mut admission = Admission::default();
    for (document, object) in documents.into_iter().enumerate() {
        Import { document, domain, imported: &mut imported }.convert(&mut admission, &object);
    }
    imported
}

/// Conversion of a document.
struct Import<'a> {
    document: usize,
    domain: &'a str,
    imported: &'a mut Imported,
}

// === impl Import ===

impl Import<'_> {
    fn convert(mut self, admission: &mut Admission, object: &Value) {
        let kind = object["kind"].as_str().unwrap_or_default();
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or("default");
        let title = format!("{kind} {namespace}/{name}");
        let api_version = object["apiVersion"].as_str().unwrap_or_default();
        let is_supported = api_version
            .strip_prefix(TOOLHIVE)
            .and_then(|rest| rest.strip_prefix('/'))
            .is_some_and(|version| VERSIONS.contains(&version));
        if !is_supported {
            let message = format!("found {api_version}; allowed: {TOOLHIVE}/v1alpha1 or v1beta1");
            return self.note(&title, "apiVersion", format!("{message}; it is left out"));
        }
        let Some(known) = RESOURCES.into_iter().find(|one| one.as_str() == kind) else {
            return self.note(&title, "", "the kind has no counterpart".to_owned());
        };
        let mut spec = object["spec"].as_object().cloned().unwrap_or_default();
        group_by_object(&mut spec);
        let (kind, spec) = match known {
            Kind::MCPServer | Kind::MCPRemoteProxy => {
                let converted = backend(known, object, spec, self.domain);
                for (path, message) in converted.notes {
                    self.note(&title, &path, message);
                }
                let Some(spec) = converted.spec else { return };
                (Kind::MCPServerEntry, spec)
            }
            _ => (known, spec),
        };
        let mut resource = json!({
            "apiVersion": format!("{GROUP}/{VERSION}"),
            "kind": kind.as_str(),
            "metadata": self.metadata(&title, &object["metadata"]),
            "spec": spec,
        });
        for path in admission.schema(kind).prune(&mut resource) {
            self.note(&title, &path, "the field has no counterpart".to_owned());
        }
        let mut judged = resource.clone();
        let errors = admission.judge(kind, &mut judged);
        if errors.is_empty() {
            self.imported.resources.push(resource);
        }
        for (_, path, message) in errors {
            let (document, object) = (self.document, title.clone());
            self.imported.findings.push(Finding { document, object, path, message });
        }
    }

    /// Returns the metadata of a manifest, without what the API server and ToolHive added.
    fn metadata(&mut self, title: &str, metadata: &Value) -> Value {
        let fields = metadata.as_object().into_iter().flatten();
        let kept = fields.filter(|(name, _)| METADATA.contains(&name.as_str()));
        let mut kept: Map<String, Value> =
            kept.map(|(name, value)| (name.clone(), value.clone())).collect();
        for part in ["annotations", "labels"] {
            let Some(Value::Object(entries)) = kept.get_mut(part) else { continue };
            entries.remove(LAST_APPLIED);
            entries.retain(|name, _| {
                let is_own = name.split('/').next() == Some(TOOLHIVE);
                if is_own {
                    let message = "ToolHive's own; it is left out".to_owned();
                    self.note(title, &format!("metadata.{part}.{name}"), message);
                }
                !is_own
            });
            if entries.is_empty() {
                kept.remove(part);
            }
        }
        Value::Object(kept)
    }

    fn note(&mut self, object: &str, path: &str, message: String) {
        let (object, path) = (object.to_owned(), path.to_owned());
        self.imported.notes.push(Finding { document: self.document, object, path, message });
    }
}

/// Version v1alpha1 has names of groups where v1beta1 has objects, and the group of a VirtualMCPServer in its configuration.
fn group_by_object(spec: &mut Map<String, Value>) {
    if let Some(group) = spec.get_mut("groupRef")
        && group.is_string()
    {
        *group = json!({"name": group.take()});
    }
    if spec.contains_key("groupRef") {
        return;
    }
    let config = spec.get_mut("config").and_then(Value::as_object_mut);
    let group = config.and_then(|config| {
        config
            .get("groupRef")
            .or_else(|| config.get("group"))
            .filter(|name| name.is_string())
            .cloned()
    });
    if let Some(name) = group {
        spec.insert("groupRef".to_owned(), json!({"name": name}));
    }
}

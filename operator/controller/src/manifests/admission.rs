//! Judgement of an object by itself, as the API server does at `kubectl apply`.

use std::collections::BTreeMap;

use serde_json::Value;
use vmcp_api::{GROUP, VERSION};
use vmcp_structural_schema::Schema;

use super::Finding;
use crate::key::{Key, Kind, ObjectKey};

/// Namespace of objects without one.
const DEFAULT_NAMESPACE: &str = "default";

/// Maximum length of a name.
const MAX_NAME: usize = 253;

/// Kinds of vmcp.
pub(super) const RESOURCES: [Kind; 11] = [
    Kind::VirtualMCPServer,
    Kind::MCPGroup,
    Kind::MCPServer,
    Kind::MCPRemoteProxy,
    Kind::MCPServerEntry,
    Kind::MCPExternalAuthConfig,
    Kind::MCPOIDCConfig,
    Kind::MCPTelemetryConfig,
    Kind::MCPToolConfig,
    Kind::VirtualMCPCompositeToolDefinition,
    Kind::EmbeddingServer,
];

/// Schemas of the kinds of vmcp, each compiled when its first object comes.
#[derive(Debug, Default)]
pub(super) struct Admission {
    documents: Option<BTreeMap<String, Value>>,
    schemas: BTreeMap<Kind, Schema>,
}

/// Result of the judgement of a document.
pub(super) enum Admitted {
    /// A resource of vmcp, with defaults.
    Resource(ObjectKey, Value),
    /// A Secret or ConfigMap.
    Source(ObjectKey, Value),
    /// An object of another kind.
    Other,
    /// A document whose findings say why it is none of these.
    Invalid,
}

// === impl Admission ===

impl Admission {
    /// Judges a document and adds what is wrong to `findings`.
    pub(super) fn admit(
        &mut self,
        document: usize,
        object: Value,
        findings: &mut Vec<Finding>,
    ) -> Admitted {
        let mut report = |object: &str, path: &str, message: String| {
            let (object, path) = (object.to_owned(), path.to_owned());
            findings.push(Finding { document, object, path, message });
        };
        let (Some(api_version), Some(kind)) =
            (object["apiVersion"].as_str(), object["kind"].as_str())
        else {
            let message = "found no apiVersion or no kind; allowed: a Kubernetes object";
            report("document", "", message.to_owned());
            return Admitted::Invalid;
        };
        let source = match (api_version, kind) {
            ("v1", "Secret") => Some(Kind::Secret),
            ("v1", "ConfigMap") => Some(Kind::ConfigMap),
            _ => None,
        };
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        let resource = RESOURCES.into_iter().find(|one| one.as_str() == kind);
        let found = match (source, resource) {
            (Some(source), _) => source,
            (None, Some(resource)) if api_version == format!("{GROUP}/{VERSION}") => resource,
            (None, Some(_)) => {
                let message = wrong_version(api_version);
                report(kind, "apiVersion", message);
                return Admitted::Invalid;
            }
            (None, None) if group == GROUP => {
                let names: Vec<_> = RESOURCES.iter().map(|one| one.as_str()).collect();
                report(kind, "kind", format!("found {kind}; allowed: {}", names.join(", ")));
                return Admitted::Invalid;
            }
            (None, None) => return Admitted::Other,
        };
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        if !is_name(name) {
            let message = format!(
                "found {name:?}; allowed: up to {MAX_NAME} lower case letters, digits, `-` and `.`, with a letter or digit at each end"
            );
            report(kind, "metadata.name", message);
            return Admitted::Invalid;
        }
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or(DEFAULT_NAMESPACE);
        let key = ObjectKey::new(found, Key::new(namespace, name));
        if source.is_some() {
            return Admitted::Source(key, object);
        }
        let mut object = object;
        object["metadata"]["namespace"] = key.key.namespace.as_ref().into();
        let errors = self.judge(found, &mut object);
        let is_invalid = errors.iter().any(|(is_fatal, _, _)| *is_fatal);
        for (_, path, message) in errors {
            report(&key.to_string(), &path, message);
        }
        if is_invalid { Admitted::Invalid } else { Admitted::Resource(key, object) }
    }

    /// Removes unknown fields, fills in defaults and validates. Returns of each mistake whether the object is unusable, its path and
    /// its message.
    pub(super) fn judge(&mut self, kind: Kind, object: &mut Value) -> Vec<(bool, String, String)> {
        let schema = self.schema(kind);
        let unknown = schema.prune(object).into_iter().map(|path| {
            let message = "found an unknown field; allowed: the fields of the schema";
            (false, path, message.to_owned())
        });
        let mut errors: Vec<_> = unknown.collect();
        schema.apply_defaults(object);
        // An error without a field says that rules wait until the others are mended.
        let named =
            schema.validate(object, None).into_iter().filter(|error| !error.field.is_empty());
        errors.extend(named.map(|error| {
            let body = error.body();
            (true, error.field, body)
        }));
        errors
    }

    pub(super) fn schema(&mut self, kind: Kind) -> &Schema {
        let documents = self.documents.get_or_insert_with(|| {
            let definitions = vmcp_api::definitions().into_iter();
            let schemas = definitions.map(|definition| {
                let value = serde_json::to_value(&definition.spec.versions[0].schema)
                    .expect("a schema is JSON");
                (definition.spec.names.kind, value["openAPIV3Schema"].clone())
            });
            schemas.collect()
        });
        self.schemas.entry(kind).or_insert_with(|| {
            let document = documents.get(kind.as_str()).expect("each kind has a definition");
            Schema::from_value(document).expect("a committed schema compiles")
        })
    }
}

fn wrong_version(found: &str) -> String {
    let allowed = format!("found {found}; allowed: {GROUP}/{VERSION}");
    if found.starts_with(&format!("{GROUP}/")) {
        allowed
    } else {
        format!("{allowed} (`vmcp-operator import` converts resources of ToolHive)")
    }
}

/// Returns whether a name is a DNS subdomain (RFC 1123).
fn is_name(name: &str) -> bool {
    let is_inside = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_part = |part: &str| {
        !part.is_empty()
            && part.bytes().all(is_inside)
            && !part.starts_with('-')
            && !part.ends_with('-')
    };
    name.len() <= MAX_NAME && name.split('.').all(is_part)
}

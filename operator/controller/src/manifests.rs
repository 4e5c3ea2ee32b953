//! Manifests without a cluster: the judgement of the API server and of the operator, and the objects of each server.
//!
//! Manifests tell what a cluster would hold. What the cluster itself adds is assumed: groups are ready, embedding servers answer,
//! and Secrets and ConfigMaps that no manifest has exist with the keys that are referred to.

mod admission;
mod assumed;
mod embedding;
mod entry;
mod import;
mod own_errors;
mod render;
mod source;
mod workload;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use vmcp_api::conversion::ResourceError;
use vmcp_api::{
    EmbeddingServer, MCPExternalAuthConfig, MCPGroup, MCPOIDCConfig, MCPRemoteProxy, MCPServer,
    MCPServerEntry, MCPTelemetryConfig, MCPToolConfig, VirtualMCPCompositeToolDefinition,
    VirtualMCPServer,
};

use self::admission::{Admission, Admitted};
pub use self::import::{Imported, import};
use self::own_errors::OwnErrors;
pub use self::render::{RenderedServer, ServerReport};
use self::source::Sources;
use crate::Settings;
use crate::key::{Key, Kind, ObjectKey};
use crate::store::Versioned;
use crate::stores::{Stores, WatchedWhole};

/// Manifests that have been read.
#[derive(Debug)]
pub struct Manifests {
    stores: Stores,
    sources: Sources,
    settings: Settings,
    /// Document of each object.
    documents: BTreeMap<ObjectKey, usize>,
    findings: Vec<Finding>,
    ignored: usize,
}

/// A mistake in a manifest.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Finding {
    /// Index of the document, in the order in which they were given.
    pub document: usize,
    /// Kind, namespace and name of the object: `MCPGroup default/tools`.
    pub object: String,
    /// Path of the field. Empty for the object itself.
    pub path: String,
    /// Mistake, and what is allowed.
    pub message: String,
}

// === impl Manifests ===

impl Manifests {
    /// Reads documents, and judges each of them without the servers that use it. Objects without a namespace are in `default`.
    /// Objects of kinds other than those of vmcp, Secret and ConfigMap are only counted.
    #[must_use]
    pub fn read(documents: Vec<Value>, settings: Settings) -> Self {
        let mut manifests = Self {
            stores: Stores::default(),
            sources: Sources::default(),
            settings,
            documents: BTreeMap::new(),
            findings: Vec::new(),
            ignored: 0,
        };
        let mut admission = Admission::default();
        for (document, object) in documents.into_iter().enumerate() {
            match admission.admit(document, object, &mut manifests.findings) {
                Admitted::Resource(key, object) => manifests.add(document, &key, object),
                Admitted::Source(key, object) => {
                    if manifests.is_first(document, &key) {
                        manifests.sources.add(key, &object);
                    }
                }
                Admitted::Other => manifests.ignored += 1,
                Admitted::Invalid => {}
            }
        }
        let of_entries = manifests.entry_findings();
        manifests.findings.extend(of_entries);
        let of_embedding_servers = manifests.embedding_findings();
        manifests.findings.extend(of_embedding_servers);
        let of_workloads = manifests.workload_findings();
        manifests.findings.extend(of_workloads);
        manifests.findings.sort();
        manifests
    }

    /// Returns the number of objects of other kinds, which were not judged.
    #[must_use]
    pub fn ignored(&self) -> usize {
        self.ignored
    }

    /// Returns the mistakes of each object by itself, in the order of the documents.
    #[must_use]
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// Returns all mistakes: those of each object by itself, and those that show when a server is converted with all that it
    /// refers to. Sorted by document, each once.
    #[must_use]
    pub fn check(&self) -> Vec<Finding> {
        let mut findings = self.findings.clone();
        for (key, server) in self.stores.servers.list(None) {
            findings.extend(self.report(&key, &server).findings);
        }
        findings.sort();
        findings.dedup();
        findings
    }

    fn add(&mut self, document: usize, key: &ObjectKey, mut object: Value) {
        if !self.is_first(document, key) {
            return;
        }
        assumed::assume(key.kind, &key.key, &mut object, &self.settings.defaults);
        let put = match key.kind {
            Kind::VirtualMCPServer => put::<VirtualMCPServer>,
            Kind::MCPGroup => put::<MCPGroup>,
            Kind::MCPServer => put::<MCPServer>,
            Kind::MCPRemoteProxy => put::<MCPRemoteProxy>,
            Kind::MCPServerEntry => put::<MCPServerEntry>,
            Kind::MCPExternalAuthConfig => put::<MCPExternalAuthConfig>,
            Kind::MCPOIDCConfig => put::<MCPOIDCConfig>,
            Kind::MCPTelemetryConfig => put::<MCPTelemetryConfig>,
            Kind::MCPToolConfig => put::<MCPToolConfig>,
            Kind::VirtualMCPCompositeToolDefinition => put::<VirtualMCPCompositeToolDefinition>,
            Kind::EmbeddingServer => put::<EmbeddingServer>,
            Kind::ConfigMap
            | Kind::Secret
            | Kind::ServiceAccount
            | Kind::Role
            | Kind::RoleBinding
            | Kind::Deployment
            | Kind::StatefulSet
            | Kind::Service
            | Kind::PodDisruptionBudget
            | Kind::NetworkPolicy
            | Kind::Ingress
            | Kind::HTTPRoute
            | Kind::ServiceMonitor => return,
        };
        for ResourceError { path, message } in put(&self.stores, &self.settings, &key.key, object) {
            self.find(key, path, message);
        }
    }

    /// Notes the document of an object. Another document with the same object is a mistake.
    fn is_first(&mut self, document: usize, key: &ObjectKey) -> bool {
        if self.documents.contains_key(key) {
            self.findings.push(Finding {
                document,
                object: key.to_string(),
                path: "metadata.name".to_owned(),
                message: "another document has an object of this kind and name: remove one"
                    .to_owned(),
            });
            return false;
        }
        self.documents.insert(key.clone(), document);
        true
    }

    fn find(&mut self, key: &ObjectKey, path: String, message: String) {
        self.findings.push(self.finding(key, path, message));
    }

    fn finding(&self, key: &ObjectKey, path: String, message: String) -> Finding {
        let document = self.documents.get(key).copied();
        let document = document.expect("each object in the stores came from a document");
        Finding { document, object: key.to_string(), path, message }
    }
}

/// Stores an object, and returns the mistakes that it has by itself.
fn put<W>(stores: &Stores, settings: &Settings, key: &Key, object: Value) -> Vec<ResourceError>
where
    W: WatchedWhole<Kept = W> + OwnErrors,
{
    match serde_path_to_error::deserialize::<_, W>(object) {
        Ok(object) => {
            let errors = object.own_errors(settings);
            let value = Arc::new(object.keep());
            W::store(stores).put(key.clone(), Versioned { version: 1, value });
            errors
        }
        Err(error) => {
            let path = error.path().to_string();
            let path = if path == "." { String::new() } else { path };
            vec![ResourceError { path, message: error.into_inner().to_string() }]
        }
    }
}

//! References to resources that servers and workloads share.

use std::collections::BTreeSet;

use kube::Resource;
use serde_json::Value;
use vmcp_api::{
    AuthServerRef, MCPRemoteProxy, MCPServer, MCPServerEntry, NameRef, OidcConfigRef,
    TelemetryConfigRef, VirtualMCPServer,
};

use crate::dependencies::Topic;
use crate::key::{Key, Kind, ObjectKey};

/// Resource that refers to shared ones, all of them in its own namespace.
pub(crate) trait Referrer: Resource<DynamicType = ()> {
    /// Passes kind and name of each shared resource to a visitor, some of them several times.
    fn visit_references(&self, visitor: &mut dyn FnMut(Kind, &str));

    /// Returns whether the resource refers to `target`. A resource that is being deleted refers to nothing: its deletion cannot be
    /// undone, and one that owns what it refers to would never go.
    fn refers_to(&self, target: &ObjectKey) -> bool {
        let mut refers = false;
        if !self.is_being_deleted() {
            self.visit_references(&mut |kind, name| {
                refers |= kind == target.kind && *name == *target.key.name;
            });
        }
        refers
    }

    /// Returns the topics of all shared resources to which a resource of the name `key` refers.
    fn reference_topics(&self, key: &Key) -> BTreeSet<Topic> {
        let mut topics = BTreeSet::new();
        if !self.is_being_deleted() {
            self.visit_references(&mut |kind, name| {
                topics.insert(Topic::Referrers(ObjectKey::new(kind, key.sibling(name))));
            });
        }
        topics
    }

    /// Returns the names of the shared resources of a kind.
    fn names_of(&self, kind: Kind) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        self.visit_references(&mut |found, name| {
            if found == kind {
                names.insert(name.to_owned());
            }
        });
        names
    }

    fn is_being_deleted(&self) -> bool {
        self.meta().deletion_timestamp.is_some()
    }
}

impl Referrer for VirtualMCPServer {
    fn visit_references(&self, visitor: &mut dyn FnMut(Kind, &str)) {
        let spec = &self.spec;
        visit_oidc(spec.incoming_auth.oidc_config_ref.as_ref(), visitor);
        visit_telemetry(spec.telemetry_config_ref.as_ref(), visitor);
        if let Some(auth) = &spec.outgoing_auth {
            for entry in auth.default.iter().chain(auth.backends.values()) {
                visit_name(
                    Kind::MCPExternalAuthConfig,
                    entry.external_auth_config_ref.as_ref(),
                    visitor,
                );
            }
        }
        let config = spec.config.as_ref().map_or(&Value::Null, |config| config.value());
        for tools in config["aggregation"]["tools"].as_array().into_iter().flatten() {
            visit_value(Kind::MCPToolConfig, &tools["toolConfigRef"], visitor);
        }
        for definition in config["compositeToolRefs"].as_array().into_iter().flatten() {
            visit_value(Kind::VirtualMCPCompositeToolDefinition, definition, visitor);
        }
    }
}

macro_rules! workloads {
    ($($kind:ident),+) => {
        $(
            impl Referrer for $kind {
                fn visit_references(&self, visitor: &mut dyn FnMut(Kind, &str)) {
                    let spec = &self.spec;
                    let credentials = spec.external_auth_config_ref.as_ref();
                    visit_name(Kind::MCPExternalAuthConfig, credentials, visitor);
                    visit_auth_server(spec.auth_server_ref.as_ref(), visitor);
                    visit_oidc(spec.oidc_config_ref.as_ref(), visitor);
                    visit_telemetry(spec.telemetry_config_ref.as_ref(), visitor);
                    visit_name(Kind::MCPToolConfig, spec.tool_config_ref.as_ref(), visitor);
                }
            }
        )+
    };
}

workloads!(MCPServer, MCPRemoteProxy);

impl Referrer for MCPServerEntry {
    fn visit_references(&self, visitor: &mut dyn FnMut(Kind, &str)) {
        let credentials = self.spec.external_auth_config_ref.as_ref();
        visit_name(Kind::MCPExternalAuthConfig, credentials, visitor);
    }
}

fn visit_name(kind: Kind, reference: Option<&NameRef>, visitor: &mut dyn FnMut(Kind, &str)) {
    if let Some(NameRef { name }) = reference {
        visitor(kind, name);
    }
}

fn visit_value(kind: Kind, reference: &Value, visitor: &mut dyn FnMut(Kind, &str)) {
    if let Some(name) = reference["name"].as_str() {
        visitor(kind, name);
    }
}

fn visit_auth_server(reference: Option<&AuthServerRef>, visitor: &mut dyn FnMut(Kind, &str)) {
    let kind = Kind::MCPExternalAuthConfig;
    if let Some(reference) = reference.filter(|reference| reference.kind == kind.as_str()) {
        visitor(kind, &reference.name);
    }
}

fn visit_oidc(reference: Option<&OidcConfigRef>, visitor: &mut dyn FnMut(Kind, &str)) {
    if let Some(reference) = reference {
        visitor(Kind::MCPOIDCConfig, &reference.name);
    }
}

fn visit_telemetry(reference: Option<&TelemetryConfigRef>, visitor: &mut dyn FnMut(Kind, &str)) {
    if let Some(reference) = reference {
        visitor(Kind::MCPTelemetryConfig, &reference.name);
    }
}

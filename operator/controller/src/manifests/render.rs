//! Servers: what the operator would generate, and what it would report.

use std::collections::BTreeSet;
use std::sync::Arc;

use vmcp_api::VirtualMCPServer;
use vmcp_api::condition::ConditionStatus;
use vmcp_api::conversion::{
    Conversion, ConversionError, Inputs, LeftOut, LeftOutReason, SecretEntry, SourceKind, convert,
    references,
};
use vmcp_api::virtual_mcp_server::AuthzSource;

use super::{Finding, Manifests};
use crate::controllers::virtual_mcp_server::{Resources, resources, uniqueness_conditions};
use crate::key::{Key, Kind, ObjectKey};
use crate::lookup::Lookup;
use crate::plan::{Plan, plan};

/// Result for a server.
#[derive(Debug)]
pub struct ServerReport {
    /// Namespace and name of the server.
    pub server: String,
    /// Generated objects. Absent if a mistake prevents them.
    pub rendered: Option<RenderedServer>,
    /// Mistakes.
    pub findings: Vec<Finding>,
    /// Objects that no manifest has and that are assumed to exist, with the paths that refer to them, and members of the group
    /// that no manifest tells the address of. Sorted.
    pub missing: Vec<String>,
    /// Settings without an effect.
    pub warnings: Vec<String>,
}

/// Objects that the operator would generate for a server.
#[derive(Debug)]
pub struct RenderedServer {
    /// The objects.
    pub plan: Plan,
    /// The configuration, and the files of the Secret beside it.
    pub conversion: Conversion,
}

impl Manifests {
    /// Returns the result for each server, sorted by namespace and name.
    #[must_use]
    pub fn render(&self) -> Vec<ServerReport> {
        let servers = self.stores.servers.list(None);
        servers.iter().map(|(key, server)| self.report(key, server)).collect()
    }

    pub(super) fn report(&self, key: &Key, server: &Arc<VirtualMCPServer>) -> ServerReport {
        let object = ObjectKey::new(Kind::VirtualMCPServer, key.clone());
        let mut report = ServerReport {
            server: key.to_string(),
            rendered: None,
            findings: Vec::new(),
            missing: Vec::new(),
            warnings: Vec::new(),
        };
        let mut lookup = Lookup::new(&self.stores, object.clone());
        for condition in uniqueness_conditions(&self.stores, &mut lookup, server) {
            if condition.status == ConditionStatus::False {
                let (path, message) = split_path(&condition.message);
                report.findings.push(self.finding(&object, path, message));
            }
        }
        let defaults = self.settings.defaults.clone();
        let Resources { mut inputs, group, blocked } = resources(&mut lookup, server, defaults);
        lookup.finish();
        if blocked.is_some() {
            let path = "spec.groupRef.name".to_owned();
            report.findings.push(self.finding(&object, path, group.message));
            return report;
        }
        self.add_sources(key, &mut inputs, &mut report);
        match convert(&inputs) {
            Ok(conversion) => self.finish(&object, server, conversion, &mut report),
            Err(errors) => {
                for error in errors {
                    let ConversionError { path, condition, phase: _, event: _ } = error;
                    let (at, path) = self.target(&object, path);
                    report.findings.push(self.finding(&at, path, condition.message));
                }
            }
        }
        report
    }

    fn finish(
        &self,
        object: &ObjectKey,
        server: &VirtualMCPServer,
        conversion: Conversion,
        report: &mut ServerReport,
    ) {
        for LeftOut { backend, kind, reason, message } in &conversion.left_out {
            if *reason == LeftOutReason::UrlUnknown {
                let kind = kind.as_str();
                report.missing.push(format!("status.url of {kind} {backend}: it is left out"));
                continue;
            }
            if *reason == LeftOutReason::EntryInvalid {
                // The entry has a finding of its own.
                continue;
            }
            let member = self.target(object, format!("{}/{backend}: ", kind.as_str()));
            let message = format!("left out of {object}: {message}");
            report.findings.push(self.finding(&member.0, String::new(), message));
        }
        report.warnings = conversion.warnings.iter().map(|one| one.message.clone()).collect();
        match plan(server, &conversion, &self.settings) {
            Ok(plan) => report.rendered = Some(RenderedServer { plan, conversion }),
            Err(error) => {
                report.findings.push(self.finding(object, error.path, error.message));
            }
        }
    }

    /// Adds the Secrets and ConfigMaps that a server refers to.
    fn add_sources(&self, server: &Key, inputs: &mut Inputs, report: &mut ServerReport) {
        let mut missing = BTreeSet::new();
        for SecretEntry { source, path, file: _ } in references(inputs) {
            let kind = match source.kind {
                SourceKind::ConfigMap => Kind::ConfigMap,
                SourceKind::Secret => Kind::Secret,
            };
            let object = ObjectKey::new(kind, server.sibling(&source.name));
            let has_key = self.sources.has(&object, &source.key);
            if has_key.is_none() {
                missing.insert(format!("{source}, to which {path} refers"));
            }
            if has_key != Some(false) {
                inputs.available.insert(&source);
            }
        }
        report.missing.extend(missing);
        let authz = inputs.server.spec.incoming_auth.authz_config.as_ref();
        let map = authz
            .filter(|authz| authz.kind == AuthzSource::ConfigMap)
            .and_then(|authz| authz.config_map.as_ref());
        let text = map.and_then(|map| self.sources.text(&server.sibling(&map.name), &map.key));
        inputs.authorization_document = text.map(str::to_owned);
    }

    /// Returns the object that a path begins with, as in `MCPOIDCConfig/b: spec.type`, or else the server.
    fn target(&self, server: &ObjectKey, path: String) -> (ObjectKey, String) {
        let found = path.split_once(": ").and_then(|(object, rest)| {
            let (kind, name) = object.split_once('/')?;
            let key = server.key.sibling(name);
            let object =
                self.documents.keys().find(|one| one.kind.as_str() == kind && one.key == key)?;
            Some((object.clone(), rest.to_owned()))
        });
        found.unwrap_or_else(|| (server.clone(), path))
    }
}

/// Splits the path from the front of a message.
fn split_path(message: &str) -> (String, String) {
    match message.split_once(' ') {
        Some((path, rest)) if path.starts_with("spec.") => (path.to_owned(), rest.to_owned()),
        _ => (String::new(), message.to_owned()),
    }
}

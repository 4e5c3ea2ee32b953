//! Identities of a server that no other server may have.

use std::collections::BTreeSet;

use vmcp_api::VirtualMCPServer;

use crate::dependencies::Topic;
use crate::key::Key;

/// Identities of a server that no other server may have.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Identities {
    /// Audience of the tokens that the server accepts.
    pub(crate) audience: Option<String>,
    /// Issuer of its embedded authorization server.
    pub(crate) issuer: Option<String>,
    /// Service name in traces and metrics, in its namespace.
    pub(crate) service_name: Option<Key>,
}

// === impl Identities ===

impl Identities {
    pub(crate) fn of(server: &VirtualMCPServer) -> Self {
        let key = Key::of(server);
        let oidc = server.spec.incoming_auth.oidc_config_ref.as_ref();
        let auth_server = server.spec.auth_server_config.as_ref();
        let issuer = auth_server.and_then(|part| part.value()["issuer"].as_str());
        let telemetry = server.spec.telemetry_config_ref.as_ref();
        let service_name = telemetry.map(|telemetry| match &telemetry.service_name {
            Some(name) if !name.is_empty() => key.sibling(name),
            _ => key.sibling(&default_service_name(&key.name)),
        });
        Self {
            audience: oidc.map(|oidc| oidc.audience.clone()),
            issuer: issuer.map(str::to_owned),
            service_name,
        }
    }

    pub(crate) fn topics(&self) -> BTreeSet<Topic> {
        let Self { audience, issuer, service_name } = self;
        let audience = audience.as_deref().map(|audience| Topic::Audience(audience.into()));
        let issuer = issuer.as_deref().map(|issuer| Topic::Issuer(issuer.into()));
        let service_name = service_name.clone().map(Topic::ServiceName);
        [audience, issuer, service_name].into_iter().flatten().collect()
    }
}

/// Returns the service name of a server without one: its name, with a leading `thv-` replaced.
fn default_service_name(server: &str) -> String {
    server.strip_prefix("thv-").map_or_else(|| server.to_owned(), |rest| format!("vmcp-{rest}"))
}

//! `incomingAuth.authz`: what callers may see and do.

use std::sync::Arc;

use vmcp_authz::AuthorizationLayer;
use vmcp_cedar::{Cedar, NamedBackend, PolicyError};
use vmcp_config::Warning;

use super::{Converter, IncomingAuth};

const AT: &str = "incomingAuth.authz";

impl IncomingAuth {
    /// Warns of policies that compare `resource.backend` with what is not the name of a backend.
    pub(in crate::parts) fn unknown_backends(
        &self,
        is_backend: impl Fn(&str) -> bool,
    ) -> Vec<Warning> {
        let named = self.authorize.as_ref().map(|layer| layer.policy().named_backends());
        let unknown = named.into_iter().flatten().filter(|named| !is_backend(&named.name));
        let warning = |NamedBackend { index, is_forbid, name }: NamedBackend| {
            let verb = if is_forbid { "forbids" } else { "permits" };
            let message = format!("{verb} by backend \"{name}\", but no backend has this name");
            Warning { path: format!("{AT}.policies[{index}]"), message, suggestion: None }
        };
        unknown.map(warning).collect()
    }
}

impl Converter<'_> {
    pub(super) fn cedar(
        &mut self,
        name: &str,
        cedar: vmcp_config::Cedar,
    ) -> Option<AuthorizationLayer<Cedar>> {
        let vmcp_config::Cedar { policies, entities_json, primary_upstream_provider } = cedar;
        match Cedar::new(name, &policies, &entities_json) {
            Ok(parsed) => {
                for error in parsed.check_names(&policies) {
                    let (path, found, message) = error_details(&error);
                    self.reject(format!("{AT}.{path}"), found, message);
                }
                for (index, server) in parsed.foreign_servers() {
                    let path = format!("{AT}.policies[{index}]");
                    let message = format!("MCP::\"{server}\" is not this server, MCP::\"{name}\"");
                    self.warnings.push(Warning { path, message, suggestion: None });
                }
                let parsed = match primary_upstream_provider {
                    Some(provider) => parsed.primary_upstream_provider(provider.as_str()),
                    None => parsed,
                };
                // The gateway asks it wherever it lists and routes.
                let layer = AuthorizationLayer::new(parsed).delegate_to_inner();
                let cedar = Arc::downgrade(layer.policy());
                self.gauges
                    .add("policy_decisions", move || cedar.upgrade().map(|it| it.cached_entries()));
                Some(layer)
            }
            Err(errors) => {
                for error in errors.errors() {
                    let (path, found, message) = error_details(error);
                    self.reject(format!("{AT}.{path}"), found, message);
                }
                None
            }
        }
    }
}

/// Returns the path, the found value and the allowed values for a policy error.
fn error_details(error: &PolicyError) -> (String, String, String) {
    match error {
        PolicyError::NoPolicies => {
            ("policies".to_owned(), "none".to_owned(), "at least one policy".to_owned())
        }
        PolicyError::Policy { index, line, message } => {
            let line = line.map(|line| format!("in line {line} of it, ")).unwrap_or_default();
            let found = "an invalid policy".to_owned();
            (format!("policies[{index}]"), found, format!("Cedar ({line}{message})"))
        }
        PolicyError::Entities { message } => {
            let found = "invalid entities".to_owned();
            ("entitiesJson".to_owned(), found, format!("an array of Cedar entities ({message})"))
        }
    }
}

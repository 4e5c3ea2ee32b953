//! Authorization of callers by Cedar policies.

use serde::Deserialize;
use vmcp_config::{Authz, Cedar, ConfigError, ProviderName};

use super::{
    converter::{Converter, describe, join},
    strategy::{Providers, filled},
};
use crate::virtual_mcp_server::{
    AuthConfigured, AuthServerConfigValidated, AuthorizationConfigMapRef, AuthzConfig, AuthzSource,
    AuthzUpstreamSelection, InlineAuthz, ServerValid,
};

/// Policy that permits everything, for callers whom another policy restricts.
const PERMIT_ALL: &str = "permit(principal, action, resource);";

const AT: &str = "spec.incomingAuth.authzConfig";

/// Document in a ConfigMap.
#[derive(Deserialize)]
struct Document {
    #[serde(rename = "type")]
    kind: String,
    cedar: Option<CedarDocument>,
}

/// Policies in the document of a ConfigMap.
#[derive(Deserialize)]
struct CedarDocument {
    policies: Vec<String>,
    #[serde(default = "no_entities", alias = "entitiesJson")]
    entities_json: String,
}

fn no_entities() -> String {
    "[]".to_owned()
}

impl Converter<'_> {
    /// Converts the policies. With `subject`, only tokens of this subject are permitted anything.
    pub(super) fn authz(
        &mut self,
        config: Option<&AuthzConfig>,
        subject: Option<&str>,
        providers: &Providers,
    ) -> Option<Authz> {
        let authz = match config {
            None => Some(Authz::None),
            Some(AuthzConfig { kind, config_map, inline }) => match (kind, config_map, inline) {
                (AuthzSource::Inline, None, Some(inline)) => self.inline_authz(inline, providers),
                (AuthzSource::ConfigMap, Some(reference), None) => self.config_map_authz(reference),
                (AuthzSource::Inline | AuthzSource::ConfigMap, _, _) => {
                    let message =
                        "found another type's settings; allowed: the settings of the type alone";
                    self.reject(format!("{AT}.type"), ServerValid::Invalid, message);
                    None
                }
            },
        };
        authz.map(|authz| match subject {
            None => authz,
            Some(subject) => restrict(authz, subject),
        })
    }

    fn inline_authz(&mut self, inline: &InlineAuthz, providers: &Providers) -> Option<Authz> {
        let InlineAuthz { policies, entities_json, primary_upstream_provider } = inline;
        let provider = match filled(primary_upstream_provider.as_deref()) {
            None => self.selected_provider(providers),
            Some(name) => Some(self.named_provider(name, providers)?),
        };
        let cedar = Cedar {
            policies: policies.clone(),
            entities_json: filled(Some(entities_json)).unwrap_or("[]").to_owned(),
            primary_upstream_provider: provider,
        };
        for error in self.policy_errors(&cedar) {
            let path = join(&format!("{AT}.inline"), &error.path);
            self.reject(path, ServerValid::Invalid, describe(&error));
        }
        Some(Authz::Cedar(cedar))
    }

    fn policy_errors(&self, cedar: &Cedar) -> Vec<ConfigError> {
        let checks = self.inputs.checks.as_ref();
        checks.map(|checks| checks.policies(self.inputs.name(), cedar)).unwrap_or_default()
    }

    /// Returns the first provider, whose claims policies evaluate if no provider is named.
    fn selected_provider(&mut self, providers: &Providers) -> Option<ProviderName> {
        let first = providers.first()?;
        if providers.names.len() > 1 {
            let message = format!(
                "policies evaluate the claims of the first upstream provider, {first}; name one with {AT}.inline.primaryUpstreamProvider"
            );
            self.report(AuthzUpstreamSelection::AutoSelected, message);
        }
        Some(first.clone())
    }

    fn named_provider(&mut self, name: &str, providers: &Providers) -> Option<ProviderName> {
        let path = format!("{AT}.inline.primaryUpstreamProvider");
        let server = &self.inputs.server.spec.auth_server_config;
        if server.is_none() {
            let message = format!(
                "found \"{name}\"; allowed: an upstream provider of authServerConfig, which is absent"
            );
            self.reject(
                path,
                AuthServerConfigValidated::PrimaryProviderRequiresAuthServer,
                message,
            );
            return None;
        }
        if providers.first().is_none() {
            let message = format!(
                "found \"{name}\"; allowed: an upstream provider of authServerConfig, which has none"
            );
            self.reject(path, AuthServerConfigValidated::RequiresUpstream, message);
            return None;
        }
        let known = ProviderName::new(name).filter(|_| providers.contains(name));
        if known.is_none() {
            let names: Vec<&str> = providers.names.iter().map(ProviderName::as_str).collect();
            let message = format!(
                "found \"{name}\"; allowed: an upstream provider of authServerConfig: {}",
                names.join(", ")
            );
            self.reject(path, AuthServerConfigValidated::UpstreamUnknown, message);
        }
        known
    }

    fn config_map_authz(&mut self, reference: &AuthorizationConfigMapRef) -> Option<Authz> {
        let AuthorizationConfigMapRef { name, key } = reference;
        let path = format!("{AT}.configMap");
        let Some(text) = self.inputs.authorization_document.as_deref() else {
            let message = format!("key {key} of ConfigMap {name} does not exist");
            let event = "AuthzConfigMapNotFound";
            self.reject_with_event(path, AuthConfigured::Invalid, message, event);
            return None;
        };
        match read_document(text) {
            Ok(CedarDocument { policies, entities_json }) => {
                // Of policies in a ConfigMap, the token of the request has the claims.
                let cedar = Cedar { policies, entities_json, primary_upstream_provider: None };
                for error in self.policy_errors(&cedar) {
                    let key = document_key(&error.path);
                    self.reject_document(reference, &format!("{key}: {}", describe(&error)));
                }
                Some(Authz::Cedar(cedar))
            }
            Err(message) => {
                self.reject_document(reference, &message);
                None
            }
        }
    }

    /// Records an error of the document in the ConfigMap.
    pub(super) fn reject_document(&mut self, reference: &AuthorizationConfigMapRef, message: &str) {
        let AuthorizationConfigMapRef { name, key } = reference;
        let message = format!("key {key} of ConfigMap {name}: {message}");
        let (path, event) = (format!("{AT}.configMap"), "AuthzConfigMapInvalid");
        self.reject_with_event(path, AuthConfigured::Invalid, message, event);
    }
}

/// Returns the key in the document of a ConfigMap.
pub(super) fn document_key(key: &str) -> String {
    match key {
        "entitiesJson" => "cedar.entities_json".to_owned(),
        key => format!("cedar.{key}"),
    }
}

fn read_document(text: &str) -> Result<CedarDocument, String> {
    let Document { kind, cedar } =
        serde_json::from_str(text).map_err(|error| format!("not a JSON document: {error}"))?;
    if kind != "cedarv1" {
        return Err(format!("type: found \"{kind}\"; allowed: cedarv1"));
    }
    let cedar = cedar.ok_or("cedar: found no value; allowed: policies with type: cedarv1")?;
    if cedar.policies.is_empty() {
        return Err("cedar.policies: found no policy; allowed: at least one".to_owned());
    }
    Ok(cedar)
}

/// Forbids everything to tokens of other subjects.
fn restrict(authz: Authz, subject: &str) -> Authz {
    let subject = subject.replace('\\', "\\\\").replace('"', "\\\"");
    let forbid = format!(
        "forbid(principal, action, resource) unless {{ principal has claim_sub && principal.claim_sub == \"{subject}\" }};"
    );
    let mut cedar = match authz {
        Authz::Cedar(cedar) => cedar,
        Authz::None => Cedar {
            policies: vec![PERMIT_ALL.to_owned()],
            entities_json: no_entities(),
            primary_upstream_provider: None,
        },
    };
    cedar.policies.push(forbid);
    Authz::Cedar(cedar)
}

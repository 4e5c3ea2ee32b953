//! Paths in the resources of errors that the server's parser finds in the configuration.

use vmcp_config::ConfigError;

use super::{
    authz::document_key,
    composite_tools::LocatedTools,
    converter::{Converter, describe, join},
};
use crate::{
    OidcSource,
    virtual_mcp_server::{
        AuthConfigured, AuthServerConfigValidated, AuthzSource, OidcConfigRefValidated,
        ServerValid, TelemetryConfigRefValidated,
    },
};

const INCOMING: &str = "spec.incomingAuth";

impl Converter<'_> {
    /// Records an error of the configuration under its path in the resources.
    pub(super) fn reject_in_resource(&mut self, error: &ConfigError, tools: &LocatedTools) {
        let (section, rest) = split(&error.path);
        let message = describe(error);
        let spec = &self.inputs.server.clone().spec;
        match section {
            "name" if spec.config.is_none() => {
                self.reject("metadata.name", ServerValid::Invalid, message);
            }
            "groupRef" => self.reject("spec.groupRef.name", ServerValid::Invalid, message),
            "incomingAuth" => self.reject_incoming(rest, message),
            "outgoingAuth" => {
                let path = join(self.outgoing_path(), rest);
                self.reject(path, ServerValid::Invalid, message);
            }
            "authServer" => {
                let path = join(super::auth_server::AT, rest);
                self.reject(path, AuthServerConfigValidated::Invalid, message);
            }
            "sessionStorage" => {
                let path = if spec.session_storage.is_some() {
                    join("spec.sessionStorage", rest)
                } else {
                    join("spec.config.sessionStorage", rest)
                };
                self.reject(path, ServerValid::Invalid, message);
            }
            "telemetry" => {
                if let Some(reference) = &spec.telemetry_config_ref {
                    let path = format!("MCPTelemetryConfig/{}: spec", reference.name);
                    let message = format!("{rest}: {message}");
                    self.reject(path, TelemetryConfigRefValidated::Invalid, message);
                } else {
                    let path = join("spec.config.telemetry", rest);
                    self.reject(path, ServerValid::Invalid, message);
                }
            }
            "compositeTools" => {
                let located = index(rest).and_then(|(index, rest)| Some((tools.get(index)?, rest)));
                let path = match located {
                    Some(((_, path), rest)) => join(path, rest),
                    None => join("spec.config.compositeTools", rest),
                };
                self.reject(path, ServerValid::Invalid, message);
            }
            _ => {
                let path = format!("spec.config.{}", error.path);
                self.reject(path, ServerValid::Invalid, message);
            }
        }
    }

    fn reject_incoming(&mut self, rest: &str, message: String) {
        let incoming = &self.inputs.server.clone().spec.incoming_auth;
        let (part, key) = split(rest);
        match (part, key) {
            ("oidc", "audience" | "scopes" | "resource") => {
                let key = if key == "resource" { "resourceUrl" } else { key };
                let path = format!("{INCOMING}.oidcConfigRef.{key}");
                self.reject(path, ServerValid::Invalid, message);
            }
            ("oidc", key) if key.starts_with("scopes[") => {
                let path = format!("{INCOMING}.oidcConfigRef.{key}");
                self.reject(path, ServerValid::Invalid, message);
            }
            ("oidc", key) => {
                let name = incoming.oidc_config_ref.as_ref().map(|reference| &reference.name);
                let source = self.inputs.oidc_config.as_ref().map(|config| config.spec.kind);
                let block = match source {
                    Some(OidcSource::KubernetesServiceAccount) => "kubernetesServiceAccount",
                    Some(OidcSource::Inline) | None => "inline",
                };
                let name = name.map(String::as_str).unwrap_or_default();
                let path = join(&format!("MCPOIDCConfig/{name}: spec.{block}"), key);
                self.reject(path, OidcConfigRefValidated::NotValid, message);
            }
            ("authz", key) => match &incoming.authz_config {
                Some(config) if config.kind == AuthzSource::ConfigMap => match &config.config_map {
                    Some(reference) => {
                        let message = format!("{}: {message}", document_key(key));
                        self.reject_document(&reference.clone(), &message);
                    }
                    None => self.reject(INCOMING, AuthConfigured::Invalid, message),
                },
                Some(_) | None => {
                    let path = join(&format!("{INCOMING}.authzConfig.inline"), key);
                    self.reject(path, ServerValid::Invalid, message);
                }
            },
            _ => self.reject(join(INCOMING, rest), ServerValid::Invalid, message),
        }
    }
}

/// Returns the first key of a path, and the rest, which may begin with an index.
fn split(path: &str) -> (&str, &str) {
    let end = path.find(['.', '[']).unwrap_or(path.len());
    let (first, rest) = path.split_at(end);
    (first, rest.strip_prefix('.').unwrap_or(rest))
}

/// Returns the index that a path begins with, and the rest.
fn index(path: &str) -> Option<(usize, &str)> {
    let (index, rest) = path.strip_prefix('[')?.split_once(']')?;
    Some((index.parse().ok()?, rest.strip_prefix('.').unwrap_or(rest)))
}

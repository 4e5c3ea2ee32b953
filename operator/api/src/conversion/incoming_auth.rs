//! Authentication of callers.

use serde_json::Value;
use vmcp_config::{ConfigErrors, IncomingMethod, Oidc, from_json};

use super::{
    converter::{Converter, absolute_path, join},
    strategy::{Providers, filled},
};
use crate::{
    CaBundleRef, ConfigMapKeyRef, InlineOidc, KubernetesServiceAccountOidc, MCPOIDCConfig,
    MCPOIDCConfigSpec, OidcConfigRef, OidcSource,
    condition::ConditionStatus,
    names::service_url,
    virtual_mcp_server::{IncomingAuth, IncomingAuthType, OidcConfigRefValidated, ServerValid},
};

/// Directory of the pod's own service account.
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Key of a CA bundle in a ConfigMap, if the reference names none.
const CA_KEY: &str = "ca.crt";

const AT: &str = "spec.incomingAuth";

/// Settings of a provider, and the service account that its tokens have to be of.
struct Provider {
    oidc: Oidc,
    subject: Option<String>,
}

impl Converter<'_> {
    /// Converts `spec.incomingAuth`.
    pub(super) fn incoming_auth(
        &mut self,
        providers: &Providers,
    ) -> Option<vmcp_config::IncomingAuth> {
        let IncomingAuth { kind, oidc_config_ref, authz_config } =
            &self.inputs.server.spec.incoming_auth;
        let (method, subject) = match (kind, oidc_config_ref) {
            (IncomingAuthType::Anonymous, None) => (Some(IncomingMethod::Anonymous), None),
            (IncomingAuthType::Anonymous, Some(_)) => {
                let message = "found oidcConfigRef with type: anonymous; allowed: oidcConfigRef only with type: oidc";
                self.reject(format!("{AT}.oidcConfigRef"), ServerValid::Invalid, message);
                (None, None)
            }
            (IncomingAuthType::Oidc, None) => {
                let message = "found no value; allowed: a reference with type: oidc";
                self.reject(format!("{AT}.oidcConfigRef"), ServerValid::Invalid, message);
                (None, None)
            }
            (IncomingAuthType::Oidc, Some(reference)) => match self.oidc(reference) {
                None => (None, None),
                Some(Provider { oidc, subject }) => {
                    (Some(IncomingMethod::Oidc(Box::new(oidc))), subject)
                }
            },
        };
        let authz = self.authz(authz_config.as_ref(), subject.as_deref(), providers);
        let (method, authz) = method.zip(authz)?;
        Some(vmcp_config::IncomingAuth { method, authz })
    }

    fn oidc(&mut self, reference: &OidcConfigRef) -> Option<Provider> {
        let OidcConfigRef { name, audience, resource_url, scopes } = reference;
        let Some(config) = self.inputs.oidc_config.clone() else {
            self.reject(
                format!("{AT}.oidcConfigRef.name"),
                OidcConfigRefValidated::NotFound,
                format!("MCPOIDCConfig {name} does not exist"),
            );
            return None;
        };
        if self.inputs.checks.is_none()
            && let Some(message) = reported_error(&config)
        {
            let message = format!("MCPOIDCConfig {name} is invalid: {message}");
            let path = format!("{AT}.oidcConfigRef.name");
            self.reject(path, OidcConfigRefValidated::NotValid, message);
            return None;
        }
        let resource = filled(resource_url.as_deref()).map_or_else(
            || service_url(self.inputs.name(), self.inputs.namespace(), &self.inputs.defaults),
            str::to_owned,
        );
        let scopes = if scopes.is_empty() { vec!["openid".to_owned()] } else { scopes.clone() };
        let errors = self.errors.len();
        let provider = self.provider(name, &config.spec, config.metadata.namespace.as_deref());
        if self.errors.len() > errors {
            return None;
        }
        let Provider { oidc, subject } = provider?;
        self.report(OidcConfigRefValidated::Valid, format!("MCPOIDCConfig {name} is valid"));
        let oidc = Oidc { audience: audience.clone(), resource: Some(resource), scopes, ..oidc };
        Some(Provider { oidc, subject })
    }

    /// Converts the settings of the provider. Audience, resource and scopes are those of the reference.
    fn provider(
        &mut self,
        name: &str,
        spec: &MCPOIDCConfigSpec,
        namespace: Option<&str>,
    ) -> Option<Provider> {
        let MCPOIDCConfigSpec { kind, kubernetes_service_account, inline } = spec;
        match (kind, kubernetes_service_account, inline) {
            (OidcSource::Inline, None, Some(inline)) => Some(self.inline_provider(name, inline)),
            (OidcSource::KubernetesServiceAccount, Some(account), None) => {
                Some(self.cluster_provider(name, account, namespace))
            }
            (OidcSource::Inline | OidcSource::KubernetesServiceAccount, _, _) => {
                let message =
                    "found another type's settings; allowed: the settings of the type alone";
                self.reject_provider(name, "type", message);
                None
            }
        }
    }

    fn inline_provider(&mut self, name: &str, inline: &InlineOidc) -> Provider {
        let InlineOidc {
            issuer,
            jwks_url,
            introspection_url,
            client_id,
            client_secret_ref,
            ca_bundle_ref,
            jwks_auth_token_path,
            jwks_allow_private_ip,
            protected_resource_allow_private_ip,
            insecure_allow_http,
        } = inline;
        let at = format!("MCPOIDCConfig/{name}: spec.inline");
        let client_secret_env = client_secret_ref
            .as_ref()
            .map(|reference| self.required_env(reference, &format!("{at}.clientSecretRef")));
        let ca_bundle_path = match ca_bundle_ref {
            Some(CaBundleRef { config_map_ref: Some(reference) }) => {
                let mut reference = ConfigMapKeyRef::clone(reference);
                if reference.key.is_empty() {
                    CA_KEY.clone_into(&mut reference.key);
                }
                self.required_bundle(&reference, &format!("{at}.caBundleRef.configMapRef"))
            }
            Some(CaBundleRef { config_map_ref: None }) | None => None,
        };
        let path = filled(jwks_auth_token_path.as_deref()).map(absolute_path);
        let jwks_auth_token_path = self.provider_value(name, "inline.jwksAuthTokenPath", path);
        let oidc = Oidc {
            issuer: issuer.clone(),
            client_id: filled(client_id.as_deref()).map(str::to_owned),
            audience: String::new(),
            client_secret_env: client_secret_env.unwrap_or_default(),
            scopes: Vec::new(),
            resource: None,
            introspection_url: self.provider_value(
                name,
                "inline.introspectionUrl",
                read(introspection_url.as_deref()),
            ),
            jwks_url: self.provider_value(name, "inline.jwksUrl", read(jwks_url.as_deref())),
            insecure_allow_http: *insecure_allow_http,
            jwks_allow_private_ip: *jwks_allow_private_ip,
            protected_resource_allow_private_ip: *protected_resource_allow_private_ip,
            ca_bundle_path,
            jwks_auth_token_path,
        };
        Provider { oidc, subject: None }
    }

    fn cluster_provider(
        &mut self,
        name: &str,
        account: &KubernetesServiceAccountOidc,
        config_namespace: Option<&str>,
    ) -> Provider {
        let KubernetesServiceAccountOidc {
            service_account,
            namespace,
            issuer,
            jwks_url,
            introspection_url,
            use_cluster_auth,
        } = account;
        let account_path = |file: &str| absolute_path(&format!("{SERVICE_ACCOUNT}/{file}")).ok();
        let uses_cluster_auth = use_cluster_auth.unwrap_or(true);
        let key = |key: &str| format!("kubernetesServiceAccount.{key}");
        let oidc = Oidc {
            issuer: issuer.clone(),
            client_id: None,
            audience: String::new(),
            client_secret_env: None,
            scopes: Vec::new(),
            resource: None,
            introspection_url: self.provider_value(
                name,
                &key("introspectionUrl"),
                read(introspection_url.as_deref()),
            ),
            jwks_url: self.provider_value(name, &key("jwksUrl"), read(jwks_url.as_deref())),
            insecure_allow_http: false,
            jwks_allow_private_ip: true,
            protected_resource_allow_private_ip: true,
            ca_bundle_path: account_path("ca.crt").filter(|_| uses_cluster_auth),
            jwks_auth_token_path: account_path("token").filter(|_| uses_cluster_auth),
        };
        let namespace = filled(namespace.as_deref())
            .or(config_namespace)
            .unwrap_or_else(|| self.inputs.namespace());
        let subject = filled(service_account.as_deref())
            .map(|account| format!("system:serviceaccount:{namespace}:{account}"));
        Provider { oidc, subject }
    }

    /// Returns a value of the provider, or records its errors.
    fn provider_value<T>(
        &mut self,
        name: &str,
        key: &str,
        value: Option<Result<T, ConfigErrors>>,
    ) -> Option<T> {
        match value? {
            Ok(value) => Some(value),
            Err(errors) => {
                let path = join(&format!("MCPOIDCConfig/{name}: spec"), key);
                self.reject_part(&path, OidcConfigRefValidated::NotValid, &errors);
                None
            }
        }
    }

    fn reject_provider(&mut self, name: &str, key: &str, message: &str) {
        let path = format!("MCPOIDCConfig/{name}: spec.{key}");
        self.reject(path, OidcConfigRefValidated::NotValid, message);
    }
}

/// Reads text that is not empty.
fn read(text: Option<&str>) -> Option<Result<url::Url, ConfigErrors>> {
    Some(from_json(&Value::from(filled(text)?)))
}

/// Returns the error that the controller of a resource reports about its current generation.
fn reported_error(config: &MCPOIDCConfig) -> Option<&str> {
    let conditions = &config.status.as_ref()?.conditions;
    let generation = config.metadata.generation;
    let invalid = conditions.iter().find(|condition| {
        let is_current =
            condition.observed_generation.is_none() || condition.observed_generation == generation;
        condition.type_ == "Valid"
            && condition.status == ConditionStatus::False.as_str()
            && is_current
    })?;
    Some(&invalid.message)
}

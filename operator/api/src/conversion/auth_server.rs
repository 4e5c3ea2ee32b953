//! Embedded authorization server: the secrets of the resource become files.

use vmcp_config::{
    AuthServer, SecretFile, SecretRef,
    auth_server::{
        Client, Dcr, Oauth2Upstream, OidcUpstream, Redis, RedisAcl, Storage, Upstream, UpstreamKind,
    },
};

use super::{
    converter::{Converter, Rejected},
    strategy::Providers,
};
use crate::virtual_mcp_server::{AuthServerConfigValidated, IdentitySynthesized, IncomingAuthType};

/// Path of the section.
pub(super) const AT: &str = "spec.authServerConfig";

impl Converter<'_> {
    /// Reads the section. Its errors are recorded.
    pub(super) fn auth_server_section(&mut self) -> Option<AuthServer<SecretRef>> {
        let inline = self.inputs.server.spec.auth_server_config.as_ref()?;
        match inline.parse() {
            Ok(section) => Some(section),
            Err(errors) => {
                self.reject_part(AT, AuthServerConfigValidated::Invalid, &errors);
                None
            }
        }
    }

    /// Converts the section.
    pub(super) fn auth_server(
        &mut self,
        section: Option<AuthServer<SecretRef>>,
    ) -> Result<Option<AuthServer<SecretFile>>, Rejected> {
        section.map(|section| self.converted_auth_server(section).ok_or(Rejected)).transpose()
    }

    fn converted_auth_server(
        &mut self,
        section: AuthServer<SecretRef>,
    ) -> Option<AuthServer<SecretFile>> {
        let AuthServer {
            issuer,
            authorization_endpoint_base_url,
            baseline_client_scopes,
            hmac_secret_refs,
            signing_key_secret_refs,
            storage,
            token_lifespans,
            upstream_check_interval,
            upstream_providers,
        } = section;
        match synthesized_identities(&upstream_providers) {
            Some(Ok(message)) => self.report(IdentitySynthesized::WithUserInfo, message),
            Some(Err(message)) => self.report(IdentitySynthesized::WithoutUserInfo, message),
            None => {}
        }
        let hmac_secret_refs = self.files(&hmac_secret_refs, &format!("{AT}.hmacSecretRefs"));
        let signing_key_secret_refs =
            self.files(&signing_key_secret_refs, &format!("{AT}.signingKeySecretRefs"));
        let storage = self.storage(storage);
        let mut upstreams = Vec::new();
        for (index, upstream) in upstream_providers.into_iter().enumerate() {
            upstreams.push(self.upstream(upstream, &format!("{AT}.upstreamProviders[{index}]")));
        }
        Some(AuthServer {
            issuer,
            authorization_endpoint_base_url,
            baseline_client_scopes,
            hmac_secret_refs: hmac_secret_refs?,
            signing_key_secret_refs: signing_key_secret_refs?,
            storage: storage?,
            token_lifespans,
            upstream_check_interval,
            upstream_providers: upstreams.into_iter().collect::<Option<_>>()?,
        })
    }

    fn files(&mut self, references: &[SecretRef], path: &str) -> Option<Vec<SecretFile>> {
        let files: Vec<_> = references
            .iter()
            .enumerate()
            .map(|(index, reference)| self.required_file(reference, &format!("{path}[{index}]")))
            .collect();
        files.into_iter().collect()
    }

    fn optional_file(
        &mut self,
        reference: Option<&SecretRef>,
        path: &str,
    ) -> Result<Option<SecretFile>, Rejected> {
        reference.map(|reference| self.required_file(reference, path).ok_or(Rejected)).transpose()
    }

    fn storage(&mut self, storage: Storage<SecretRef>) -> Option<Storage<SecretFile>> {
        let redis = match storage {
            Storage::Memory => return Some(Storage::Memory),
            Storage::Redis(redis) => *redis,
        };
        let Redis { acl_user_config, connection } = redis;
        let RedisAcl { password_secret_ref, username_secret_ref } = acl_user_config;
        let at = format!("{AT}.storage.redis");
        let acl = format!("{at}.aclUserConfig");
        let password =
            self.required_file(&password_secret_ref, &format!("{acl}.passwordSecretRef"));
        let username =
            self.optional_file(username_secret_ref.as_ref(), &format!("{acl}.usernameSecretRef"));
        let connection = self.redis_connection(connection, &at);
        let acl_user_config =
            RedisAcl { password_secret_ref: password?, username_secret_ref: username.ok()? };
        Some(Storage::Redis(Box::new(Redis { acl_user_config, connection: connection? })))
    }

    fn upstream(
        &mut self,
        upstream: Upstream<SecretRef>,
        path: &str,
    ) -> Option<Upstream<SecretFile>> {
        let Upstream { name, kind } = upstream;
        let kind = match kind {
            UpstreamKind::Oidc(config) => {
                let path = format!("{path}.oidcConfig");
                UpstreamKind::Oidc(Box::new(self.oidc_upstream(*config, &path)?))
            }
            UpstreamKind::Oauth2(config) => {
                let path = format!("{path}.oauth2Config");
                UpstreamKind::Oauth2(Box::new(self.oauth2_upstream(*config, &path)?))
            }
        };
        Some(Upstream { name, kind })
    }

    fn oidc_upstream(
        &mut self,
        config: OidcUpstream<SecretRef>,
        path: &str,
    ) -> Option<OidcUpstream<SecretFile>> {
        let OidcUpstream {
            issuer_url,
            client_id,
            client_secret_ref,
            redirect_uri,
            scopes,
            additional_authorization_params,
            user_info_override,
        } = config;
        let path = format!("{path}.clientSecretRef");
        let client_secret_ref = self.optional_file(client_secret_ref.as_ref(), &path).ok()?;
        Some(OidcUpstream {
            issuer_url,
            client_id,
            client_secret_ref,
            redirect_uri,
            scopes,
            additional_authorization_params,
            user_info_override,
        })
    }

    fn oauth2_upstream(
        &mut self,
        config: Oauth2Upstream<SecretRef>,
        path: &str,
    ) -> Option<Oauth2Upstream<SecretFile>> {
        let Oauth2Upstream {
            authorization_endpoint,
            token_endpoint,
            client,
            redirect_uri,
            scopes,
            additional_authorization_params,
            token_response_mapping,
            user_info,
        } = config;
        let client = match client {
            Client::Static { id, secret } => {
                let path = format!("{path}.clientSecretRef");
                Client::Static { id, secret: self.optional_file(secret.as_ref(), &path).ok()? }
            }
            Client::Dynamic(Dcr {
                endpoint,
                initial_access_token,
                software_id,
                software_statement,
            }) => {
                let path = format!("{path}.dcrConfig.initialAccessTokenRef");
                let initial_access_token =
                    self.optional_file(initial_access_token.as_ref(), &path).ok()?;
                Client::Dynamic(Dcr {
                    endpoint,
                    initial_access_token,
                    software_id,
                    software_statement,
                })
            }
        };
        Some(Oauth2Upstream {
            authorization_endpoint,
            token_endpoint,
            client,
            redirect_uri,
            scopes,
            additional_authorization_params,
            token_response_mapping,
            user_info,
        })
    }
}

/// Returns whether all OAuth 2.0 upstream providers have a source of identities, as a sentence; the error names those without.
/// `None` without any of them.
pub(super) fn synthesized_identities(
    upstreams: &[Upstream<SecretRef>],
) -> Option<Result<String, String>> {
    let mut oauth2 = 0;
    let mut without = Vec::new();
    for Upstream { name, kind } in upstreams {
        let UpstreamKind::Oauth2(config) = kind else { continue };
        oauth2 += 1;
        if config.user_info.is_none() {
            without.push(name.as_str());
        }
    }
    if oauth2 == 0 {
        return None;
    }
    if without.is_empty() {
        return Some(Ok("all upstream providers have a source of identities".to_owned()));
    }
    Some(Err(format!(
        "without userInfo, the server derives the users of {} from access tokens, without names and email addresses",
        without.join(", ")
    )))
}

/// Returns the tokens that a request has: those of the upstream providers, and that of the caller.
pub(super) fn providers(
    section: Option<&AuthServer<SecretRef>>,
    incoming: IncomingAuthType,
) -> Providers {
    let upstreams = section.map(|section| section.upstream_providers.as_slice());
    let names = upstreams.unwrap_or_default().iter().map(|upstream| upstream.name.clone());
    let has_caller_tokens = match incoming {
        IncomingAuthType::Anonymous => false,
        IncomingAuthType::Oidc => true,
    };
    Providers { names: names.collect(), has_caller_tokens }
}

//! `authServer.upstreamProviders`: providers that users log in at.

use std::collections::BTreeMap;

use secrecy::SecretString;
use vmcp_config::auth_server::{
    self, Client, Dcr, DcrEndpoint, HttpMethod, Oauth2Upstream, OidcUpstream, TokenResponseMapping,
    Upstream, UpstreamKind,
};
use vmcp_config::{ExactUrl, SecretFile};
use vmcp_upstream::{
    DynamicClient, Endpoint, FieldMapping, Headers, Issuer, Kind, Method, Oauth2, Oidc, Params,
    Path, RegistrationSource, Scopes, Settings, SettingsError, StaticClient, TokenMapping,
    UserInfo,
};

use super::Converter;

/// Settings that both kinds of provider share.
struct CommonSettings {
    redirect_uri: Option<ExactUrl>,
    scopes: Vec<String>,
    params: BTreeMap<String, String>,
}

impl Converter {
    /// Converts the provider at `at`, for the server `name` at `resource`.
    pub(super) fn upstream(
        &mut self,
        at: &str,
        upstream: Upstream<SecretFile>,
        name: &str,
        resource: &str,
    ) -> Option<Settings> {
        let Upstream { name: provider_name, kind } = upstream;
        let (kind, common) = match kind {
            UpstreamKind::Oidc(oidc) => self.oidc_upstream(at, *oidc),
            UpstreamKind::Oauth2(oauth2) => self.oauth2_upstream(at, *oauth2),
        };
        let CommonSettings { redirect_uri, scopes, params } = common;
        let callback = redirect_uri.map_or_else(
            || format!("{}/oauth/callback", resource.trim_end_matches('/')),
            |uri| uri.as_str().to_owned(),
        );
        let redirect_uri = self.accept(
            format!("{at}.redirectUri"),
            &format!("\"{callback}\""),
            Endpoint::new(&callback),
        );
        let asked = Scopes::new(&scopes);
        if matches!(kind, Some(Kind::Oidc(_))) && !scopes.iter().any(|scope| scope == "openid") {
            let allowed = SettingsError::NoOpenid.to_string();
            self.reject(format!("{at}.scopes"), "no openid", allowed);
        }
        let scopes = self.accept(format!("{at}.scopes"), "the scopes", asked);
        let params = Params::new(params);
        let params =
            self.accept(format!("{at}.additionalAuthorizationParams"), "the parameters", params);
        Some(Settings {
            name: provider_name.as_str().into(),
            kind: kind?,
            redirect_uri: redirect_uri?,
            scopes: scopes?,
            params: params?,
            client_name: name.into(),
        })
    }

    fn oidc_upstream(
        &mut self,
        at: &str,
        upstream: OidcUpstream<SecretFile>,
    ) -> (Option<Kind>, CommonSettings) {
        let OidcUpstream {
            issuer_url,
            client_id,
            client_secret_ref,
            redirect_uri,
            scopes,
            additional_authorization_params: params,
            user_info_override,
        } = upstream;
        let issuer = issuer_url.as_str();
        let issuer =
            self.accept(format!("{at}.issuerUrl"), &format!("\"{issuer}\""), Issuer::new(issuer));
        let client = self.static_client(at, &client_id, client_secret_ref);
        let user_info = user_info_override
            .map(|user_info| self.user_info(&format!("{at}.userInfoOverride"), user_info));
        let oidc = || {
            let user_info = user_info.map_or(Some(None), |user_info| user_info.map(Some))?;
            Some(Kind::Oidc(Box::new(Oidc { issuer: issuer?, client: client?, user_info })))
        };
        (oidc(), CommonSettings { redirect_uri, scopes, params })
    }

    fn oauth2_upstream(
        &mut self,
        at: &str,
        upstream: Oauth2Upstream<SecretFile>,
    ) -> (Option<Kind>, CommonSettings) {
        let Oauth2Upstream {
            authorization_endpoint,
            token_endpoint,
            client,
            redirect_uri,
            scopes,
            additional_authorization_params: params,
            token_response_mapping,
            user_info,
        } = upstream;
        let authorization =
            self.endpoint(format!("{at}.authorizationEndpoint"), authorization_endpoint.as_str());
        let token = self.endpoint(format!("{at}.tokenEndpoint"), token_endpoint.as_str());
        let client = match client {
            Client::Static { id, secret } => {
                self.static_client(at, &id, secret).map(vmcp_upstream::Client::Static)
            }
            Client::Dynamic(dcr) => self
                .dynamic_client(&format!("{at}.dcrConfig"), dcr)
                .map(vmcp_upstream::Client::Dynamic),
        };
        let mapping = token_response_mapping
            .map(|mapping| self.mapping(&format!("{at}.tokenResponseMapping"), mapping));
        let user_info =
            user_info.map(|user_info| self.user_info(&format!("{at}.userInfo"), user_info));
        let oauth2 = || {
            Some(Kind::Oauth2(Box::new(Oauth2 {
                authorization_endpoint: authorization?,
                token_endpoint: token?,
                client: client?,
                token_mapping: mapping.map_or(Some(None), |mapping| mapping.map(Some))?,
                user_info: user_info.map_or(Some(None), |user_info| user_info.map(Some))?,
            })))
        };
        (oauth2(), CommonSettings { redirect_uri, scopes, params })
    }

    fn static_client(
        &mut self,
        at: &str,
        id: &str,
        secret: Option<SecretFile>,
    ) -> Option<StaticClient> {
        let secret = self.secret(&format!("{at}.clientSecretRef"), secret)?;
        let found = "a client id or secret";
        self.accept(format!("{at}.clientId"), found, StaticClient::new(id, secret))
    }

    fn dynamic_client(&mut self, at: &str, dcr: Dcr<SecretFile>) -> Option<DynamicClient> {
        let Dcr { endpoint, initial_access_token, software_id, software_statement } = dcr;
        let token = self.secret(&format!("{at}.initialAccessTokenRef"), initial_access_token)?;
        let (location_path, location) = match endpoint {
            DcrEndpoint::Discovery(url) => {
                let at = format!("{at}.discoveryUrl");
                let location = self.endpoint(at.clone(), url.as_str())?;
                (at, RegistrationSource::Discovery(location))
            }
            DcrEndpoint::Registration(url) => {
                let at = format!("{at}.registrationEndpoint");
                let location = self.endpoint(at.clone(), url.as_str())?;
                (at, RegistrationSource::Endpoint(location))
            }
        };
        let mut dynamic_client =
            self.accept(location_path, "the URL", DynamicClient::new(location))?;
        if let Some(token) = token {
            let with = dynamic_client.initial_access_token(token);
            dynamic_client =
                self.accept(format!("{at}.initialAccessTokenRef"), "the token", with)?;
        }
        if let Some(statement) = software_statement {
            let with = dynamic_client.software_statement(&statement);
            dynamic_client =
                self.accept(format!("{at}.softwareStatement"), "the statement", with)?;
        }
        Some(match software_id {
            Some(id) => dynamic_client.software_id(&id),
            None => dynamic_client,
        })
    }

    fn mapping(&mut self, at: &str, mapping: TokenResponseMapping) -> Option<TokenMapping> {
        let TokenResponseMapping {
            access_token_path,
            expires_in_path,
            refresh_token_path,
            scope_path,
        } = mapping;
        let mut path = |key: &str, text: &str| {
            self.accept(format!("{at}.{key}"), &format!("\"{text}\""), Path::new(text))
        };
        let access_token = path("accessTokenPath", &access_token_path);
        let expires_in = path("expiresInPath", &expires_in_path);
        let refresh_token = path("refreshTokenPath", &refresh_token_path);
        let scope = path("scopePath", &scope_path);
        Some(TokenMapping {
            access_token: access_token?,
            expires_in: expires_in?,
            refresh_token: refresh_token?,
            scope: scope?,
        })
    }

    fn user_info(&mut self, at: &str, user_info: auth_server::UserInfo) -> Option<UserInfo> {
        let auth_server::UserInfo { endpoint_url, http_method, additional_headers, field_mapping } =
            user_info;
        let auth_server::FieldMapping { subject_fields, name_fields, email_fields } = field_mapping;
        let endpoint = self.endpoint(format!("{at}.endpointUrl"), endpoint_url.as_str());
        let headers = Headers::new(additional_headers);
        let headers = self.accept(format!("{at}.additionalHeaders"), "the headers", headers);
        let fields = FieldMapping::new(subject_fields, name_fields, email_fields);
        let fields = self.accept(format!("{at}.fieldMapping"), "the fields", fields);
        let method = match http_method {
            HttpMethod::Get => Method::Get,
            HttpMethod::Post => Method::Post,
        };
        Some(UserInfo { endpoint: endpoint?, method, headers: headers?, fields: fields? })
    }

    /// Converts a URL that the operator configured, with a warning if its traffic is not encrypted.
    fn endpoint(&mut self, at: String, url: &str) -> Option<Endpoint> {
        let endpoint = match Endpoint::new(url) {
            Err(SettingsError::Insecure) => {
                self.warn(&at, "plain HTTP: codes, secrets and tokens can be read in transit");
                Endpoint::allowing_http(url)
            }
            endpoint => endpoint,
        };
        self.accept(at, &format!("\"{url}\""), endpoint)
    }

    /// Reads the secret from a file; `None` after an error.
    #[expect(clippy::option_option, reason = "no secret is as good as one; an unreadable is not")]
    fn secret(&mut self, at: &str, secret: Option<SecretFile>) -> Option<Option<SecretString>> {
        match secret {
            None => Some(None),
            Some(secret) => self.files.text(at, &secret).map(Some),
        }
    }

    fn accept<T>(
        &mut self,
        at: String,
        found: &str,
        result: Result<T, SettingsError>,
    ) -> Option<T> {
        result.map_err(|error| self.reject(at, found, error.to_string())).ok()
    }
}

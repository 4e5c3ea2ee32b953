//! Whole configuration: URLs of issuers, headers of backends, and the embedded authorization server.

use url::Url;
use vmcp_config::auth_server::{Upstream, UpstreamKind};
use vmcp_config::{
    AuthServer, Backend, ConfigError, File, IncomingMethod, Issuer, Oidc, SecretFile, Telemetry,
};
use vmcp_egress::{FetchPolicy, Origin};
use vmcp_telemetry_export::Endpoint;

use super::credentials::header;

const OIDC: &str = "incomingAuth.oidc";

/// Returns the errors of a configuration that its parser accepts.
pub(super) fn errors(file: &File) -> Vec<ConfigError> {
    let mut errors = Vec::new();
    headers(&file.backends, &mut errors);
    errors.extend(file.telemetry.as_ref().and_then(collector));
    if let IncomingMethod::Oidc(oidc) = &file.incoming_auth.method {
        match &file.auth_server {
            Some(auth_server) => {
                foreign_endpoints(oidc, &mut errors);
                providers(auth_server, oidc, &mut errors);
            }
            None => issuer_urls(oidc, &mut errors),
        }
    }
    errors
}

fn headers(backends: &[Backend], errors: &mut Vec<ConfigError>) {
    for (index, backend) in backends.iter().enumerate() {
        let names = backend.headers.iter().map(|(name, _)| name.as_str());
        errors.extend(
            names.filter_map(|name| header(&format!("backends[{index}].headers.{name}"), name)),
        );
    }
}

/// Returns the error of the collector's address.
fn collector(telemetry: &Telemetry) -> Option<ConfigError> {
    let address = telemetry.endpoint.as_deref()?;
    let error = Endpoint::new(address, telemetry.insecure).err()?;
    let found = format!("\"{address}\"");
    Some(ConfigError::new("telemetry.endpoint", found, format!("another address ({error})")))
}

/// Reports URLs whose answers others could forge.
fn issuer_urls(oidc: &Oidc, errors: &mut Vec<ConfigError>) {
    let mut policy = FetchPolicy::configured();
    policy.http = oidc.insecure_allow_http;
    for (key, url) in [("jwksUrl", &oidc.jwks_url), ("introspectionUrl", &oidc.introspection_url)] {
        let Some(url) = url else { continue };
        if policy.check(url).is_err() {
            let allowed = "an https:// URL, or insecureAllowHTTP: true for development";
            errors.push(ConfigError::new(format!("{OIDC}.{key}"), format!("\"{url}\""), allowed));
        }
    }
    let jwks_url = oidc.jwks_url.as_ref().map(Url::as_str);
    if let Some(url) = jwks_url.filter(|url| url.contains('#')) {
        let (at, found) = (format!("{OIDC}.jwksUrl"), format!("\"{url}\""));
        errors.push(ConfigError::new(at, found, "a URL without fragment"));
    }
    let first = jwks_url.unwrap_or(&oidc.issuer);
    if oidc.jwks_auth_token_path.is_some() && !is_confidential(first) {
        let (at, found) = (format!("{OIDC}.jwksAuthTokenPath"), format!("a token for \"{first}\""));
        let allowed = "an https:// issuer or jwksUrl, because others could read the token";
        errors.push(ConfigError::new(at, found, allowed));
    }
}

/// Reports settings that refer to another server for data of the embedded one.
fn foreign_endpoints(oidc: &Oidc, errors: &mut Vec<ConfigError>) {
    let keys = format!("{}/.well-known/jwks.json", oidc.issuer);
    if let Some(url) = oidc.jwks_url.as_ref().filter(|url| url.as_str() != keys) {
        let (at, found) = (format!("{OIDC}.jwksUrl"), format!("\"{}\"", url.as_str()));
        let allowed = format!("\"{keys}\", or no URL: the keys of authServerConfig are used");
        errors.push(ConfigError::new(at, found, allowed));
    }
    if let Some(url) = &oidc.introspection_url {
        let (at, found) = (format!("{OIDC}.introspectionUrl"), format!("\"{}\"", url.as_str()));
        let allowed = "no URL: tokens of authServerConfig are verified without introspection";
        errors.push(ConfigError::new(at, found, allowed));
    }
}

fn providers(auth_server: &AuthServer<SecretFile>, oidc: &Oidc, errors: &mut Vec<ConfigError>) {
    let logins = auth_server.authorization_endpoint_base_url.as_ref();
    let resource = oidc.resource.as_deref().unwrap_or(&oidc.audience);
    let served = [Some(auth_server.issuer.as_str()), logins.map(Issuer::as_str), Some(resource)];
    let served: Vec<_> = served.into_iter().flatten().filter_map(origin).collect();
    for (index, Upstream { name: _, kind }) in auth_server.upstream_providers.iter().enumerate() {
        let at = format!("authServer.upstreamProviders[{index}]");
        let (at, callback) = match kind {
            UpstreamKind::Oidc(oidc) => {
                let at = format!("{at}.oidcConfig");
                if !oidc.scopes.iter().any(|scope| scope == "openid") {
                    let allowed = "scopes with openid, which an OpenID provider requires";
                    errors.push(ConfigError::new(format!("{at}.scopes"), "no openid", allowed));
                }
                (at, oidc.redirect_uri.as_ref())
            }
            UpstreamKind::Oauth2(oauth2) => {
                (format!("{at}.oauth2Config"), oauth2.redirect_uri.as_ref())
            }
        };
        let absent = || format!("{}/oauth/callback", resource.trim_end_matches('/'));
        let callback = callback.map_or_else(absent, |callback| callback.as_str().to_owned());
        let (at, found) = (format!("{at}.redirectUri"), format!("\"{callback}\""));
        if origin(&callback).is_none_or(|origin| !served.contains(&origin)) {
            let allowed = format!("a URL on one of {}", served.join(", "));
            errors.push(ConfigError::new(at, found, allowed));
        } else if !is_confidential(&callback) {
            let allowed = "an https:// URL, or http:// on loopback; absent is {resourceUrl}/oauth/callback, and the cluster's address \
                without a resourceUrl";
            errors.push(ConfigError::new(at, found, allowed));
        }
    }
}

/// Returns whether others cannot read requests to a URL.
fn is_confidential(url: &str) -> bool {
    Url::parse(url).is_ok_and(|url| Origin::of(&url).is_ok_and(|one| one.is_confidential()))
}

fn origin(url: &str) -> Option<String> {
    Some(Url::parse(url).ok()?.origin().ascii_serialization())
}

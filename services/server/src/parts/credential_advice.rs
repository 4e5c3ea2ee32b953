//! Advice for the operator about a backend that rejects the gateway's credentials: the issuers that the backend accepts
//! (RFC 9728), and the section of the configuration that provides their tokens.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, Request, StatusCode};
use http_body_util::BodyExt;
use serde_json::Value;
use tokio::time::timeout;
use tower::ServiceExt;
use url::Url;
use vmcp_aggregate::settings::CredentialAdvice;
use vmcp_config::auth_server::{Upstream, UpstreamKind};
use vmcp_config::{AuthServer, IncomingAuth as IncomingSection, IncomingMethod, SecretFile};
use vmcp_core::Body;
use vmcp_egress::{Egress, FetchAddresses, FetchPolicy, Fetcher};

/// Time limit of the metadata request. A list request of a client may wait for it.
const METADATA_TIMEOUT: Duration = Duration::from_secs(2);

/// Maximum size of metadata, in bytes.
const MAX_METADATA_SIZE: usize = 64 << 10;

/// Maximum number of issuers and scopes in a message.
const MAX_TEXTS: usize = 5;

/// Maximum length of an issuer or scope in a message, in bytes.
const MAX_TEXT_LENGTH: usize = 200;

const WELL_KNOWN_PATH: &str = "/.well-known/oauth-protected-resource";

/// Issuers whose tokens the configuration can provide.
#[derive(Debug, Default)]
pub(super) struct KnownIssuers {
    /// Issuer of the tokens that callers present.
    callers: Option<String>,
    /// Upstream providers by name, each with its issuer, or with its authorization endpoint if no issuer is configured.
    upstreams: Vec<(String, String)>,
}

/// A backend that may reject its credentials.
pub(super) struct CredentialAdvisor {
    pub(super) name: String,
    pub(super) url: Url,
    /// `true` if the host may be a secret.
    pub(super) is_hidden: bool,
    pub(super) ca_bundle: Option<PathBuf>,
    /// Type of its credentials in the configuration.
    pub(super) strategy: &'static str,
    pub(super) issuers: Arc<KnownIssuers>,
    pub(super) egress: Egress,
}

/// Requirements from a backend's protected resource metadata.
#[derive(Debug, Default, PartialEq, Eq)]
struct TokenRequirements {
    issuers: Vec<String>,
    scopes: Vec<String>,
}

impl KnownIssuers {
    pub(super) fn new(incoming: &IncomingSection, server: Option<&AuthServer<SecretFile>>) -> Self {
        let callers = match &incoming.method {
            IncomingMethod::Oidc(oidc) => Some(oidc.issuer.clone()),
            IncomingMethod::Anonymous | IncomingMethod::Local => None,
        };
        let providers = server.into_iter().flat_map(|server| &server.upstream_providers);
        let upstream = |provider: &Upstream<SecretFile>| {
            let at = match &provider.kind {
                UpstreamKind::Oidc(oidc) => oidc.issuer_url.as_str().to_owned(),
                UpstreamKind::Oauth2(oauth) => oauth.authorization_endpoint.to_string(),
            };
            (provider.name.as_str().to_owned(), at)
        };
        Self { callers, upstreams: providers.map(upstream).collect() }
    }

    /// Returns the configuration change that sends tokens of `issuer` to `backend`.
    fn remedy(&self, issuer: &str, backend: &str) -> Option<String> {
        let is = |known: &str| known.trim_end_matches('/') == issuer.trim_end_matches('/');
        let below = |known: &str| {
            known.strip_prefix(issuer.trim_end_matches('/')).is_some_and(|it| it.starts_with('/'))
        };
        let section = format!("outgoingAuth.backends.{backend}");
        let upstream = self.upstreams.iter().find(|(_, known)| is(known) || below(known));
        if let Some((name, _)) = upstream {
            return Some(format!(
                "{name} in authServer.upstreamProviders is that issuer: set {section} to type upstream_inject with \
                 providerName {name}"
            ));
        }
        self.callers.as_deref().is_some_and(is).then(|| {
            format!("callers' tokens are of that issuer: set {section} to type token_exchange with its token endpoint")
        })
    }
}

impl CredentialAdvisor {
    pub(super) fn advice(self) -> CredentialAdvice {
        let this = Arc::new(self);
        CredentialAdvice::new(move |headers| {
            let this = Arc::clone(&this);
            async move { Some(this.advise(&headers).await) }
        })
    }

    async fn advise(&self, headers: &HeaderMap) -> String {
        let required =
            timeout(METADATA_TIMEOUT, self.fetch_requirements(headers)).await.ok().flatten();
        let Self { name, strategy, issuers, is_hidden, url, .. } = self;
        let section = format!("outgoingAuth.backends.{name}");
        let Some(TokenRequirements { issuers: required, scopes }) = required else {
            return match *strategy {
                "none" => format!(
                    "the backend requires credentials and does not name their issuer: set {section}, or headers of the backend"
                ),
                known => format!(
                    "the backend rejects the credentials of outgoingAuth (type {known}): change {section}"
                ),
            };
        };
        // An issuer on the backend's host would reveal a hidden host.
        let is_shown = |issuer: &&String| {
            !*is_hidden || Url::parse(issuer).is_ok_and(|it| it.host_str() != url.host_str())
        };
        let named: Vec<_> = required.iter().filter(is_shown).map(String::as_str).collect();
        let named = if named.is_empty() { "its own issuer".to_owned() } else { named.join(" or ") };
        let scopes = if scopes.is_empty() {
            String::new()
        } else {
            format!(" with scopes {}", scopes.join(" "))
        };
        let remedy = required.iter().find_map(|issuer| issuers.remedy(issuer, name));
        let remedy = remedy.unwrap_or_else(|| {
            format!(
                "add it to authServer.upstreamProviders and set {section} to type upstream_inject, or to type \
                 token_exchange or header_injection"
            )
        });
        format!("the backend requires tokens of {named}{scopes}: {remedy}")
    }

    /// Reads the metadata that the challenge names, or else the metadata at the well-known URLs (RFC 9728, 3.1 and
    /// 5.1).
    async fn fetch_requirements(&self, headers: &HeaderMap) -> Option<TokenRequirements> {
        let challenge = vmcp_doctor::parse_bearer_challenge(headers).unwrap_or_default();
        let named = challenge.resource_metadata.as_deref();
        let locations = match named.and_then(|named| Url::parse(named).ok()) {
            Some(named) => vec![named],
            None => self.well_known(),
        };
        for location in locations {
            let Some(metadata) = self.fetch(&location).await else { continue };
            let mut required = TokenRequirements::read(&metadata)?;
            if let Some(scope) = &challenge.scope {
                required.scopes = short_ascii_texts(scope.split(' '));
            }
            return Some(required);
        }
        None
    }

    fn well_known(&self) -> Vec<Url> {
        let at = |path: &str| {
            let mut location = self.url.clone();
            location.set_query(None);
            location.set_path(&format!("{WELL_KNOWN_PATH}{}", path.trim_end_matches('/')));
            location
        };
        let mut locations = vec![at(self.url.path()), at("")];
        locations.dedup();
        locations
    }

    async fn fetch(&self, location: &Url) -> Option<Value> {
        let Self { url, ca_bundle, egress, .. } = self;
        let bounded = FetchPolicy {
            deadline: METADATA_TIMEOUT,
            max_body: MAX_METADATA_SIZE,
            redirects: false,
            ..FetchPolicy::supplied()
        };
        // The operator configured the backend's origin, which may be on any network. The backend chooses all other
        // URLs.
        let policy = if location.origin() == url.origin() {
            let (addresses, ca_bundle) = (FetchAddresses::Any, ca_bundle.clone());
            FetchPolicy { addresses, http: true, ca_bundle, ..bounded }
        } else {
            bounded
        };
        let fetcher = Fetcher::new(egress.clone(), policy).ok()?;
        let request = Request::get(location.as_str()).header("accept", "application/json");
        let response = fetcher.oneshot(request.body(Body::default()).ok()?).await.ok()?;
        if response.status() != StatusCode::OK {
            return None;
        }
        let body = response.into_body().collect().await.ok()?.to_bytes();
        serde_json::from_slice(&body).ok()
    }
}

impl TokenRequirements {
    fn read(metadata: &Value) -> Option<Self> {
        let texts = |member: &str| {
            let values = metadata[member].as_array().map(Vec::as_slice).unwrap_or_default();
            short_ascii_texts(values.iter().filter_map(Value::as_str))
        };
        let mut issuers = texts("authorization_servers");
        issuers.retain(|issuer| is_issuer(issuer));
        (!issuers.is_empty()).then(|| Self { issuers, scopes: texts("scopes_supported") })
    }
}

/// Returns `true` for a URL without user info, query and fragment.
fn is_issuer(text: &str) -> bool {
    Url::parse(text).is_ok_and(|url| {
        matches!(url.scheme(), "http" | "https")
            && (url.username(), url.password(), url.query(), url.fragment())
                == ("", None, None, None)
    })
}

/// Returns the first short texts of visible ASCII, because text from a backend is written to logs and terminals.
fn short_ascii_texts<'a>(texts: impl Iterator<Item = &'a str>) -> Vec<String> {
    let is_short_ascii = |text: &&str| {
        (1..=MAX_TEXT_LENGTH).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_graphic())
    };
    texts.filter(is_short_ascii).take(MAX_TEXTS).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_the_section_for_an_issuer() {
        let issuers = KnownIssuers {
            callers: Some("https://login.test".to_owned()),
            upstreams: vec![
                ("idp".to_owned(), "https://idp.test/".to_owned()),
                ("hub".to_owned(), "https://hub.test/login/oauth/authorize".to_owned()),
            ],
        };
        let remedy = |issuer| issuers.remedy(issuer, "be").unwrap_or_default();
        assert!(remedy("https://idp.test").contains("upstream_inject with providerName idp"));
        assert!(remedy("https://hub.test/login/oauth").contains("providerName hub"));
        assert!(remedy("https://login.test/").contains("be to type token_exchange"));
        for other in ["https://idp.test.evil", "https://hub.test/login/o", "https://other.test"] {
            assert_eq!(remedy(other), "", "{other}");
        }
    }

    #[test]
    fn shows_no_harmful_text_of_metadata() {
        let metadata = json!({
            "authorization_servers": ["https://me:pw@idp.test", "https://a.test\u{1b}", 1, "x", "https://a.test"],
            "scopes_supported": ["a", "b c", "\u{202e}", "d"],
        });
        let issuers = vec!["https://a.test".to_owned()];
        let scopes = vec!["a".to_owned(), "d".to_owned()];
        assert_eq!(TokenRequirements::read(&metadata), Some(TokenRequirements { issuers, scopes }));
        assert_eq!(
            TokenRequirements::read(&json!({"authorization_servers": ["javascript:0"]})),
            None
        );
    }
}

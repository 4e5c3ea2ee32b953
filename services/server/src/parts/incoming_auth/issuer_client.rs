//! HTTP clients for what an issuer serves: metadata, keys, introspection.

use std::hash::{DefaultHasher, Hash};
use std::path::{Path, PathBuf};
use std::task::{Context, Poll};

use http::Request;
use http::header::{AUTHORIZATION, HeaderValue};
use tower_service::Service;
use url::Url;
use vmcp_config::{ConfigError, FilePath, Oidc};
use vmcp_core::{Body, BoxError};
use vmcp_egress::{Egress, FetchAddresses, FetchFuture, FetchPolicy, Fetcher, Origin};

use super::super::secret_files;

/// Clients of one issuer.
pub(super) struct IssuerClients {
    /// Client for the URLs of the configuration.
    pub(super) configured: Fetcher,
    /// Client for URLs that the issuer's metadata names.
    pub(super) supplied: Fetcher,
    /// File with the token for discovery documents and keys.
    token: Option<PathBuf>,
}

/// Client that adds the token of a file to each request.
#[derive(Clone)]
pub(super) struct TokenClient {
    fetcher: Fetcher,
    token: Option<PathBuf>,
}

/// Error of a token file, which prevents a request.
#[derive(Debug, thiserror::Error)]
#[error("jwksAuthTokenPath: {path}, {problem}")]
struct TokenFileError {
    path: String,
    problem: String,
}

// === impl IssuerClients ===

impl IssuerClients {
    /// Creates the clients, and returns all errors. The CA bundle goes into `digest`.
    pub(super) fn new(
        at: &str,
        oidc: &Oidc,
        egress: &Egress,
        digest: &mut DefaultHasher,
    ) -> Result<Self, Vec<ConfigError>> {
        let mut errors = Vec::new();
        let policy = with_exceptions(FetchPolicy::configured(), oidc);
        for (key, url) in
            [("jwksUrl", &oidc.jwks_url), ("introspectionUrl", &oidc.introspection_url)]
        {
            let Some(url) = url else { continue };
            if let Err(error) = policy.check(url) {
                let (path, found) = (format!("{at}.{key}"), format!("\"{url}\""));
                errors.push(ConfigError::new(path, found, error.to_string()));
            }
        }
        let bundle = policy.ca_bundle.clone();
        if let Some(bundle) = &bundle {
            // A bundle renewed under the same path is another configuration.
            std::fs::read(bundle).unwrap_or_default().hash(digest);
        }
        let token = oidc.jwks_auth_token_path.as_ref().map(|path| path.as_path().to_owned());
        if let Some(path) = &token {
            errors.extend(token_error(at, path, oidc));
        }
        let configured = Fetcher::new(egress.clone(), policy);
        let supplied = with_exceptions(FetchPolicy::supplied(), oidc);
        match (configured, Fetcher::new(egress.clone(), supplied)) {
            (Ok(configured), Ok(supplied)) if errors.is_empty() => {
                Ok(Self { configured, supplied, token })
            }
            (Ok(_), Ok(_)) => Err(errors),
            (Err(error), _) | (_, Err(error)) => {
                let found = bundle.map(|path| path.display().to_string()).unwrap_or_default();
                let allowed = format!("a readable file of PEM certificates ({error})");
                errors.push(ConfigError::new(format!("{at}.caBundlePath"), found, allowed));
                Err(errors)
            }
        }
    }

    /// Returns the clients for metadata and keys: for URLs of the configuration, and for those of the metadata.
    pub(super) fn for_keys(&self) -> (TokenClient, TokenClient) {
        let client =
            |fetcher: &Fetcher| TokenClient { fetcher: fetcher.clone(), token: self.token.clone() };
        (client(&self.configured), client(&self.supplied))
    }
}

/// Returns the reason why the token cannot be sent to the first URL.
fn token_error(at: &str, path: &Path, oidc: &Oidc) -> Option<ConfigError> {
    let at = format!("{at}.jwksAuthTokenPath");
    if let Err(TokenFileError { path, problem }) = authorization(path) {
        let found = format!("\"{path}\", {problem}");
        return Some(ConfigError::new(at, found, "a readable file with a token"));
    }
    let url = oidc.jwks_url.as_ref().map_or(&*oidc.issuer, |url| url.as_str());
    if is_confidential(url) {
        return None;
    }
    let allowed = "an https:// issuer or jwksUrl, because others could read the token";
    Some(ConfigError::new(at, format!("a token for \"{url}\""), allowed))
}

/// Extends a fetch policy by the exceptions of the section.
fn with_exceptions(policy: FetchPolicy, oidc: &Oidc) -> FetchPolicy {
    let mut policy = policy;
    policy.http = oidc.insecure_allow_http;
    if oidc.jwks_allow_private_ip {
        policy.addresses = FetchAddresses::Any;
    }
    policy.ca_bundle = oidc.ca_bundle_path.as_ref().map(FilePath::as_path).map(Path::to_owned);
    policy
}

// === impl TokenClient ===

impl Service<Request<Body>> for TokenClient {
    type Response = http::Response<Body>;
    type Error = BoxError;
    type Future = FetchFuture;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.fetcher.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<Body>) -> FetchFuture {
        let Self { fetcher, token } = self.clone();
        let Some(path) = token.filter(|_| is_confidential(&request.uri().to_string())) else {
            return Box::pin(async move { fetcher.fetch(request).await });
        };
        Box::pin(async move {
            // Read for each request: the kubelet renews tokens of service accounts.
            let read = tokio::task::spawn_blocking(move || authorization(&path));
            request.headers_mut().insert(AUTHORIZATION, read.await??);
            fetcher.fetch(request).await
        })
    }
}

/// Returns whether other machines cannot read a request to `url`.
fn is_confidential(url: &str) -> bool {
    Url::parse(url).is_ok_and(|url| Origin::of(&url).is_ok_and(|origin| origin.is_confidential()))
}

/// Returns the value of the header with the token in the file at `path`.
fn authorization(path: &Path) -> Result<HeaderValue, TokenFileError> {
    let error = |problem: String| TokenFileError { path: path.display().to_string(), problem };
    let bytes = secret_files::read(path).map_err(|problem| error(problem.to_string()))?;
    let token = std::str::from_utf8(&bytes).map(str::trim).unwrap_or_default();
    let value = (!token.is_empty()).then(|| HeaderValue::try_from(format!("Bearer {token}")));
    let Some(Ok(mut value)) = value else {
        return Err(error("which holds no token".to_owned()));
    };
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use vmcp_config::{File, Format, IncomingMethod};

    use super::*;

    #[test]
    fn fetches_private_or_http_addresses_only_if_allowed() {
        let of = |fields: &str| {
            let text = format!(
                "name: x\nincomingAuth: {{type: oidc, oidc: {{issuer: \"https://a.test\", \
                 clientId: c, audience: b{fields}}}}}\n"
            );
            let method = File::parse(&text, Format::Yaml).unwrap().incoming_auth.method;
            let IncomingMethod::Oidc(oidc) = method else { panic!("{method:?}") };
            with_exceptions(FetchPolicy::supplied(), &oidc)
        };
        assert_eq!(of(""), FetchPolicy::supplied());
        assert_eq!(of(", jwksAllowPrivateIp: true").addresses, FetchAddresses::Any);
        assert!(of(", insecureAllowHttp: true").http);
    }

    #[test]
    fn sends_token_only_where_others_cannot_read() {
        for (uri, expected) in [
            ("https://10.0.0.1:6443/openid/v1/jwks", true),
            ("http://localhost:1/", true),
            ("http://127.0.0.1:1/", true),
            ("http://[::1]:1/", true),
            ("http://kubernetes.default.svc/", false),
            ("http://localhost.test/", false),
        ] {
            assert_eq!(is_confidential(uri), expected, "{uri}");
        }
    }
}

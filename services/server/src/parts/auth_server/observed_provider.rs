//! Upstream providers that record the outcome of their last request.

use std::fmt;
use std::sync::{Mutex, MutexGuard};

use futures_util::future::BoxFuture;
use http::Uri;
use secrecy::SecretSlice;
use vmcp_auth_server::Upstream;
use vmcp_upstream::{
    AuthorizationResponse, Client, Kind, Login, Provider, ProviderError, ReauthParams,
    RefreshError, RevocationOutcome, Settings, Tokens,
};

use super::report::ProviderStatus;
use vmcp_core::lock;

/// A provider that records the outcome of its last request.
pub(crate) struct ObservedProvider {
    provider: Provider,
    kind: &'static str,
    /// Configured address.
    at: String,
    /// `true` if the provider publishes metadata that can be fetched without a login.
    is_discovered: bool,
    last: Mutex<LastStatus>,
}

#[derive(Default)]
struct LastStatus {
    /// Error of the last attempt to begin a login.
    begin: Option<String>,
    /// Error of the last response to this server.
    answer: Option<String>,
    /// `true` after the first successful response.
    has_responded: bool,
}

impl ObservedProvider {
    pub(super) fn new(provider: Provider, settings: &Settings) -> Self {
        let (kind, at, is_discovered) = match &settings.kind {
            Kind::Oidc(oidc) => ("oidc", oidc.issuer.as_str().to_owned(), true),
            Kind::Oauth2(oauth2) => {
                let at = oauth2.authorization_endpoint.uri().to_string();
                ("oauth2", at, matches!(oauth2.client, Client::Dynamic(_)))
            }
        };
        Self { provider, kind, at, is_discovered, last: Mutex::default() }
    }

    /// Fetches the provider's metadata, if it publishes any. Performs no login and no registration.
    pub(crate) async fn check(&self) {
        if !self.is_discovered {
            return;
        }
        let outcome = self.provider.check().await;
        let error = outcome.as_ref().err().and_then(attributable_error);
        let mut last = self.last_status();
        last.has_responded |= outcome.is_ok();
        if error.is_some() && last.begin != error {
            tracing::warn!(provider = self.provider.name(), reason = error, "upstream provider");
        }
        last.begin = error;
    }

    /// Returns the outcome of the last request.
    pub(crate) fn report(&self) -> ProviderStatus {
        let LastStatus { begin, answer, has_responded } = &*self.last_status();
        let message = begin.clone().or_else(|| answer.clone());
        let status = match (&message, has_responded) {
            (Some(_), _) => "unavailable",
            (None, true) => "ready",
            (None, false) => "unknown",
        };
        ProviderStatus {
            name: self.provider.name().to_owned(),
            kind: self.kind,
            at: self.at.clone(),
            status,
            message,
        }
    }

    fn last_status(&self) -> MutexGuard<'_, LastStatus> {
        lock(&self.last)
    }

    fn record_response(&self, error: Option<String>, is_response: bool) {
        let mut last = self.last_status();
        last.has_responded |= is_response;
        if error.is_some() || is_response {
            last.answer = error;
        }
    }
}

impl Upstream for ObservedProvider {
    fn name(&self) -> &str {
        self.provider.name()
    }

    fn redirect_uri(&self) -> &Uri {
        Upstream::redirect_uri(&self.provider)
    }

    fn issuer(&self) -> Option<&str> {
        self.provider.issuer()
    }

    fn issuer_id(&self) -> &str {
        self.provider.issuer_id()
    }

    fn may_have_issuer(&self, issuer: &str) -> bool {
        self.provider.may_have_issuer(issuer)
    }

    fn begin<'a>(
        &'a self,
        state: &'a str,
        freshness: ReauthParams,
    ) -> BoxFuture<'a, Result<(Uri, SecretSlice<u8>), ProviderError>> {
        Box::pin(async move {
            let outcome = Upstream::begin(&self.provider, state, freshness).await;
            self.last_status().begin = outcome.as_ref().err().and_then(attributable_error);
            outcome
        })
    }

    fn finish<'a>(
        &'a self,
        leg: &'a SecretSlice<u8>,
        answer: AuthorizationResponse,
    ) -> BoxFuture<'a, Result<Login, ProviderError>> {
        Box::pin(async move {
            let outcome = Upstream::finish(&self.provider, leg, answer).await;
            self.record_response(
                outcome.as_ref().err().and_then(attributable_error),
                outcome.is_ok(),
            );
            outcome
        })
    }

    fn refresh<'a>(&'a self, tokens: &'a Tokens) -> BoxFuture<'a, Result<Tokens, RefreshError>> {
        Box::pin(async move {
            let outcome = Upstream::refresh(&self.provider, tokens).await;
            match &outcome {
                Ok(_) | Err(RefreshError::GrantEnded | RefreshError::SubjectChanged) => {
                    self.record_response(None, true);
                }
                Err(RefreshError::Temporary(error)) => {
                    self.record_response(attributable_error(error), false);
                }
            }
            outcome
        })
    }

    fn revoke<'a>(
        &'a self,
        tokens: &'a Tokens,
    ) -> BoxFuture<'a, Result<RevocationOutcome, ProviderError>> {
        Upstream::revoke(&self.provider, tokens)
    }
}

impl fmt::Debug for ObservedProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.provider.fmt(f)
    }
}

/// Returns the error if the provider or this server's registration causes it. Errors in data from the browser do not
/// count: any client can send invalid data.
fn attributable_error(error: &ProviderError) -> Option<String> {
    match error {
        ProviderError::Unavailable { .. }
        | ProviderError::ConfigMismatch(_)
        | ProviderError::RegistrationStore => Some(error.to_string()),
        ProviderError::Rejected { code, .. } => {
            matches!(&**code, "invalid_client" | "unauthorized_client").then(|| error.to_string())
        }
        ProviderError::Denied(_)
        | ProviderError::Response(_)
        | ProviderError::Identity(_)
        | ProviderError::RandomUnavailable => None,
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Arc;

    use bytes::Bytes;
    use http::{Request, Response};
    use http_body_util::Full;
    use tower::service_fn;
    use vmcp_core::{Body, Clock};
    use vmcp_upstream::{
        AuthorizationDenied, AuthorizationResponseError, Endpoint, EndpointError, EndpointKind,
        Issuer, MemoryRegistrations, Oauth2, Oidc, Params, Scopes, StaticClient,
    };

    use super::*;

    fn observed(kind: Kind) -> ObservedProvider {
        let settings = Settings {
            name: "corp".into(),
            kind,
            redirect_uri: Endpoint::new("https://mcp.example/oauth/callback").unwrap(),
            scopes: Scopes::new(["openid"]).unwrap(),
            params: Params::default(),
            client_name: "vmcp".into(),
        };
        let nobody = service_fn(async |_: Request<Body>| {
            Ok::<_, Infallible>(Response::new(Full::<Bytes>::default()))
        });
        let registrations = Arc::new(MemoryRegistrations);
        let provider =
            Provider::new(settings.clone(), nobody, nobody, registrations, Clock::system());
        ObservedProvider::new(provider.unwrap(), &settings)
    }

    /// Otherwise the authorization server could not detect a mix-up of providers (RFC 9700 section 4.4).
    #[test]
    fn has_issuer_of_provider() {
        let client = || StaticClient::new("us", None).unwrap();
        let own = observed(Kind::Oidc(Box::new(Oidc {
            issuer: Issuer::new("https://id.example").unwrap(),
            client: client(),
            user_info: None,
        })));
        let plain = observed(Kind::Oauth2(Box::new(Oauth2 {
            authorization_endpoint: Endpoint::new("https://git.example/authorize").unwrap(),
            token_endpoint: Endpoint::new("https://git.example/token").unwrap(),
            client: Client::Static(client()),
            token_mapping: None,
            user_info: None,
        })));
        assert_eq!((own.issuer(), plain.issuer()), (Some("https://id.example"), None));
        for (observed, issuer, may_have_issuer) in [
            (&own, "https://id.example", true),
            (&own, "https://git.example", false),
            (&plain, "https://git.example", true),
            (&plain, "https://id.example", false),
        ] {
            assert_eq!(observed.may_have_issuer(issuer), may_have_issuer, "{observed:?} {issuer}");
        }
    }

    #[test]
    fn ignores_provider_errors_that_callers_can_cause() {
        let refused = |code: &str| ProviderError::Rejected {
            endpoint: EndpointKind::Token,
            code: code.into(),
        };
        for error in [
            ProviderError::Denied(AuthorizationDenied::Unavailable),
            ProviderError::Response(AuthorizationResponseError::WrongIssuer),
            refused("invalid_grant"),
        ] {
            assert_eq!(attributable_error(&error), None, "{error}");
        }
        let away = ProviderError::Unavailable {
            endpoint: EndpointKind::Token,
            cause: EndpointError::Unreachable,
        };
        for error in [away, refused("invalid_client"), ProviderError::ConfigMismatch("x")] {
            assert_eq!(attributable_error(&error), Some(error.to_string()));
        }
    }
}

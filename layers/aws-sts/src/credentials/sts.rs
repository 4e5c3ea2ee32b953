//! Client for AssumeRoleWithWebIdentity (AWS STS API reference) over a caller-supplied HTTP client.

mod http_client;
mod suppress_tracing;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use aws_sdk_sts::config::retry::RetryConfig;
use aws_sdk_sts::config::timeout::TimeoutConfig;
use aws_sdk_sts::config::{self, IdentityCache, StalledStreamProtectionConfig};
use aws_sdk_sts::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_sts::operation::assume_role_with_web_identity::{
    AssumeRoleWithWebIdentityError, AssumeRoleWithWebIdentityOutput,
};
use http::Uri;
use secrecy::{ExposeSecret, SecretString};
use vmcp_core::HttpClient;

use self::{http_client::client, suppress_tracing::SuppressTracing};
use crate::{AssumeError, AssumeRole, Credentials, Region, RoleSession};

/// Default of [`Sts::timeout`].
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum length of `WebIdentityToken` in the STS API.
const MAX_TOKEN_LEN: usize = 20_000;

/// Error codes that are copied to [`AssumeError::Rejected`]. Other codes are replaced by a fixed text.
const REJECTION_CODES: [&str; 10] = [
    "AccessDenied",
    "AccessDeniedException",
    "ExpiredTokenException",
    "IDPRejectedClaim",
    "InvalidAction",
    "InvalidIdentityToken",
    "MalformedPolicyDocument",
    "PackedPolicyTooLarge",
    "RegionDisabledException",
    "ValidationError",
];

/// AWS STS client. Each call of [`AssumeRole::assume`] sends a request; wrap the client in a
/// [`CredentialCache`](crate::CredentialCache).
///
/// The request is unsigned and authenticated by the caller's token only. Credentials in environment variables, files or
/// instance metadata are never read. Responses are limited to 64 KiB, failed requests are not retried, and requests and
/// responses are not logged.
#[derive(Clone, Debug)]
pub struct Sts {
    client: aws_sdk_sts::Client,
    timeout: Duration,
}

// === impl Sts ===

impl Sts {
    /// Creates a client for the regional STS endpoint. `client` sends the requests, so that its connection pool, TLS
    /// roots and address rules apply.
    #[must_use]
    pub fn new(region: &Region, client: impl Into<HttpClient>) -> Self {
        Self::build(region, None, client)
    }

    /// Creates a client for another endpoint, such as a VPC endpoint or an emulator.
    #[must_use]
    pub fn with_endpoint(endpoint: &Uri, region: &Region, client: impl Into<HttpClient>) -> Self {
        Self::build(region, Some(endpoint.to_string()), client)
    }

    /// Sets the timeout of a call. The default is 10 seconds.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    fn build(region: &Region, endpoint: Option<String>, over: impl Into<HttpClient>) -> Self {
        let mut settings = aws_sdk_sts::Config::builder()
            .region(config::Region::new(region.as_str().to_owned()))
            .http_client(client(over.into()))
            .identity_cache(IdentityCache::no_cache())
            .retry_config(RetryConfig::disabled())
            .timeout_config(TimeoutConfig::disabled())
            .stalled_stream_protection(StalledStreamProtectionConfig::disabled());
        settings.set_endpoint_url(endpoint);
        let client = aws_sdk_sts::Client::from_conf(settings.build());
        Self { client, timeout: DEFAULT_TIMEOUT }
    }
}

impl AssumeRole for Sts {
    async fn assume(
        &self,
        role_session: &Arc<RoleSession>,
        token: &SecretString,
    ) -> Result<Arc<Credentials>, AssumeError> {
        let token = token.expose_secret();
        if !(4..=MAX_TOKEN_LEN).contains(&token.len()) {
            return Err(rejected("the token is shorter or longer than STS takes"));
        }
        let request = self
            .client
            .assume_role_with_web_identity()
            .role_arn(role_session.role().as_str())
            .role_session_name(role_session.session().as_str())
            .duration_seconds(role_session.duration().seconds().try_into().unwrap_or(i32::MAX))
            .web_identity_token(token)
            .send();
        let response =
            tokio::time::timeout(self.timeout, SuppressTracing::new(Box::pin(request))).await;
        match response {
            Ok(Ok(output)) => parse_credentials(output).map(Arc::new),
            Ok(Err(error)) => Err(to_assume_error(&error)),
            Err(_) => Err(AssumeError::Unavailable { reason: "STS did not answer in time" }),
        }
    }
}

fn parse_credentials(output: AssumeRoleWithWebIdentityOutput) -> Result<Credentials, AssumeError> {
    let malformed = AssumeError::Unavailable { reason: "STS answered without usable credentials" };
    let credentials = output.credentials.ok_or_else(|| malformed.clone())?;
    // The SDK returns 0 if the response has no `Expiration`.
    let expires = u64::try_from(credentials.expiration.secs()).ok().filter(|seconds| *seconds > 0);
    let expires = Duration::from_secs(expires.ok_or_else(|| malformed.clone())?);
    let expires_at =
        SystemTime::UNIX_EPOCH.checked_add(expires).ok_or_else(|| malformed.clone())?;
    let secret = SecretString::from(credentials.secret_access_key);
    let token = SecretString::from(credentials.session_token);
    Credentials::new(&credentials.access_key_id, &secret, &token, expires_at).map_err(|_| malformed)
}

fn to_assume_error(error: &SdkError<AssumeRoleWithWebIdentityError>) -> AssumeError {
    let unavailable = |reason| AssumeError::Unavailable { reason };
    match error {
        SdkError::ServiceError(response) => {
            let code = response.err().code().unwrap_or_default();
            match response.raw().status().as_u16() {
                _ if code == "IDPCommunicationError" => {
                    unavailable("STS does not reach the identity provider")
                }
                _ if code.contains("Throttl") || code == "RequestLimitExceeded" => {
                    unavailable("STS is asked too often")
                }
                400 | 403 => REJECTION_CODES
                    .into_iter()
                    .find(|known| *known == code)
                    .map_or_else(|| rejected("STS gave an unknown reason"), rejected),
                429 => unavailable("STS is asked too often"),
                200..300 => unavailable("STS gave an answer that cannot be read"),
                _ => unavailable("STS failed"),
            }
        }
        SdkError::ResponseError(_) => unavailable("STS gave an answer that cannot be read"),
        SdkError::DispatchFailure(_) | SdkError::TimeoutError(_) => {
            unavailable("STS cannot be reached")
        }
        _ => unavailable("STS could not be asked"),
    }
}

fn rejected(code: &str) -> AssumeError {
    AssumeError::Rejected { code: code.into() }
}

#[cfg(test)]
mod tests;

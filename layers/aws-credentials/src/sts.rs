//! AssumeRoleWithWebIdentity (AWS STS API reference), over somebody else's HTTP client.

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

/// How long STS may take, unless [`Sts::timeout`] says otherwise.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest web identity token that STS takes, in characters.
const MAX_TOKEN_LEN: usize = 20_000;

/// Codes of the STS API that say that the caller is not accepted; others are not passed on.
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

/// Asks AWS STS for credentials, each time. Wrap it in a [`CredentialCache`](crate::Cached).
///
/// The call is unsigned: the caller's token is all that STS is shown. No credentials of the
/// environment, of a file or of the machine are ever looked for. An answer counts for 64 KiB at
/// most, there is no second try, and nothing of it is logged.
#[derive(Clone, Debug)]
pub struct Sts {
    client: aws_sdk_sts::Client,
    timeout: Duration,
}

// === impl Sts ===

impl Sts {
    /// Asks the STS of `region`, at the endpoint that AWS documents for it, over `client`, whose
    /// connections, roots and rules about addresses apply.
    #[must_use]
    pub fn new(region: &Region, client: impl Into<HttpClient>) -> Self {
        Self::build(region, None, client)
    }

    /// Like [`new`](Self::new), at another endpoint: one inside of a private network, or a stand-in.
    #[must_use]
    pub fn with_endpoint(endpoint: &Uri, region: &Region, client: impl Into<HttpClient>) -> Self {
        Self::build(region, Some(endpoint.to_string()), client)
    }

    /// How long STS may take for an answer: 10 seconds otherwise.
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
    // The SDK puts 0 where there is none.
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

//! Request signing with Signature Version 4 (AWS IAM User Guide, "AWS API request signing").

use std::str;
use std::time::SystemTime;

use aws_sigv4::http_request::{
    self, PayloadChecksumKind, SignableBody, SignableRequest, SigningSettings,
};
use aws_sigv4::sign::v4::SigningParams;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use http::request::Parts;
use http::uri::{Authority, Scheme};
use http::{HeaderName, HeaderValue, Uri};
use vmcp_core::BoxError;

use crate::{Credentials, Region, ServiceName};

const DATE: HeaderName = HeaderName::from_static("x-amz-date");
const SECURITY_TOKEN: HeaderName = HeaderName::from_static("x-amz-security-token");
const CONTENT_SHA256: HeaderName = HeaderName::from_static("x-amz-content-sha256");

/// Failure to sign a request. The request is not sent.
#[derive(Debug, thiserror::Error)]
pub enum SigningError {
    /// The body is larger than 10 MiB.
    #[error("a request of more than {limit} bytes cannot be signed")]
    TooLarge {
        /// Maximum size in bytes.
        limit: usize,
    },
    /// The body ended with an error.
    #[error("the request's body broke off")]
    Truncated(#[source] BoxError),
    /// The body did not end before the timeout.
    #[error("the request's body did not end in time")]
    TimedOut,
    /// Neither the URI nor the `Host` header contains a host.
    #[error("the request does not say which host it goes to")]
    NoHost,
    /// The request target or a header has no canonical form for the signature.
    #[error("the request's target or headers cannot be signed")]
    Malformed(#[source] BoxError),
}

impl Credentials {
    /// Signs the request of `parts` and `body` for the given region and service. Replaces `Host`, `Authorization` and
    /// the `X-Amz-*` headers of the signature.
    ///
    /// # Errors
    /// Returns [`SigningError::NoHost`] or [`SigningError::Malformed`].
    pub fn sign(
        &self,
        parts: &mut Parts,
        body: &[u8],
        (region, service): (&Region, &ServiceName),
        now: SystemTime,
    ) -> Result<(), SigningError> {
        // Signature headers of the incoming request must not reach the service.
        for header in [AUTHORIZATION, DATE, SECURITY_TOKEN, CONTENT_SHA256] {
            parts.headers.remove(header);
        }
        let host = host(parts)?;
        let target = format!("https://{}{}", host, path(&parts.uri));
        parts.headers.insert(HOST, map_malformed(HeaderValue::from_str(&host))?);

        let mut settings = SigningSettings::default();
        settings.payload_checksum_kind = PayloadChecksumKind::XAmzSha256;
        let settings = SigningParams::builder()
            .identity(self.signing())
            .region(region.as_str())
            .name(service.as_str())
            .time(now)
            .settings(settings)
            .build();
        let settings = map_malformed(settings)?.into();
        let headers =
            parts.headers.iter().filter(|(name, _)| is_signed_header(name)).filter_map(header_text);
        let method = parts.method.as_str();
        let request = SignableRequest::new(method, target, headers, SignableBody::Bytes(body));
        let output = map_malformed(http_request::sign(map_malformed(request)?, &settings))?;
        let (signed_headers, _) = output.into_parts().0.into_parts();
        for header in signed_headers {
            let mut value = map_malformed(HeaderValue::from_str(header.value()))?;
            value.set_sensitive(
                header.sensitive() || header.name().eq_ignore_ascii_case("authorization"),
            );
            let name = map_malformed(HeaderName::from_bytes(header.name().as_bytes()))?;
            parts.headers.insert(name, value);
        }
        Ok(())
    }
}

/// Returns `true` for headers that the signature covers: those that AWS requires, and those that select the operation.
/// Proxies may change the others.
fn is_signed_header(name: &HeaderName) -> bool {
    let text = name.as_str();
    name == HOST || name == CONTENT_TYPE || text.starts_with("x-amz-") || text.starts_with("mcp-")
}

/// Returns the header as text. The signature omits values that are not UTF-8, none of which AWS requires.
fn header_text<'a>((name, value): (&'a HeaderName, &'a HeaderValue)) -> Option<(&'a str, &'a str)> {
    Some((name.as_str(), str::from_utf8(value.as_bytes()).ok()?))
}

/// Returns the value of the `Host` header to send: lowercase, without user information and without the scheme's default
/// port.
fn host(parts: &Parts) -> Result<String, SigningError> {
    let default = if parts.uri.scheme() == Some(&Scheme::HTTP) { 80 } else { 443 };
    let from_uri = |authority: &Authority| match authority.port_u16() {
        Some(port) if port != default => format!("{}:{port}", authority.host()),
        _ => authority.host().to_owned(),
    };
    let from_header =
        || parts.headers.get(HOST).and_then(|host| host.to_str().ok()).map(str::to_owned);
    let host = parts.uri.authority().map(from_uri).or_else(from_header);
    host.filter(|host| !host.is_empty())
        .map(|host| host.to_ascii_lowercase())
        .ok_or(SigningError::NoHost)
}

fn path(uri: &Uri) -> &str {
    uri.path_and_query().map_or("/", |path| path.as_str())
}

fn map_malformed<T, E: Into<BoxError>>(outcome: Result<T, E>) -> Result<T, SigningError> {
    outcome.map_err(|error| SigningError::Malformed(error.into()))
}

#[cfg(test)]
mod tests;

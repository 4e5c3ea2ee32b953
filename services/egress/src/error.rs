//! Errors of exchanges and of configuration.

use std::{io, path::PathBuf};

use rustls::CertificateError;
use vmcp_core::BoxError;

use crate::{AddressPolicy, Origin};

/// Error of an exchange.
///
/// Messages contain no user info, path or query of a URL.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The name has no address that the [`AddressPolicy`] allows.
    #[error("{origin} has no {}", if *.policy == AddressPolicy::PublicOnly { "public address; private and reserved addresses are not allowed" } else { "public or private address; those of this machine, link-local and reserved ones are not allowed" })]
    AddressRefused {
        /// Policy of the client.
        policy: AddressPolicy,
        /// Origin of the request.
        origin: Origin,
    },
    /// The response body exceeds the limit.
    #[error("the response body exceeds {limit} bytes")]
    BodyTooLarge {
        /// Limit in bytes.
        limit: u64,
    },
    /// The connection ended before the response was complete.
    #[error("the backend closed the connection {}", if *.sent { "before the response was complete" } else { "before the request was sent" })]
    Closed {
        /// `true` if a byte of the request may have been written.
        sent: bool,
        /// Error of the connection.
        #[source]
        source: Option<BoxError>,
    },
    /// The connection could not be established.
    #[error("failed to connect to {origin}: {cause}")]
    Connect {
        /// Origin of the request.
        origin: Origin,
        /// Step that failed.
        cause: ConnectCause,
        /// Error of the operating system.
        #[source]
        source: io::Error,
    },
    /// Resolution, connecting or the TLS handshake timed out.
    #[error("failed to connect to {origin}: timed out")]
    ConnectTimeout {
        /// Origin of the request.
        origin: Origin,
    },
    /// All connections were in use for as long as a request may wait.
    #[error("all {limit} connections to {origin} are in use")]
    Overloaded {
        /// Origin of the request.
        origin: Origin,
        /// Maximum number of concurrent exchanges.
        limit: usize,
    },
    /// The response is not valid HTTP, or not of the expected version.
    #[error("the backend sent invalid HTTP: {reason}")]
    Protocol {
        /// Reason.
        reason: &'static str,
        /// Error of the parser.
        #[source]
        source: Option<BoxError>,
    },
    /// The backend sent a redirect that [`Redirect`](crate::Redirect) does not follow.
    #[error("the backend redirects{}, which is not followed: {reason}", .to.as_ref().map(|to| format!(" to {to}")).unwrap_or_default())]
    Redirected {
        /// Origin of the redirect, if it is known.
        to: Option<Origin>,
        /// Rule that the redirect violates.
        reason: &'static str,
    },
    /// The TLS handshake failed.
    #[error("the TLS handshake with {origin} failed: {source}{}", remedy(source, *.has_leaf))]
    Tls {
        /// Origin of the request.
        origin: Origin,
        /// Cause: the certificate, the protocol version, or a peer without TLS.
        #[source]
        source: BoxError,
        /// `true` if the CA bundle has a certificate that cannot sign others.
        has_leaf: bool,
    },
    /// The request is for another origin. Error of the caller.
    #[error("the request is for another origin; this client is for {origin}")]
    WrongOrigin {
        /// Origin of the client.
        origin: Origin,
    },
}

/// Returns the change that fixes a failed handshake, if its cause is known.
fn remedy(source: &BoxError, has_leaf: bool) -> &'static str {
    let rustls_error = |error: &io::Error| {
        error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()).cloned()
    };
    let error = source.downcast_ref::<io::Error>().and_then(rustls_error);
    let error = error.or_else(|| source.downcast_ref::<rustls::Error>().cloned());
    match error {
        Some(rustls::Error::InvalidMessage(_)) => {
            ": the server responds without TLS, plain HTTP on an https URL; use http:// in the URL"
        }
        Some(rustls::Error::InvalidCertificate(error)) => match error {
            CertificateError::UnknownIssuer | CertificateError::BadSignature if has_leaf => {
                ": the CA bundle holds an end-entity certificate, which cannot sign others; add the certificate of the \
                                 authority that signed the server's"
            }
            // An authority of the same name with another key yields a bad signature.
            CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                ": no trusted authority has signed the certificate; configure a CA bundle with the certificate of \
                                 its authority, not with the server's own"
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                ": renew the certificate of the server, or set the clock"
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                ": use a host name in the URL that the certificate is for"
            }
            // The library has no variant for a server that uses the certificate of an authority as
            // its own.
            CertificateError::Other(other) if other.to_string() == "CaUsedAsEndEntity" => {
                ": the server uses the certificate of an authority as its own; give it a certificate that is signed by an \
                                 authority"
            }
            _ => "",
        },
        _ => "",
    }
}

/// Step of connecting that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectCause {
    /// The name has no address.
    #[error("failed to resolve the name")]
    Dns,
    /// The peer refused the connection.
    #[error("connection refused")]
    Refused,
    /// No route, or another network failure.
    #[error("unreachable")]
    Unreachable,
}

/// Error of a client's configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The CA bundle has no certificate.
    #[error("the CA bundle {} contains no certificate", .path.display())]
    CaBundleEmpty {
        /// Path of the file.
        path: PathBuf,
    },
    /// The CA bundle is not PEM, or has a malformed certificate.
    #[error("the CA bundle {} is invalid: {reason}; it must be a list of PEM certificates", .path.display())]
    CaBundleInvalid {
        /// Path of the file.
        path: PathBuf,
        /// Reason.
        reason: String,
    },
    /// The CA bundle cannot be read.
    #[error("failed to read the CA bundle {}: {source}", .path.display())]
    CaBundleUnreadable {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        #[source]
        source: io::Error,
    },
    /// The URL has no host.
    #[error("the URL has no host")]
    NoHost,
    /// The scheme of the URL is neither `http` nor `https`.
    #[error("the URL has the scheme {found:?}; it must be http or https")]
    Scheme {
        /// Scheme of the URL.
        found: String,
    },
    /// The URL contains user info.
    #[error("the URL contains user info, which is not sent; configure a credential instead")]
    UserInfo,
}

impl Error {
    /// Returns a short name for logs and metrics that is stable across releases.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::AddressRefused { .. } => "address_refused",
            Self::BodyTooLarge { .. } => "body_too_large",
            Self::Closed { .. } => "closed",
            Self::Connect { .. } => "connect",
            Self::ConnectTimeout { .. } => "connect_timeout",
            Self::Overloaded { .. } => "overloaded",
            Self::Protocol { .. } => "protocol",
            Self::Redirected { .. } => "redirected",
            Self::Tls { .. } => "tls",
            Self::WrongOrigin { .. } => "wrong_origin",
        }
    }

    /// Returns whether no connection was established.
    #[must_use]
    pub fn is_connect(&self) -> bool {
        match self {
            Self::AddressRefused { .. }
            | Self::Connect { .. }
            | Self::ConnectTimeout { .. }
            | Self::Tls { .. } => true,
            Self::BodyTooLarge { .. }
            | Self::Closed { .. }
            | Self::Overloaded { .. }
            | Self::Protocol { .. }
            | Self::Redirected { .. }
            | Self::WrongOrigin { .. } => false,
        }
    }

    /// Returns whether a byte of the request may have reached the backend. If so, the backend may
    /// have processed it, and the request must not be repeated.
    #[must_use]
    pub fn sent(&self) -> bool {
        match self {
            Self::Closed { sent, .. } => *sent,
            Self::BodyTooLarge { .. } | Self::Protocol { .. } | Self::Redirected { .. } => true,
            Self::AddressRefused { .. }
            | Self::Connect { .. }
            | Self::ConnectTimeout { .. }
            | Self::Overloaded { .. }
            | Self::Tls { .. }
            | Self::WrongOrigin { .. } => false,
        }
    }

    /// Classifies an error of hyper after the request may have been written.
    pub(crate) fn after_sending(source: hyper::Error) -> Self {
        Self::from_hyper(source, true)
    }

    pub(crate) fn from_hyper(source: hyper::Error, sent: bool) -> Self {
        let reason = if source.is_parse_too_large() {
            "the response head is too large"
        } else if source.is_parse() {
            "the response is malformed"
        } else {
            return Self::Closed { sent, source: Some(source.into()) };
        };
        Self::Protocol { reason, source: Some(source.into()) }
    }
}

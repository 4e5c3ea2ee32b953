//! What can go wrong, who is at fault, and whether the backend may have acted.

use std::{io, path::PathBuf};

use rustls::CertificateError;
use vmcp_core::BoxError;

use crate::Origin;

/// Why an exchange failed.
///
/// No message contains user info, a path or a query of a URL.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The name resolves to no address that [`AddressPolicy::PublicOnly`](crate::AddressPolicy)
    /// admits.
    #[error("{origin} has no public address; private and reserved addresses are not connected to")]
    AddressRefused {
        /// Where the request was to go.
        origin: Origin,
    },
    /// The response's body is longer than the client accepts.
    #[error("the response body is longer than {limit} bytes")]
    BodyTooLarge {
        /// The cap in bytes.
        limit: u64,
    },
    /// The connection ended before the whole response had arrived.
    #[error("the backend closed the connection {}", if *.sent { "before the response was complete" } else { "before the request was sent" })]
    Closed {
        /// Whether a byte of the request may have been written.
        sent: bool,
        /// What the connection reported.
        #[source]
        source: Option<BoxError>,
    },
    /// No connection could be made.
    #[error("cannot connect to {origin}: {cause}")]
    Connect {
        /// Where the request was to go.
        origin: Origin,
        /// Which step failed.
        cause: ConnectCause,
        /// What the operating system reported.
        #[source]
        source: io::Error,
    },
    /// Resolution, connecting or the TLS handshake took too long.
    #[error("connecting to {origin} took too long")]
    ConnectTimeout {
        /// Where the request was to go.
        origin: Origin,
    },
    /// All connections were in use for as long as a request may wait.
    #[error("all {limit} connections to {origin} are in use")]
    Overloaded {
        /// Where the request was to go.
        origin: Origin,
        /// How many exchanges may run at the same time.
        limit: usize,
    },
    /// The backend answered something that is not the HTTP that was asked for.
    #[error("the backend does not speak valid HTTP: {reason}")]
    Protocol {
        /// What is wrong with it.
        reason: &'static str,
        /// What the parser reported.
        #[source]
        source: Option<BoxError>,
    },
    /// The backend redirects to where [`Redirect`](crate::Redirect) doesn't follow.
    #[error("the backend redirects{} and this is not followed: {reason}", .to.as_ref().map(|to| format!(" to {to}")).unwrap_or_default())]
    Redirected {
        /// The origin it redirects to, if it named one.
        to: Option<Origin>,
        /// Which rule stands against it.
        reason: &'static str,
    },
    /// The TLS handshake failed.
    #[error("the TLS handshake with {origin} failed: {source}{}", remedy(source, *.has_leaf))]
    Tls {
        /// Where the request was to go.
        origin: Origin,
        /// What was wrong: the certificate, the protocol version, or the peer is no TLS server.
        #[source]
        source: BoxError,
        /// Whether the CA bundle holds a certificate that cannot sign others.
        has_leaf: bool,
    },
    /// The request was given to a client of another origin. A mistake of the caller.
    #[error("this client sends to {origin} only")]
    WrongOrigin {
        /// The client's origin.
        origin: Origin,
    },
}

/// What to change after a failed handshake, where its cause tells.
fn remedy(source: &BoxError, has_leaf: bool) -> &'static str {
    let rustls_error = |error: &io::Error| {
        error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()).cloned()
    };
    let error = source.downcast_ref::<io::Error>().and_then(rustls_error);
    let error = error.or_else(|| source.downcast_ref::<rustls::Error>().cloned());
    match error {
        Some(rustls::Error::InvalidMessage(_)) => {
            ": the server answers without TLS, plain HTTP on an https URL; use http:// in the URL"
        }
        Some(rustls::Error::InvalidCertificate(error)) => match error {
            CertificateError::UnknownIssuer | CertificateError::BadSignature if has_leaf => {
                ": the CA bundle holds an end-entity certificate, which signs no other; put the certificate of the \
                 authority that has signed the server's into it"
            }
            // An authority of the same name with another key signs badly.
            CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                ": no trusted authority has signed the certificate; configure a CA bundle with the certificate of \
                 its authority, not with its own"
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                ": renew the certificate of the server, or set the clock"
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                ": use a host name in the URL that the certificate is for"
            }
            // What the library has no variant for: a server that shows the certificate of an authority as its own.
            CertificateError::Other(other) if other.to_string() == "CaUsedAsEndEntity" => {
                ": the server uses the certificate of an authority as its own; give it a certificate that an authority \
                 has signed"
            }
            _ => "",
        },
        _ => "",
    }
}

/// Which step of connecting failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectCause {
    /// The name has no address.
    #[error("the name cannot be resolved")]
    Dns,
    /// Nobody listens there.
    #[error("connection refused")]
    Refused,
    /// No route, or another failure of the network.
    #[error("unreachable")]
    Unreachable,
}

/// Why a client cannot be made from its configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The CA bundle has no certificate in it.
    #[error("the CA bundle {} contains no certificate", .path.display())]
    CaBundleEmpty {
        /// The file.
        path: PathBuf,
    },
    /// The CA bundle isn't PEM, or a certificate in it is malformed.
    #[error("the CA bundle {} is not a list of PEM certificates: {reason}", .path.display())]
    CaBundleInvalid {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The CA bundle cannot be read.
    #[error("the CA bundle {} cannot be read: {source}", .path.display())]
    CaBundleUnreadable {
        /// The file.
        path: PathBuf,
        /// What the operating system reported.
        #[source]
        source: io::Error,
    },
    /// The URL names no host.
    #[error("the URL has no host")]
    NoHost,
    /// The URL's scheme is neither `http` nor `https`.
    #[error("the URL's scheme is {found:?}; it must be http or https")]
    Scheme {
        /// The scheme that was given.
        found: String,
    },
    /// The URL contains user info.
    #[error("the URL contains user info, which is not sent; configure a credential instead")]
    UserInfo,
}

impl Error {
    /// A short name for logs and metrics that stays the same across releases.
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

    /// Whether no connection came about.
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

    /// Whether a byte of the request may have reached the backend: if so, the backend may have
    /// acted on it, and the request must not be sent again.
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

    /// Classifies what hyper reported after the request may have been written.
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

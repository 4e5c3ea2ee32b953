//! Errors of logins, refreshes and revocations.

use std::fmt;

use vmcp_jwt::VerifyError;

/// Error of a login, a refresh or a revocation. Contains no text of the provider, so it may be
/// logged. [`hint`](Self::hint) is the message for browsers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProviderError {
    /// An endpoint of the provider gave no usable response; a retry may succeed.
    #[error("{endpoint} {cause}")]
    Unavailable {
        /// Endpoint.
        endpoint: EndpointKind,
        /// Cause.
        cause: EndpointError,
    },
    /// An endpoint of the provider responded with an OAuth error.
    #[error("{endpoint} rejected the request: {code}")]
    Rejected {
        /// Endpoint.
        endpoint: EndpointKind,
        /// Error code (RFC 6749 section 5.2, RFC 7591 section 3.2.2), or a constant; never a
        /// description.
        code: Box<str>,
    },
    /// The provider redirected the browser without a code.
    #[error(transparent)]
    Denied(AuthorizationDenied),
    /// The provider contradicts the configuration, or lacks a required feature.
    #[error("the provider does not match the configuration: {0}")]
    ConfigMismatch(&'static str),
    /// The authorization response does not belong to this login.
    #[error(transparent)]
    Response(#[from] AuthorizationResponseError),
    /// The provider reports no user, or not reliably.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The registration store failed; a retry may succeed.
    #[error("failed to read or write the registration at the provider")]
    RegistrationStore,
    /// The system has no random numbers.
    #[error("failed to read random numbers from the system")]
    RandomUnavailable,
}

/// Endpoint of a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EndpointKind {
    /// Discovery document.
    Discovery,
    /// Key set.
    Keys,
    /// Token endpoint.
    Token,
    /// Userinfo endpoint.
    UserInfo,
    /// Registration endpoint.
    Registration,
    /// Revocation endpoint.
    RevocationOutcome,
}

/// Reason that an endpoint gave no usable response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum EndpointError {
    /// The connection failed, or the address policy denies the address.
    #[error("is unreachable")]
    Unreachable,
    /// No response within the timeout.
    #[error("did not respond within the timeout")]
    Timeout,
    /// The response was cut off.
    #[error("cut off its response")]
    Aborted,
    /// The response exceeds 1 MiB.
    #[error("sent a response of more than 1 MiB")]
    TooLarge,
    /// Redirect, which is not followed: it would send a secret to another server.
    #[error("redirected the request")]
    Redirected,
    /// Unexpected status.
    #[error("responded with status {0}")]
    Status(u16),
    /// Temporary error that the endpoint reports itself.
    #[error("reported an internal error")]
    ServerError,
    /// The response is not JSON, for example an HTML page.
    #[error("did not respond with JSON")]
    NotJson,
    /// Required members are missing or malformed.
    #[error("sent a malformed response")]
    Malformed,
    /// The access token is missing or cannot be sent in a header.
    #[error("sent no usable access token")]
    NoToken,
    /// The token is not a bearer token.
    #[error("sent a token of a type other than Bearer")]
    WrongTokenType,
}

/// Reason that a provider redirected the browser without a code, according to its error code (RFC
/// 6749 section 4.1.2.1, OpenID Connect Core 1.0 section 3.1.2.6). Other text of the provider is
/// dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum AuthorizationDenied {
    /// The user cancelled, or the provider denied access.
    #[error("the login was cancelled or denied at the provider")]
    AccessDenied,
    /// The provider is temporarily unavailable.
    #[error("the provider cannot process logins at the moment")]
    Unavailable,
    /// The provider rejected the request or the client.
    #[error("the provider rejected the authorization request")]
    InvalidRequest,
}

/// Reason that an authorization response does not belong to a login.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum AuthorizationResponseError {
    /// The provider sends `iss` in all responses, and this one has none (RFC 9207 section 2.4).
    #[error("the authorization response has no issuer")]
    MissingIssuer,
    /// The response is of another provider: a mix-up (RFC 9207 section 2.4).
    #[error("the authorization response is of another issuer")]
    WrongIssuer,
    /// The code is empty or too long.
    #[error("the authorization response has no usable code")]
    InvalidCode,
    /// The login started too long ago.
    #[error("the login has expired")]
    Expired,
    /// The login started at the provider that had this name before.
    #[error("the login started at another provider of this name")]
    OtherProvider,
    /// The login started with a client that this server no longer has.
    #[error("the login started with a client that no longer exists")]
    OtherClient,
}

/// Reason that the user cannot be identified.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdentityError {
    /// The token response has no ID token.
    #[error("the provider sent no ID token")]
    MissingIdToken,
    /// The ID token is invalid.
    #[error("the ID token is invalid: {0}")]
    InvalidIdToken(VerifyError),
    /// `nonce` is missing or belongs to another login: the token was injected or replayed.
    #[error("the ID token belongs to another login")]
    WrongNonce,
    /// `azp` is missing or names another client (OpenID Connect Core 1.0 section 3.1.3.7).
    #[error("the ID token was issued to another client")]
    WrongAuthorizedParty,
    /// `at_hash` does not match the access token (OpenID Connect Core 1.0 section 3.1.3.8).
    #[error("the ID token belongs to another access token")]
    WrongAccessTokenHash,
    /// The userinfo response is of another user (OpenID Connect Core 1.0 section 5.3.2).
    #[error("the userinfo response is of another user")]
    OtherUser,
    /// The subject is missing, empty, longer than 255 bytes or has control characters.
    #[error("the provider reports no usable subject")]
    MissingSubject,
}

/// Party that can resolve a [`ProviderError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FaultParty {
    /// The browser or its user: a new login is required.
    Browser,
    /// The provider or the network: a retry may succeed.
    Provider,
    /// The operator, who has to change the configuration here or at the provider.
    Operator,
}

/// Error of a token refresh.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RefreshError {
    /// The grant has ended: the user has to log in at the provider again.
    #[error("the provider's grant has ended")]
    GrantEnded,
    /// Temporary error: keep the tokens and retry later.
    #[error("failed to refresh the tokens: {0}")]
    Temporary(ProviderError),
    /// The new tokens belong to another user: neither they nor the old ones may be used.
    #[error("the refreshed tokens belong to another user")]
    SubjectChanged,
}

// === impl AuthorizationDenied ===

impl AuthorizationDenied {
    /// Classifies the parameter `error`. Unknown codes count as a denial: providers define their
    /// own codes for that.
    #[must_use]
    pub fn from_code(error: &str) -> Self {
        match error {
            "server_error" | "temporarily_unavailable" => Self::Unavailable,
            "invalid_request"
            | "unauthorized_client"
            | "unsupported_response_type"
            | "invalid_scope"
            | "invalid_target"
            | "invalid_request_uri"
            | "invalid_request_object"
            | "request_not_supported"
            | "request_uri_not_supported"
            | "registration_not_supported" => Self::InvalidRequest,
            _ => Self::AccessDenied,
        }
    }
}

// === impl ProviderError ===

impl ProviderError {
    pub(crate) fn at(endpoint: EndpointKind, cause: EndpointError) -> Self {
        Self::Unavailable { endpoint, cause }
    }

    /// Returns the party that can resolve the error.
    #[must_use]
    pub fn fault_party(&self) -> FaultParty {
        match self {
            Self::Unavailable { endpoint, cause } => match (endpoint, cause) {
                (
                    _,
                    EndpointError::WrongTokenType
                    | EndpointError::Redirected
                    | EndpointError::Status(401 | 403),
                )
                | (EndpointKind::Discovery, EndpointError::Status(404) | EndpointError::NotJson) => {
                    FaultParty::Operator
                }
                _ => FaultParty::Provider,
            },
            Self::Rejected { endpoint: EndpointKind::Token, code }
                if &**code == "invalid_grant" =>
            {
                FaultParty::Browser
            }
            Self::Rejected { .. }
            | Self::ConfigMismatch(_)
            | Self::Denied(AuthorizationDenied::InvalidRequest) => FaultParty::Operator,
            Self::Response(_) | Self::Denied(AuthorizationDenied::AccessDenied) => {
                FaultParty::Browser
            }
            Self::Identity(error) => match error {
                IdentityError::InvalidIdToken(VerifyError::Keys(_)) => FaultParty::Provider,
                IdentityError::InvalidIdToken(VerifyError::Token(_))
                | IdentityError::MissingIdToken
                | IdentityError::MissingSubject => FaultParty::Operator,
                IdentityError::WrongNonce
                | IdentityError::WrongAuthorizedParty
                | IdentityError::WrongAccessTokenHash
                | IdentityError::OtherUser => FaultParty::Browser,
            },
            Self::Denied(AuthorizationDenied::Unavailable)
            | Self::RegistrationStore
            | Self::RandomUnavailable => FaultParty::Provider,
        }
    }

    /// Returns the OAuth error code for the client of the login (RFC 6749 section 4.1.2.1).
    #[must_use]
    pub fn error(&self) -> &'static str {
        match (self, self.fault_party()) {
            (Self::RegistrationStore | Self::RandomUnavailable, _) | (_, FaultParty::Operator) => {
                "server_error"
            }
            (_, FaultParty::Browser) => "access_denied",
            (_, FaultParty::Provider) => "temporarily_unavailable",
        }
    }

    /// Returns the message for a browser, a constant.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match (self, self.fault_party()) {
            (Self::RegistrationStore | Self::RandomUnavailable, _) => {
                "This server cannot do this at the moment. Try again in a minute."
            }
            (Self::Denied(_), FaultParty::Browser) => {
                "The login was cancelled or denied at the identity provider. Log in again."
            }
            (_, FaultParty::Browser) => {
                "The identity provider's response does not belong to this login. Log in again."
            }
            (_, FaultParty::Provider) => {
                "The identity provider is unavailable at the moment. Try again in a minute."
            }
            (_, FaultParty::Operator) => {
                "The identity provider does not match the configuration of this server. Contact its operator."
            }
        }
    }
}

impl fmt::Display for EndpointKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Discovery => "the provider's metadata",
            Self::Keys => "the provider's key set",
            Self::Token => "the provider's token endpoint",
            Self::UserInfo => "the provider's userinfo endpoint",
            Self::Registration => "the provider's registration endpoint",
            Self::RevocationOutcome => "the provider's revocation endpoint",
        })
    }
}

//! Why a provider could not be asked, or what is wrong with its answers.

use std::fmt;

use vmcp_jwt::VerifyError;

/// Why a login, a refresh or a revocation failed. No text of the provider is in it, so it may be logged;
/// what a browser is told is [`hint`](Self::hint).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProviderError {
    /// A place of the provider gave no answer that can be used: trying again later may help.
    #[error("{endpoint} {cause}")]
    Unavailable {
        /// Which.
        endpoint: EndpointKind,
        /// What is wrong.
        cause: EndpointError,
    },
    /// A place of the provider answered with an OAuth error.
    #[error("{endpoint} refused: {code}")]
    Rejected {
        /// Which.
        endpoint: EndpointKind,
        /// The error's code (RFC 6749 section 5.2, RFC 7591 section 3.2.2), or fixed words; never a
        /// description.
        code: Box<str>,
    },
    /// The provider sent the browser back without a code.
    #[error(transparent)]
    Denied(AuthorizationDenied),
    /// The provider is not what the configuration says, or lacks what is needed.
    #[error("the provider does not fit the configuration: {0}")]
    ConfigMismatch(&'static str),
    /// The answer that the browser brought does not belong to this login.
    #[error(transparent)]
    Response(#[from] AuthorizationResponseError),
    /// The provider does not say who the user is, or not so that it can be believed.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// What this server keeps of its own registration cannot be read or written: trying again later helps.
    #[error("the registration at the provider cannot be read or kept")]
    RegistrationStore,
    /// The system has no randomness.
    #[error("the system has no randomness")]
    RandomUnavailable,
}

/// A place of a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EndpointKind {
    /// Its metadata.
    Discovery,
    /// Its keys.
    Keys,
    /// The token endpoint.
    Token,
    /// The userinfo endpoint.
    UserInfo,
    /// The registration endpoint.
    Registration,
    /// The revocation endpoint.
    RevocationOutcome,
}

/// What is wrong with a place that gives no usable answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum EndpointError {
    /// No connection, or an address that may not be reached.
    #[error("cannot be reached")]
    Unreachable,
    /// No answer in time.
    #[error("did not answer in time")]
    Timeout,
    /// The answer broke off.
    #[error("broke off its answer")]
    Aborted,
    /// The answer is more than 1 MiB.
    #[error("answered at too great a length")]
    TooLarge,
    /// A redirect, which is not followed: it would carry a secret elsewhere.
    #[error("redirects")]
    Redirected,
    /// A status that says nothing else.
    #[error("answered with status {0}")]
    Status(u16),
    /// It says itself that it cannot answer now.
    #[error("reports a fault of its own")]
    ServerError,
    /// Something else than JSON, an HTML page for example.
    #[error("did not answer with JSON")]
    NotJson,
    /// JSON, but not with the members that it needs.
    #[error("gave a malformed answer")]
    Malformed,
    /// No access token, or one that no header can carry.
    #[error("gave no usable access token")]
    NoToken,
    /// A token that is no bearer token.
    #[error("gave a token that is no bearer token")]
    WrongTokenType,
}

/// Why a provider sent the browser back without a code, as far as its error's name says (RFC 6749 section
/// 4.1.2.1, OpenID Connect Core 1.0 section 3.1.2.6). What else it says is its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum AuthorizationDenied {
    /// The person cancelled, or the provider does not let them in.
    #[error("the login was cancelled or refused at the provider")]
    AccessDenied,
    /// The provider cannot do it at the moment.
    #[error("the provider cannot log anybody in at the moment")]
    Unavailable,
    /// The provider takes exception to what this server asks for, or to this server.
    #[error("the provider refused the authorization request")]
    InvalidRequest,
}

/// Why the answer that the browser brought does not belong to a login.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum AuthorizationResponseError {
    /// The provider says in all its answers who it is, and this one doesn't (RFC 9207 section 2.4).
    #[error("the answer does not say who gives it")]
    MissingIssuer,
    /// Another provider's answer: a mix-up (RFC 9207 section 2.4).
    #[error("the answer is another issuer's")]
    WrongIssuer,
    /// An empty or overlong code.
    #[error("the answer has no usable code")]
    InvalidCode,
    /// The login was begun too long ago.
    #[error("the login took too long")]
    Expired,
    /// The login was begun at the provider that had this name before.
    #[error("the login was begun at another provider of this name")]
    OtherProvider,
    /// The login was begun as a client that this server no longer is.
    #[error("the login was begun as a client that is no more")]
    OtherClient,
}

/// Why it is not known who the user is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdentityError {
    /// No id token came with the access token.
    #[error("the provider gave no id token")]
    MissingIdToken,
    /// The id token is not acceptable.
    #[error("the id token is refused: {0}")]
    InvalidIdToken(VerifyError),
    /// `nonce` is missing or another login's: the token was injected or replayed.
    #[error("the id token is not of this login")]
    WrongNonce,
    /// `azp` is missing or names another client (OpenID Connect Core 1.0 section 3.1.3.7).
    #[error("the id token was issued to another client")]
    WrongAuthorizedParty,
    /// `at_hash` is not the access token's (OpenID Connect Core 1.0 section 3.1.3.8).
    #[error("the id token belongs to another access token")]
    WrongAccessTokenHash,
    /// The userinfo endpoint speaks of another user (OpenID Connect Core 1.0 section 5.3.2).
    #[error("the userinfo endpoint speaks of another user")]
    OtherUser,
    /// No usable subject: missing, empty, longer than 255 bytes or with control characters.
    #[error("the provider does not say who the user is")]
    MissingSubject,
}

/// Who can do something about a [`ProviderError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FaultParty {
    /// Whoever brought the answer, or logged in: the login has to be begun anew.
    Browser,
    /// The provider, or the way there: later it may work.
    Provider,
    /// Whoever configured the provider here, or this server there.
    Operator,
}

/// Why tokens were not refreshed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RefreshError {
    /// The grant is over: only the user can give a new one, by logging in at the provider again.
    #[error("the provider's grant is over")]
    GrantEnded,
    /// Not now: the tokens should be kept, and trying again later helps.
    #[error("the tokens could not be refreshed: {0}")]
    Temporary(ProviderError),
    /// The new tokens are another user's: neither these nor the old ones may be used any more.
    #[error("the refreshed tokens are another user's")]
    SubjectChanged,
}

// === impl AuthorizationDenied ===

impl AuthorizationDenied {
    /// What the parameter `error` means. A name that no standard has is taken for a refusal, since that is
    /// what providers make up names for.
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

    /// Who can do something about it.
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

    /// What the client that began the login is answered (RFC 6749 section 4.1.2.1).
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

    /// What a browser may be told, in fixed words.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match (self, self.fault_party()) {
            (Self::RegistrationStore | Self::RandomUnavailable, _) => {
                "This server cannot do this at the moment. Try again in a minute."
            }
            (Self::Denied(_), FaultParty::Browser) => {
                "The login was cancelled or refused at the identity provider. Log in again."
            }
            (_, FaultParty::Browser) => {
                "The identity provider's answer is not of this login. Log in again."
            }
            (_, FaultParty::Provider) => {
                "The identity provider cannot be asked at the moment. Try again in a minute."
            }
            (_, FaultParty::Operator) => {
                "The identity provider and this server do not fit together. Tell whoever runs this server."
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

//! Verification errors.

use crate::KeySourceError;

/// The error of an invalid token. Messages are fixed and contain no part of the token, so that they can be sent to the
/// client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum TokenError {
    /// The token is longer than [`MAX_TOKEN_SIZE`](crate::MAX_TOKEN_SIZE).
    #[error("the token is too long")]
    TooLong,
    /// The token does not have three base64url parts, or is not valid JSON without duplicate members.
    #[error("the token is malformed")]
    Malformed,
    /// The token has more claims than [`MAX_CLAIMS`](crate::MAX_CLAIMS).
    #[error("the token has too many claims")]
    TooManyClaims,
    /// `alg` is not one of the allowed algorithms.
    #[error("the token's algorithm is not allowed")]
    Algorithm,
    /// `typ` or a claim marks another kind of token.
    #[error("the token is not an access token")]
    Type,
    /// The token has critical extensions (`crit`), which are not supported.
    #[error("the token needs an extension that is not supported")]
    Critical,
    /// The issuer has no key with this id for the algorithm.
    #[error("the token's key is unknown")]
    UnknownKey,
    /// The signature is wrong.
    #[error("the token's signature is wrong")]
    Signature,
    /// `iss` is not the configured issuer.
    #[error("the token is of another issuer")]
    Issuer,
    /// `aud` does not name this server.
    #[error("the token is for another audience")]
    Audience,
    /// `sub` is missing, empty or not a string.
    #[error("the token has no valid subject")]
    Subject,
    /// `exp` is missing or not a date.
    #[error("the token has no valid expiry")]
    Expiry,
    /// `exp` is in the past.
    #[error("the token has expired")]
    Expired,
    /// `nbf` is in the future.
    #[error("the token is not valid yet")]
    NotYetValid,
    /// `iat` is not a date, or in the future.
    #[error("the token was issued in the future")]
    IssuedInFuture,
    /// The token is bound to a key (`cnf`), and proof of possession is not supported.
    #[error("the token is bound to a key, which is not supported")]
    Bound,
}

/// The error of [`Verifier::verify`](crate::Verifier::verify).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    /// The token is invalid.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// The keys are unavailable. A retry may succeed.
    #[error(transparent)]
    Keys(#[from] KeySourceError),
}

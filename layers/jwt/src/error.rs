//! Why a token is not accepted.

use crate::KeySourceError;

/// What is wrong with a token. The words are fixed: nothing of the token is in them, so they can be
/// shown to its bearer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum TokenError {
    /// Longer than [`MAX_TOKEN_SIZE`](crate::MAX_TOKEN).
    #[error("the token is too long")]
    TooLong,
    /// Not three parts of base64url, JSON with duplicate members, or no JSON.
    #[error("the token is malformed")]
    Malformed,
    /// More claims than [`MAX_CLAIMS`](crate::MAX_CLAIMS).
    #[error("the token has too many claims")]
    TooManyClaims,
    /// `alg` is not one of the allowed algorithms.
    #[error("the token's algorithm is not allowed")]
    Algorithm,
    /// `typ` or a claim says that it is no access token.
    #[error("the token is not an access token")]
    Type,
    /// It has critical extensions (`crit`), and none is understood.
    #[error("the token needs an extension that is not supported")]
    Critical,
    /// The issuer has no such key for this algorithm.
    #[error("the token's key is unknown")]
    UnknownKey,
    /// The signature is not that key's.
    #[error("the token's signature is wrong")]
    Signature,
    /// `iss` is not the configured issuer.
    #[error("the token is of another issuer")]
    Issuer,
    /// `aud` does not name this server.
    #[error("the token is for another audience")]
    Audience,
    /// `sub` is missing, empty or no string.
    #[error("the token has no valid subject")]
    Subject,
    /// `exp` is missing or no date.
    #[error("the token has no valid expiry")]
    Expiry,
    /// Its time is over.
    #[error("the token has expired")]
    Expired,
    /// Its time has not come.
    #[error("the token is not valid yet")]
    NotYetValid,
    /// `iat` is no date, or one that is still to come.
    #[error("the token was issued in the future")]
    IssuedInFuture,
    /// It is bound to a key (`cnf`) whose possession is not checked here.
    #[error("the token is bound to a key, which is not supported")]
    Bound,
}

/// Why [`Verifier::verify`](crate::Verifier::verify) did not accept a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    /// The token is at fault.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// The keys to check it with cannot be had: trying again later helps.
    #[error(transparent)]
    Keys(#[from] KeySourceError),
}

//! Identity of the caller.

use std::borrow::Cow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, LazyLock, OnceLock};
use std::time::SystemTime;

use secrecy::SecretString;

use crate::identity_cache::{IdentityCacheEntry, IdentityCacheKey};
use crate::session_revocation::{RevocationFuture, SessionRevocation};
use crate::upstream::UpstreamTokens;
use crate::{Claims, Fingerprint};

/// Authenticated caller, or the anonymous one.
///
/// Two identities are equal if issuer and subject are, regardless of the token. Cloning costs a reference count. The `Debug`
/// form contains neither the token nor a claim besides the subject.
#[derive(Clone)]
pub struct Identity(Option<Arc<Inner>>);

struct Inner {
    issuer: Box<str>,
    subject: Box<str>,
    claims: Claims,
    token: Option<SecretString>,
    expires_at: Option<SystemTime>,
    upstream: Option<Arc<dyn UpstreamTokens>>,
    revocation: Option<Arc<dyn SessionRevocation>>,
    cached: OnceLock<IdentityCacheEntry>,
    credential_key: OnceLock<Fingerprint>,
}

/// Claims that differ between tokens of the same grant (RFC 7519 section 4.1; OpenID Connect
/// Core sections 2 and 3.3.2.11).
const PER_TOKEN_CLAIMS: [&str; 8] =
    ["iat", "exp", "nbf", "jti", "auth_time", "nonce", "at_hash", "c_hash"];

/// Builder of an [`Identity`].
#[must_use]
pub struct IdentityBuilder(Inner);

/// Party on whose behalf a request to a backend is sent, in the extensions of the request. Without one, the client is
/// anonymous.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Caller {
    /// The gateway itself: probes and catalog refreshes. Per-user credential strategies skip it.
    Gateway,
    /// A client of the gateway.
    User(Identity),
}

// === impl Identity ===

impl Identity {
    /// Returns the anonymous caller. All anonymous callers are equal.
    #[must_use]
    pub fn anonymous() -> Self {
        Self(None)
    }

    /// Creates the caller `subject` of `issuer` (the `iss` and `sub` claims, RFC 7519 section 4.1) without other data.
    #[must_use]
    pub fn new(issuer: &str, subject: &str) -> Self {
        Self::builder(issuer, subject).build()
    }

    /// Returns a builder of the caller `subject` of `issuer`.
    pub fn builder(issuer: &str, subject: &str) -> IdentityBuilder {
        IdentityBuilder(Inner {
            issuer: issuer.into(),
            subject: subject.into(),
            claims: Claims::default(),
            token: None,
            expires_at: None,
            upstream: None,
            revocation: None,
            cached: OnceLock::new(),
            credential_key: OnceLock::new(),
        })
    }

    /// Sets the source of the revocation of the caller's session. The anonymous caller has no session.
    #[must_use]
    pub fn with_revocation(self, revocation: Arc<dyn SessionRevocation>) -> Self {
        let Some(inner) = self.0 else { return self };
        let inner = Arc::try_unwrap(inner).unwrap_or_else(|shared| shared.clone_without_cache());
        Self(Some(Arc::new(Inner { revocation: Some(revocation), ..inner })))
    }

    /// Returns `true` for the anonymous caller.
    #[must_use]
    pub fn is_anonymous(&self) -> bool {
        self.0.is_none()
    }

    /// Returns the `iss` claim; `None` for the anonymous caller.
    #[must_use]
    pub fn issuer(&self) -> Option<&str> {
        self.0.as_deref().map(|inner| &*inner.issuer)
    }

    /// Returns the `sub` claim; `None` for the anonymous caller.
    #[must_use]
    pub fn subject(&self) -> Option<&str> {
        self.0.as_deref().map(|inner| &*inner.subject)
    }

    /// Returns the claims of the token; `None` for the anonymous caller.
    #[must_use]
    pub fn claims(&self) -> Option<&Claims> {
        self.0.as_deref().map(|inner| &inner.claims)
    }

    /// Returns the token that the client presented, for strategies that exchange it. It is never sent to a backend unchanged.
    #[must_use]
    pub fn token(&self) -> Option<&SecretString> {
        self.0.as_deref().and_then(|inner| inner.token.as_ref())
    }

    /// Returns the time from which the token is not accepted, including the leeway for clocks. Streams opened with it end
    /// then.
    #[must_use]
    pub fn expires_at(&self) -> Option<SystemTime> {
        self.0.as_deref().and_then(|inner| inner.expires_at)
    }

    /// Returns the caller's tokens of upstream identity providers, if the token belongs to a session of the
    /// embedded authorization server.
    #[must_use]
    pub fn upstream(&self) -> Option<&Arc<dyn UpstreamTokens>> {
        self.0.as_deref().and_then(|inner| inner.upstream.as_ref())
    }

    /// Returns a future that is ready once the caller's session is revoked before the token expires; `None` without a source
    /// of revocations. Work that was started with the token ends then.
    #[must_use]
    pub fn revoked(&self) -> Option<RevocationFuture> {
        self.0
            .as_deref()
            .and_then(|inner| inner.revocation.as_ref())
            .map(|revocation| revocation.revoked())
    }

    /// Returns `true` if the caller's session is known to be revoked before the token expires.
    #[must_use]
    pub fn is_revoked(&self) -> bool {
        self.0
            .as_deref()
            .and_then(|inner| inner.revocation.as_ref())
            .is_some_and(|revocation| revocation.is_revoked())
    }

    /// Returns a key of what credentials for a backend can depend on: issuer, subject, session, and all claims of the
    /// token but those that identify one token. Results that depend on such credentials are not
    /// shared between keys.
    #[must_use]
    pub fn credential_key(&self) -> Fingerprint {
        static ANONYMOUS: LazyLock<Fingerprint> = LazyLock::new(|| Fingerprint::of("anonymous"));
        let Some(inner) = &self.0 else { return *ANONYMOUS };
        *inner.credential_key.get_or_init(|| {
            let lasting = |(name, _): &(Cow<'_, str>, _)| !PER_TOKEN_CLAIMS.contains(&&**name);
            let claims: Vec<_> = inner.claims.iter().filter(lasting).collect();
            let session = inner.upstream.as_ref().and_then(|tokens| tokens.session());
            Fingerprint::of(&(&inner.issuer, &inner.subject, claims, session))
        })
    }

    /// Returns the value of `key` that is cached with this identity, such as its permissions. `make` computes it once for
    /// this identity and its clones; reading it takes no lock. Another token, even of the same caller, is another identity.
    ///
    /// One value is cached, that of the first key. Values of other keys and of the anonymous caller are computed each time.
    /// The value must not hold the identity itself, or neither is ever freed.
    pub fn get_or_insert_with<T: Clone + Send + Sync + 'static>(
        &self,
        key: IdentityCacheKey,
        make: impl FnOnce() -> T,
    ) -> T {
        let Some(inner) = &self.0 else { return make() };
        if let Some(entry) = inner.cached.get() {
            return entry.get(key).unwrap_or_else(make);
        }
        let value = make();
        // If another thread set the value first, it stays.
        _ = inner.cached.set(IdentityCacheEntry::new(key, value.clone()));
        value
    }
}

impl Inner {
    /// Clones all but the cached value.
    fn clone_without_cache(&self) -> Self {
        let Self {
            issuer,
            subject,
            claims,
            token,
            expires_at,
            upstream,
            revocation,
            cached: _,
            credential_key,
        } = self;
        Self {
            issuer: issuer.clone(),
            subject: subject.clone(),
            claims: claims.clone(),
            token: token.clone(),
            expires_at: *expires_at,
            upstream: upstream.clone(),
            revocation: revocation.clone(),
            cached: OnceLock::new(),
            credential_key: credential_key.clone(),
        }
    }
}

impl PartialEq for Identity {
    fn eq(&self, other: &Self) -> bool {
        self.issuer() == other.issuer() && self.subject() == other.subject()
    }
}

impl Eq for Identity {}

impl Hash for Identity {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.issuer().hash(state);
        self.subject().hash(state);
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Identity").field(&self.subject().unwrap_or("anonymous")).finish()
    }
}

// === impl Caller ===

impl Caller {
    /// Returns the client; the anonymous one for the gateway itself.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        static ANONYMOUS: Identity = Identity(None);
        match self {
            Self::Gateway => &ANONYMOUS,
            Self::User(identity) => identity,
        }
    }
}

// === impl IdentityBuilder ===

impl IdentityBuilder {
    /// Sets the claims of the token.
    pub fn claims(mut self, claims: impl Into<Claims>) -> Self {
        self.0.claims = claims.into();
        self
    }

    /// Sets the token that the client presented.
    pub fn token(mut self, token: SecretString) -> Self {
        self.0.token = Some(token);
        self
    }

    /// Sets the time from which the token is not accepted.
    pub fn expires_at(mut self, at: SystemTime) -> Self {
        self.0.expires_at = Some(at);
        self
    }

    /// Sets the source of the caller's upstream tokens.
    pub fn upstream(mut self, tokens: Arc<dyn UpstreamTokens>) -> Self {
        self.0.upstream = Some(tokens);
        self
    }

    /// Sets the source of the session's revocation.
    pub fn revocation(mut self, revocation: Arc<dyn SessionRevocation>) -> Self {
        self.0.revocation = Some(revocation);
        self
    }

    /// Returns the identity.
    #[must_use]
    pub fn build(self) -> Identity {
        Identity(Some(Arc::new(self.0)))
    }
}

impl fmt::Debug for IdentityBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("IdentityBuilder").field(&self.0.subject).finish()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::{UpstreamError, UpstreamFuture, UpstreamKind};

    #[test]
    fn same_subject_of_two_issuers_is_two_callers() {
        assert_ne!(Identity::new("https://a", "1"), Identity::new("https://b", "1"));
        assert_eq!(Identity::new("https://a", "1"), Identity::new("https://a", "1"));
        assert_ne!(Identity::new("", ""), Identity::anonymous());
    }

    #[test]
    fn other_token_is_the_same_caller() {
        let with = |token: &str| Identity::builder("i", "s").token(token.into()).build();
        assert_eq!(with("one"), with("two"));
    }

    /// Tokens of a session.
    struct SessionTokens(u8);

    impl UpstreamTokens for SessionTokens {
        fn token<'a>(&'a self, _: &'a str, _: UpstreamKind) -> UpstreamFuture<'a> {
            Box::pin(std::future::ready(Err(UpstreamError::NotLinked)))
        }

        fn session(&self) -> Option<Fingerprint> {
            Some(Fingerprint([self.0; 16]))
        }
    }

    #[test]
    fn credential_key_depends_on_session_and_lasting_claims() {
        let key = |claims: Value, session: u8| {
            let Value::Object(claims) = claims else { panic!("no object") };
            let builder = Identity::builder("i", "s").claims(claims);
            builder.upstream(Arc::new(SessionTokens(session))).build().credential_key()
        };
        let first = key(json!({"scope": "a", "iat": 1, "exp": 2, "jti": "x"}), 1);
        assert_eq!(first, key(json!({"scope": "a", "iat": 2, "exp": 3, "jti": "y"}), 1));
        assert_ne!(first, key(json!({"scope": "a b", "iat": 1, "exp": 2, "jti": "x"}), 1));
        assert_ne!(first, key(json!({"scope": "a", "iat": 1, "exp": 2, "jti": "x"}), 2));
        assert_ne!(first, key(json!({"scope": "a", "azp": "c"}), 1));
        assert_ne!(
            Identity::new("i", "s").credential_key(),
            Identity::new("i", "t").credential_key()
        );
    }

    #[test]
    fn debug_form_has_no_token_or_claims() {
        let Value::Object(claims) = json!({"email": "canary@example.com"}) else { return };
        let identity = Identity::builder("i", "s").claims(claims).token("canary".into()).build();
        let printed = format!("{identity:?} {:?}", identity.claims());
        assert!(!printed.contains("canary"), "{printed}");
    }
}

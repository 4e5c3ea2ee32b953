//! Identity of the caller.

use std::borrow::Cow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use secrecy::SecretString;

use crate::ending::{Ending, EndingFuture};
use crate::keeper::{Keeper, Kept};
use crate::upstream::UpstreamTokens;
use crate::{Claims, ViewKey};

/// An authenticated caller, or the anonymous one.
///
/// Two are equal when issuer and subject are, whatever the token: a refreshed token is still the same
/// caller. Cloning costs a reference count. Neither the token nor a claim besides the subject is ever
/// in its `Debug` form.
#[derive(Clone)]
pub struct Identity(Option<Arc<Known>>);

struct Known {
    issuer: Box<str>,
    subject: Box<str>,
    claims: Claims,
    token: Option<SecretString>,
    expires_at: Option<SystemTime>,
    upstream: Option<Arc<dyn UpstreamTokens>>,
    ending: Option<Arc<dyn Ending>>,
    kept: OnceLock<Kept>,
    credential_key: OnceLock<ViewKey>,
}

/// The claims that differ from one token to the next although nothing else does (RFC 7519 section 4.1; OpenID Connect
/// Core sections 2 and 3.3.2.11).
const CLAIMS_OF_ONE_TOKEN: [&str; 8] =
    ["iat", "exp", "nbf", "jti", "auth_time", "nonce", "at_hash", "c_hash"];

/// Builder of an [`Identity`].
#[must_use]
pub struct IdentityBuilder(Known);

/// On whose behalf a backend is asked. In the extensions of every request that goes out to one;
/// absent means an anonymous client.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Caller {
    /// The gateway itself: probes and catalog refreshes. Per-user credential strategies skip it.
    Gateway,
    /// A client of the gateway.
    User(Identity),
}

// === impl Identity ===

impl Identity {
    /// The caller without a name. All anonymous callers are the same one.
    #[must_use]
    pub fn anonymous() -> Self {
        Self(None)
    }

    /// The caller that `issuer` calls `subject` (the `iss` and `sub` claims, RFC 7519 section 4.1),
    /// of whom nothing else is known.
    #[must_use]
    pub fn new(issuer: &str, subject: &str) -> Self {
        Self::builder(issuer, subject).build()
    }

    /// The caller that `issuer` calls `subject`, of whom more is known.
    pub fn builder(issuer: &str, subject: &str) -> IdentityBuilder {
        IdentityBuilder(Known {
            issuer: issuer.into(),
            subject: subject.into(),
            claims: Claims::default(),
            token: None,
            expires_at: None,
            upstream: None,
            ending: None,
            kept: OnceLock::new(),
            credential_key: OnceLock::new(),
        })
    }

    /// The same caller, whose session is over when `ending` says so. The anonymous caller has no session.
    #[must_use]
    pub fn with_ending(self, ending: Arc<dyn Ending>) -> Self {
        let Some(known) = self.0 else { return self };
        let known = Arc::try_unwrap(known).unwrap_or_else(|shared| shared.copy());
        Self(Some(Arc::new(Known { ending: Some(ending), ..known })))
    }

    /// Returns `true` for the anonymous caller.
    #[must_use]
    pub fn is_anonymous(&self) -> bool {
        self.0.is_none()
    }

    /// The `iss` claim; `None` for the anonymous caller.
    #[must_use]
    pub fn issuer(&self) -> Option<&str> {
        self.0.as_deref().map(|known| &*known.issuer)
    }

    /// The `sub` claim; `None` for the anonymous caller.
    #[must_use]
    pub fn subject(&self) -> Option<&str> {
        self.0.as_deref().map(|known| &*known.subject)
    }

    /// Returns the claims of the token; `None` for the anonymous caller.
    #[must_use]
    pub fn claims(&self) -> Option<&Claims> {
        self.0.as_deref().map(|known| &known.claims)
    }

    /// The token that the client presented. For strategies that exchange it; it never goes to a
    /// backend as it is.
    #[must_use]
    pub fn token(&self) -> Option<&SecretString> {
        self.0.as_deref().and_then(|known| known.token.as_ref())
    }

    /// When the token is accepted no longer, whatever leeway clocks are allowed. Streams opened with it end
    /// then.
    #[must_use]
    pub fn expires_at(&self) -> Option<SystemTime> {
        self.0.as_deref().and_then(|known| known.expires_at)
    }

    /// The caller's tokens of upstream identity providers, if the token belongs to a session of the
    /// embedded authorization server.
    #[must_use]
    pub fn upstream(&self) -> Option<&Arc<dyn UpstreamTokens>> {
        self.0.as_deref().and_then(|known| known.upstream.as_ref())
    }

    /// Ready once the caller's session is over although the token has not expired; `None` where that is not
    /// heard of. What was begun with the token ends then.
    #[must_use]
    pub fn ended(&self) -> Option<EndingFuture> {
        self.0.as_deref().and_then(|known| known.ending.as_ref()).map(|ending| ending.ended())
    }

    /// Returns `true` if the caller's session is known to be over although the token has not expired.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.0
            .as_deref()
            .and_then(|known| known.ending.as_ref())
            .is_some_and(|ending| ending.has_ended())
    }

    /// Returns a key of what credentials for a backend can depend on: issuer, subject, session, and all that the token
    /// says but for when it was issued and by what number. What a backend offers with such credentials is this key's
    /// alone.
    #[must_use]
    pub fn credential_key(&self) -> ViewKey {
        let Some(known) = &self.0 else { return ViewKey::of("anonymous") };
        *known.credential_key.get_or_init(|| {
            let lasting = |(name, _): &(Cow<'_, str>, _)| !CLAIMS_OF_ONE_TOKEN.contains(&&**name);
            let claims: Vec<_> = known.claims.iter().filter(lasting).collect();
            let session = known.upstream.as_ref().and_then(|tokens| tokens.session());
            ViewKey::of(&(&known.issuer, &known.subject, claims, session))
        })
    }

    /// Returns the value that `keeper` derives from this identity, such as its permissions. It is computed once and kept with
    /// this identity and its clones, where it is found without a lock; another token, even of the same caller, is
    /// another identity.
    ///
    /// There is one place: the first keeper has it. What others make, and what is made of the anonymous
    /// caller, is not kept. What is kept must not hold the identity itself, or neither is ever freed.
    pub fn keep<T: Clone + Send + Sync + 'static>(
        &self,
        keeper: Keeper,
        make: impl FnOnce() -> T,
    ) -> T {
        let Some(known) = &self.0 else { return make() };
        if let Some(kept) = known.kept.get() {
            return kept.of(keeper).unwrap_or_else(make);
        }
        let what = make();
        // Another thread may have come first: its value stays.
        _ = known.kept.set(Kept::new(keeper, what.clone()));
        what
    }
}

impl Known {
    /// A copy, without what was worked out of it.
    fn copy(&self) -> Self {
        let Self {
            issuer,
            subject,
            claims,
            token,
            expires_at,
            upstream,
            ending,
            kept: _,
            credential_key,
        } = self;
        Self {
            issuer: issuer.clone(),
            subject: subject.clone(),
            claims: claims.clone(),
            token: token.clone(),
            expires_at: *expires_at,
            upstream: upstream.clone(),
            ending: ending.clone(),
            kept: OnceLock::new(),
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
    /// The client; the anonymous one for the gateway itself.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        static NOBODY: Identity = Identity(None);
        match self {
            Self::Gateway => &NOBODY,
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

    /// The token that the client presented.
    pub fn token(mut self, token: SecretString) -> Self {
        self.0.token = Some(token);
        self
    }

    /// When the token stops being valid.
    pub fn expires_at(mut self, at: SystemTime) -> Self {
        self.0.expires_at = Some(at);
        self
    }

    /// Sets the source of the caller's upstream tokens.
    pub fn upstream(mut self, tokens: Arc<dyn UpstreamTokens>) -> Self {
        self.0.upstream = Some(tokens);
        self
    }

    /// Sets the source of the session's end before the token expires.
    pub fn ending(mut self, ending: Arc<dyn Ending>) -> Self {
        self.0.ending = Some(ending);
        self
    }

    /// The identity.
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
    fn the_same_subject_of_two_issuers_is_two_callers() {
        assert_ne!(Identity::new("https://a", "1"), Identity::new("https://b", "1"));
        assert_eq!(Identity::new("https://a", "1"), Identity::new("https://a", "1"));
        assert_ne!(Identity::new("", ""), Identity::anonymous());
    }

    #[test]
    fn another_token_is_still_the_same_caller() {
        let with = |token: &str| Identity::builder("i", "s").token(token.into()).build();
        assert_eq!(with("one"), with("two"));
    }

    /// Tokens of a session.
    struct OfSession(u8);

    impl UpstreamTokens for OfSession {
        fn token<'a>(&'a self, _: &'a str, _: UpstreamKind) -> UpstreamFuture<'a> {
            Box::pin(std::future::ready(Err(UpstreamError::Absent)))
        }

        fn session(&self) -> Option<ViewKey> {
            Some(ViewKey([self.0; 16]))
        }
    }

    #[test]
    fn credential_key_is_that_of_session_and_lasting_claims() {
        let key = |claims: Value, session: u8| {
            let Value::Object(claims) = claims else { panic!("no object") };
            let builder = Identity::builder("i", "s").claims(claims);
            builder.upstream(Arc::new(OfSession(session))).build().credential_key()
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
    fn neither_token_nor_claims_are_in_its_debug_form() {
        let Value::Object(claims) = json!({"email": "canary@example.com"}) else { return };
        let identity = Identity::builder("i", "s").claims(claims).token("canary".into()).build();
        let printed = format!("{identity:?} {:?}", identity.claims());
        assert!(!printed.contains("canary"), "{printed}");
    }
}

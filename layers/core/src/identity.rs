//! Who is calling.

use std::fmt;
use std::sync::Arc;

/// An authenticated caller, or the anonymous one.
///
/// A caller is told apart by issuer and subject, never by the bytes of a token, so that a refreshed
/// token is still the same caller. Cloning costs a reference count.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Identity(Option<Arc<Names>>);

#[derive(PartialEq, Eq, Hash)]
struct Names {
    issuer: Box<str>,
    subject: Box<str>,
}

/// On whose behalf a backend is asked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Caller {
    /// The gateway itself: probes and catalog refreshes. Per-user credential strategies skip it.
    Gateway,
    /// A client of the gateway.
    User(Identity),
}

impl Identity {
    /// The caller without a name. All anonymous callers are the same one.
    #[must_use]
    pub fn anonymous() -> Self {
        Self(None)
    }

    /// The caller that `issuer` calls `subject` (the `iss` and `sub` claims, RFC 7519 section 4.1).
    #[must_use]
    pub fn new(issuer: &str, subject: &str) -> Self {
        Self(Some(Arc::new(Names { issuer: issuer.into(), subject: subject.into() })))
    }

    /// The `iss` claim; `None` for the anonymous caller.
    #[must_use]
    pub fn issuer(&self) -> Option<&str> {
        self.0.as_deref().map(|names| &*names.issuer)
    }

    /// The `sub` claim; `None` for the anonymous caller.
    #[must_use]
    pub fn subject(&self) -> Option<&str> {
        self.0.as_deref().map(|names| &*names.subject)
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Identity").field(&self.subject().unwrap_or("anonymous")).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_subject_of_two_issuers_is_two_callers() {
        assert_ne!(Identity::new("https://a", "1"), Identity::new("https://b", "1"));
        assert_eq!(Identity::new("https://a", "1"), Identity::new("https://a", "1"));
        assert_ne!(Identity::new("", ""), Identity::anonymous());
    }
}

//! Scopes (RFC 6749 section 3.3).

use std::fmt;

/// Maximum number of scopes of a client, a request or the server.
pub const MAX_SCOPES: usize = 64;

/// Maximum length of a scope, in bytes.
const MAX_SCOPE_LENGTH: usize = 256;

/// Scope that makes a request an OpenID Connect one.
pub(crate) const OPENID_SCOPE: &str = "openid";

/// Scopes that request a refresh token.
pub(crate) const OFFLINE: [&str; 2] = ["offline_access", "offline"];

/// Ordered set of scopes without duplicates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scopes(Vec<String>);

/// Error of a list of scopes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScopeError {
    /// A scope is empty, longer than 256 bytes, or has a character that is not allowed.
    #[error(
        "scope must be 1 to 256 characters of printable ASCII without space, quote and backslash"
    )]
    Malformed,
    /// There are more than [`MAX_SCOPES`] scopes.
    #[error("at most {MAX_SCOPES} scopes are allowed")]
    TooMany,
}

impl Scopes {
    /// Creates a set of these scopes.
    ///
    /// # Errors
    /// A scope is malformed, or there are too many.
    pub fn new<S: AsRef<str>>(scopes: impl IntoIterator<Item = S>) -> Result<Self, ScopeError> {
        let mut set = Self::default();
        for scope in scopes {
            let scope = scope.as_ref();
            if !is_scope(scope) {
                return Err(ScopeError::Malformed);
            }
            set.insert(scope);
            if set.0.len() > MAX_SCOPES {
                return Err(ScopeError::TooMany);
            }
        }
        Ok(set)
    }

    /// Parses a `scope` parameter, whose scopes are separated by spaces.
    ///
    /// # Errors
    /// See [`Scopes::new`].
    pub fn parse(text: &str) -> Result<Self, ScopeError> {
        Self::new(text.split(' ').filter(|scope| !scope.is_empty()))
    }

    /// Creates a set of stored scopes, which were validated before.
    pub(crate) fn from_stored(list: &[String]) -> Self {
        Self(list.to_vec())
    }

    /// Returns the scopes in their stored form.
    pub(crate) fn to_vec(&self) -> Vec<String> {
        self.0.clone()
    }

    /// Removes the scopes that request a refresh token.
    pub(crate) fn without_offline_access(mut self) -> Self {
        self.0.retain(|scope| !OFFLINE.contains(&scope.as_str()));
        self
    }

    /// Returns the scopes of a consent: a refresh token counts as `offline_access`, whether the client requested that scope
    /// or registered the grant type.
    pub(crate) fn with_offline_access(mut self, refresh: bool) -> Self {
        if refresh && !self.is_offline() {
            self.insert(OFFLINE[0]);
        }
        self
    }

    /// Returns `true` if the set contains `scope`.
    #[must_use]
    pub fn contains(&self, scope: &str) -> bool {
        self.0.iter().any(|known| known == scope)
    }

    /// Returns `true` if `other` contains all scopes of the set.
    #[must_use]
    pub fn is_subset(&self, other: &Self) -> bool {
        self.0.iter().all(|scope| other.contains(scope))
    }

    /// Returns the scopes of both sets.
    #[must_use]
    pub fn union(mut self, other: &Self) -> Self {
        other.0.iter().for_each(|scope| self.insert(scope));
        self
    }

    /// Returns the scopes that are in both sets.
    #[must_use]
    pub fn intersection(mut self, other: &Self) -> Self {
        self.0.retain(|scope| other.contains(scope));
        self
    }

    /// Returns the first scope that is not in `other`.
    pub(crate) fn first_missing(&self, other: &Self) -> Option<&str> {
        self.iter().find(|scope| !other.contains(scope))
    }

    /// Returns `true` if the set requests a refresh token.
    #[must_use]
    pub fn is_offline(&self) -> bool {
        OFFLINE.iter().any(|scope| self.contains(scope))
    }

    /// Returns an iterator over the scopes, in order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// Returns `true` if the set is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn insert(&mut self, scope: &str) {
        if !self.contains(scope) {
            self.0.push(scope.to_owned());
        }
    }
}

impl fmt::Display for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(" "))
    }
}

fn is_scope(scope: &str) -> bool {
    let allowed = |byte| matches!(byte, 0x21 | 0x23..=0x5b | 0x5d..=0x7e);
    (1..=MAX_SCOPE_LENGTH).contains(&scope.len()) && scope.bytes().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_keep_order_without_duplicates() {
        let scopes = Scopes::parse("b a  b openid").unwrap();
        assert_eq!(scopes.to_string(), "b a openid");
        assert_eq!(scopes.union(&Scopes::parse("c a").unwrap()).to_string(), "b a openid c");
    }

    #[test]
    fn rejects_malformed_scopes() {
        for text in ["a\"b", "a\\b", "a\tb", "a\nb", "é", &"x".repeat(257)] {
            assert_eq!(Scopes::parse(text), Err(ScopeError::Malformed), "{text}");
        }
        let many: Vec<_> = (0..65).map(|at| at.to_string()).collect();
        assert_eq!(Scopes::new(many), Err(ScopeError::TooMany));
        assert!(Scopes::parse("").unwrap().is_empty());
    }

    #[test]
    fn both_offline_scopes_request_refresh_token() {
        for (text, offline) in [("offline", true), ("a offline_access", true), ("openid", false)] {
            assert_eq!(Scopes::parse(text).unwrap().is_offline(), offline);
        }
    }
}

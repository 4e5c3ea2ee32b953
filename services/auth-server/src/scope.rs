//! Scopes (RFC 6749 section 3.3).

use std::fmt;

/// The most scopes that a client, a request or the server can have.
pub const MAX_SCOPES: usize = 64;

/// The longest scope, in bytes.
const LONGEST: usize = 256;

/// The scope that makes a request one of OpenID Connect.
pub(crate) const OPENID: &str = "openid";

/// The scopes that ask for a refresh token.
pub(crate) const OFFLINE: [&str; 2] = ["offline_access", "offline"];

/// A set of scopes, each once, in the order in which they came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scopes(Vec<String>);

/// What is no list of scopes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScopeFault {
    /// A scope is empty, longer than 256 bytes, or has a character that is not allowed.
    #[error("a scope has a character that is not allowed, or is empty or too long")]
    Malformed,
    /// More than [`MAX_SCOPES`].
    #[error("there are more than {MAX_SCOPES} scopes")]
    TooMany,
}

impl Scopes {
    /// The set of these scopes.
    ///
    /// # Errors
    /// One is malformed, or there are too many.
    pub fn new<S: AsRef<str>>(scopes: impl IntoIterator<Item = S>) -> Result<Self, ScopeFault> {
        let mut set = Self::default();
        for scope in scopes {
            let scope = scope.as_ref();
            if !is_scope(scope) {
                return Err(ScopeFault::Malformed);
            }
            set.insert(scope);
            if set.0.len() > MAX_SCOPES {
                return Err(ScopeFault::TooMany);
            }
        }
        Ok(set)
    }

    /// The scopes of a `scope` parameter, parted by spaces.
    ///
    /// # Errors
    /// See [`Scopes::new`].
    pub fn parse(text: &str) -> Result<Self, ScopeFault> {
        Self::new(text.split(' ').filter(|scope| !scope.is_empty()))
    }

    /// What was stored, which was checked before.
    pub(crate) fn stored(list: &[String]) -> Self {
        Self(list.to_vec())
    }

    /// As it is stored.
    pub(crate) fn to_vec(&self) -> Vec<String> {
        self.0.clone()
    }

    /// Them without those that ask for a refresh token.
    pub(crate) fn online(mut self) -> Self {
        self.0.retain(|scope| !OFFLINE.contains(&scope.as_str()));
        self
    }

    /// What the person agrees to with them: a refresh token is `offline_access`, whether it was asked for by that
    /// name or by the grant type that the client registered.
    pub(crate) fn agreed(mut self, refresh: bool) -> Self {
        if refresh && !self.is_offline() {
            self.insert(OFFLINE[0]);
        }
        self
    }

    /// Whether `scope` is one of them.
    #[must_use]
    pub fn contains(&self, scope: &str) -> bool {
        self.0.iter().any(|known| known == scope)
    }

    /// Whether all of them are in `other`.
    #[must_use]
    pub fn is_subset(&self, other: &Self) -> bool {
        self.0.iter().all(|scope| other.contains(scope))
    }

    /// These and those of `other`.
    #[must_use]
    pub fn union(mut self, other: &Self) -> Self {
        other.0.iter().for_each(|scope| self.insert(scope));
        self
    }

    /// Those of them that are in `other` too.
    #[must_use]
    pub fn intersection(mut self, other: &Self) -> Self {
        self.0.retain(|scope| other.contains(scope));
        self
    }

    /// The first that is not in `other`.
    pub(crate) fn first_beyond(&self, other: &Self) -> Option<&str> {
        self.iter().find(|scope| !other.contains(scope))
    }

    /// Whether they ask for a refresh token.
    #[must_use]
    pub fn is_offline(&self) -> bool {
        OFFLINE.iter().any(|scope| self.contains(scope))
    }

    /// Them, in order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// Whether there are none.
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
    (1..=LONGEST).contains(&scope.len()) && scope.bytes().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_scope_is_there_once_in_the_order_it_came() {
        let scopes = Scopes::parse("b a  b openid").unwrap();
        assert_eq!(scopes.to_string(), "b a openid");
        assert_eq!(scopes.union(&Scopes::parse("c a").unwrap()).to_string(), "b a openid c");
    }

    #[test]
    fn what_no_scope_may_contain_is_refused() {
        for text in ["a\"b", "a\\b", "a\tb", "a\nb", "é", &"x".repeat(257)] {
            assert_eq!(Scopes::parse(text), Err(ScopeFault::Malformed), "{text}");
        }
        let many: Vec<_> = (0..65).map(|at| at.to_string()).collect();
        assert_eq!(Scopes::new(many), Err(ScopeFault::TooMany));
        assert!(Scopes::parse("").unwrap().is_empty());
    }

    #[test]
    fn either_name_of_offline_access_asks_for_a_refresh_token() {
        for (text, offline) in [("offline", true), ("a offline_access", true), ("openid", false)] {
            assert_eq!(Scopes::parse(text).unwrap().is_offline(), offline);
        }
    }
}

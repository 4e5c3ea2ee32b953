//! Claims of a token.

use std::borrow::Cow;
use std::fmt;
use std::sync::OnceLock;

use serde_json::{Map, Number, Value};
use vmcp_wire::{
    Elements, MemberSpan, ScanErrorKind, StringSpan, UniqueObject, elements, parse_json_string,
    parse_unique_object, write_json_string,
};

/// Maximum number of members that the objects of a claims set may have together.
pub const MAX_CLAIMS: usize = 512;

/// Claims of a token: the members of a JWT claims set (RFC 7519 section 4) or of an introspection response
/// (RFC 7662 section 2.2).
///
/// Claims are kept as the received text. A claim is parsed when it is requested, and the whole tree only by
/// [`Claims::object`].
#[derive(Clone, Default)]
pub struct Claims {
    text: String,
    members: Vec<MemberSpan>,
    object: OnceLock<Box<Map<String, Value>>>,
}

/// Claim as JSON text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Claim<'a>(&'a str);

/// Error of a text that is not a claims set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClaimsError {
    /// The text is not a JSON object, an object in it has a member twice, or a number is beyond double precision.
    #[error("the claims are malformed")]
    Malformed,
    /// It has more than [`MAX_CLAIMS`] members.
    #[error("there are more than {MAX_CLAIMS} claims")]
    TooMany,
}

// === impl Claims ===

impl Claims {
    /// Parses the claims in `text`: a JSON object in which no object has a member twice, as the issuer and the verifier could
    /// take different ones (RFC 7519 section 4).
    ///
    /// # Errors
    /// The text is malformed, or has too many members.
    pub fn parse(text: String) -> Result<Self, ClaimsError> {
        let UniqueObject { members, large_numbers } = parse_unique_object(&text, MAX_CLAIMS)
            .map_err(|kind| match kind {
                ScanErrorKind::TooManyMembers => ClaimsError::TooMany,
                _ => ClaimsError::Malformed,
            })?;
        let has_value = |number: &[u8]| serde_json::from_slice::<Number>(number).is_ok();
        if large_numbers.iter().all(|number| has_value(number.of(text.as_bytes()))) {
            Ok(Self { text, members, object: OnceLock::new() })
        } else {
            Err(ClaimsError::Malformed)
        }
    }

    /// Returns the claim `name`.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Claim<'_>> {
        let bytes = self.text.as_bytes();
        let found = self.members.iter().find(|member| member.key.is(bytes, name))?;
        Some(self.claim(found))
    }

    /// Returns the claim `name`, if it is a string.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        match self.get(name)?.text()? {
            Cow::Borrowed(text) => Some(text),
            Cow::Owned(_) => self.object().get(name)?.as_str(),
        }
    }

    /// Returns `true` if there is a claim `name`.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Returns `true` if there are no claims.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Iterates over all claims with their names, in the order of the text.
    pub fn iter(&self) -> impl Iterator<Item = (Cow<'_, str>, Claim<'_>)> {
        self.members.iter().map(|member| (self.name(member), self.claim(member)))
    }

    /// Returns all claims as a tree, which the first call builds.
    #[must_use]
    pub fn object(&self) -> &Map<String, Value> {
        self.object.get_or_init(|| {
            Box::new(self.iter().map(|(name, claim)| (name.into_owned(), claim.value())).collect())
        })
    }

    /// Removes the claim `name`.
    #[must_use]
    pub fn without(mut self, name: &str) -> Self {
        let bytes = self.text.as_bytes();
        let all = self.members.len();
        self.members.retain(|member| !member.key.is(bytes, name));
        if self.members.len() < all {
            self.object = OnceLock::new();
        }
        self
    }

    fn name(&self, member: &MemberSpan) -> Cow<'_, str> {
        let StringSpan { span, escaped } = member.key;
        let literal = self.text.get(span.start as usize..span.end as usize).unwrap_or_default();
        match inside(literal) {
            Some(name) if !escaped => Cow::Borrowed(name),
            _ => member.key.read(self.text.as_bytes()),
        }
    }

    fn claim(&self, member: &MemberSpan) -> Claim<'_> {
        let range = member.value.start as usize..member.value.end as usize;
        Claim(self.text.get(range).unwrap_or_default())
    }
}

impl From<Map<String, Value>> for Claims {
    /// Converts `claims` without a limit, as they are in memory already.
    fn from(claims: Map<String, Value>) -> Self {
        let mut text = vec![b'{'];
        for (name, value) in &claims {
            if text.len() > 1 {
                text.push(b',');
            }
            write_json_string(name, &mut text);
            text.push(b':');
            text.extend_from_slice(value.to_string().as_bytes());
        }
        text.push(b'}');
        let text = String::from_utf8(text).unwrap_or_default();
        let members = parse_unique_object(&text, usize::MAX).unwrap_or_default().members;
        Self { text, members, object: OnceLock::from(Box::new(claims)) }
    }
}

impl From<Claims> for Map<String, Value> {
    fn from(claims: Claims) -> Self {
        _ = claims.object();
        claims.object.into_inner().map(|object| *object).unwrap_or_default()
    }
}

impl PartialEq for Claims {
    /// Compares the values, regardless of how they are written.
    fn eq(&self, other: &Self) -> bool {
        self.object() == other.object()
    }
}

impl fmt::Debug for Claims {
    /// Writes the names only: values are personal data, which does not belong in a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter().map(|(name, _)| name)).finish()
    }
}

// === impl Claim ===

impl<'a> Claim<'a> {
    /// Returns the JSON text of the token. Different texts may have the same value.
    #[must_use]
    pub fn json(self) -> &'a str {
        self.0
    }

    /// Returns its value, if it is a string; borrowed without escapes.
    #[must_use]
    pub fn text(self) -> Option<Cow<'a, str>> {
        match inside(self.0)? {
            plain if !plain.contains('\\') => Some(Cow::Borrowed(plain)),
            _ => parse_json_string(self.0.as_bytes()),
        }
    }

    /// Returns `true` for a string.
    #[must_use]
    pub fn is_string(self) -> bool {
        self.0.starts_with('"')
    }

    /// Returns `true` for an array.
    #[must_use]
    pub fn is_array(self) -> bool {
        self.0.starts_with('[')
    }

    /// Iterates over its items, if it is an array; otherwise there are none.
    pub fn items(self) -> impl Iterator<Item = Claim<'a>> {
        let items: Elements<'a> = elements(self.0.as_bytes());
        items.map(|item| Claim(std::str::from_utf8(item).unwrap_or_default()))
    }

    /// Returns its value.
    #[must_use]
    pub fn value(self) -> Value {
        // The text was checked before.
        serde_json::from_str(self.0).unwrap_or_default()
    }
}

/// Returns the text between the quotes of a string.
fn inside(literal: &str) -> Option<&str> {
    literal.strip_prefix('"')?.strip_suffix('"')
}

#[cfg(test)]
mod tests;

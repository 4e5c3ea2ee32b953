//! Locations of members in nonstandard responses.

use std::fmt;

use http::header::{
    AUTHORIZATION, CONNECTION, CONTENT_LENGTH, COOKIE, HOST, PROXY_AUTHORIZATION, TE, TRAILER,
    TRANSFER_ENCODING, UPGRADE,
};
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Map, Value};

use crate::{Endpoint, SettingsError};

/// Path of member names separated by dots, from the top of a JSON response. A number is the index
/// in an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path(Box<str>);

/// Locations of the members in a nonstandard token response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenMapping {
    /// Access token.
    pub access_token: Path,
    /// Seconds until its expiry.
    pub expires_in: Path,
    /// Refresh token.
    pub refresh_token: Path,
    /// Granted scopes: a string separated by spaces, or an array.
    pub scope: Path,
}

/// Userinfo request and the mapping of its response.
#[derive(Clone, Debug)]
pub struct UserInfo {
    /// Userinfo endpoint.
    pub endpoint: Endpoint,
    /// Method of the request.
    pub method: Method,
    /// Additional headers of the request.
    pub headers: Headers,
    /// Mapping of the response's members.
    pub fields: FieldMapping,
}

/// Method of the userinfo request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Method {
    /// GET.
    #[default]
    Get,
    /// POST.
    Post,
}

/// Additional headers of the userinfo request. `Debug` omits their values.
#[derive(Clone, Default)]
pub struct Headers(HeaderMap);

/// Members of a userinfo response by meaning: the first nonempty one counts.
///
/// A name refers to a member at the top of the response or, if that does not exist, is a [`Path`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldMapping {
    subject: Box<[Box<str>]>,
    name: Box<[Box<str>]>,
    email: Box<[Box<str>]>,
}

// === impl Path ===

impl Path {
    /// Parses a path of 1 to 16 nonempty names, at most 256 bytes.
    ///
    /// # Errors
    /// [`SettingsError::Path`].
    pub fn new(path: &str) -> Result<Self, SettingsError> {
        let names = path.split('.');
        let legal = path.len() <= 256
            && names.clone().count() <= 16
            && names.clone().all(|name| !name.is_empty());
        if legal { Ok(Self(path.into())) } else { Err(SettingsError::Path) }
    }

    /// Returns the value at this path.
    pub(crate) fn find<'a>(&self, root: &'a Map<String, Value>) -> Option<&'a Value> {
        descend(root, &self.0)
    }
}

fn descend<'a>(root: &'a Map<String, Value>, path: &str) -> Option<&'a Value> {
    let mut names = path.split('.');
    let first = root.get(names.next()?)?;
    names.try_fold(first, |value, name| match value {
        Value::Object(members) => members.get(name),
        Value::Array(elements) => elements.get(name.parse::<usize>().ok()?),
        _ => None,
    })
}

// === impl TokenMapping ===

impl TokenMapping {
    /// Creates a mapping with the access token at `access_token`, and other members at the names of
    /// RFC 6749.
    #[must_use]
    pub fn new(access_token: Path) -> Self {
        let standard = |name: &str| Path(name.into());
        Self {
            access_token,
            expires_in: standard("expires_in"),
            refresh_token: standard("refresh_token"),
            scope: standard("scope"),
        }
    }
}

// === impl UserInfo ===

impl UserInfo {
    /// Creates a GET request without additional headers, with the members of OpenID Connect.
    #[must_use]
    pub fn new(endpoint: Endpoint) -> Self {
        Self {
            endpoint,
            method: Method::default(),
            headers: Headers::default(),
            fields: FieldMapping::default(),
        }
    }
}

// === impl Headers ===

impl Headers {
    /// Creates a list of headers.
    ///
    /// # Errors
    /// [`SettingsError::Header`]: a header is malformed, or reserved for the request or its
    /// connection.
    pub fn new<N: AsRef<str>, V: AsRef<str>>(
        headers: impl IntoIterator<Item = (N, V)>,
    ) -> Result<Self, SettingsError> {
        const RESERVED: [HeaderName; 10] = [
            AUTHORIZATION,
            CONNECTION,
            CONTENT_LENGTH,
            COOKIE,
            HOST,
            PROXY_AUTHORIZATION,
            TE,
            TRAILER,
            TRANSFER_ENCODING,
            UPGRADE,
        ];
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let name: HeaderName = name.as_ref().parse().map_err(|_| SettingsError::Header)?;
            let mut value: HeaderValue =
                value.as_ref().parse().map_err(|_| SettingsError::Header)?;
            if RESERVED.contains(&name) || map.contains_key(&name) {
                return Err(SettingsError::Header);
            }
            value.set_sensitive(true);
            map.insert(name, value);
        }
        Ok(Self(map))
    }

    pub(crate) fn map(&self) -> &HeaderMap {
        &self.0
    }
}

impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

// === impl FieldMapping ===

impl FieldMapping {
    /// Creates a mapping from the members for subject, name and address, the preferred ones first.
    ///
    /// # Errors
    /// [`SettingsError::NoSubject`] without a member for the subject, [`SettingsError::Path`] for
    /// an empty name.
    pub fn new<T: AsRef<str>>(
        subject: impl IntoIterator<Item = T>,
        name: impl IntoIterator<Item = T>,
        email: impl IntoIterator<Item = T>,
    ) -> Result<Self, SettingsError> {
        let (subject, name, email) = (names(subject)?, names(name)?, names(email)?);
        if subject.is_empty() {
            return Err(SettingsError::NoSubject);
        }
        Ok(Self { subject, name, email })
    }

    pub(crate) fn subject(&self, answer: &Map<String, Value>) -> Option<String> {
        first(&self.subject, answer, subject)
    }

    pub(crate) fn name(&self, answer: &Map<String, Value>) -> Option<String> {
        first(&self.name, answer, text)
    }

    pub(crate) fn email(&self, answer: &Map<String, Value>) -> Option<String> {
        first(&self.email, answer, text)
    }

    /// Returns whether the subject is mapped to another member than OpenID's `sub`.
    pub(crate) fn renames_subject(&self) -> bool {
        !matches!(&*self.subject, [only] if **only == *"sub")
    }
}

impl Default for FieldMapping {
    /// Members of OpenID Connect: `sub`, `name`, `email` (OpenID Connect Core 1.0 section 5.1).
    fn default() -> Self {
        let one = |name: &str| -> Box<[Box<str>]> { Box::new([name.into()]) };
        Self { subject: one("sub"), name: one("name"), email: one("email") }
    }
}

fn names<T: AsRef<str>>(
    names: impl IntoIterator<Item = T>,
) -> Result<Box<[Box<str>]>, SettingsError> {
    let name = |name: T| match name.as_ref() {
        "" => Err(SettingsError::Path),
        name => Ok(name.into()),
    };
    names.into_iter().map(name).collect()
}

fn first(
    names: &[Box<str>],
    answer: &Map<String, Value>,
    read: fn(&Value) -> Option<String>,
) -> Option<String> {
    names.iter().find_map(|name| {
        let value = answer.get(&**name).or_else(|| descend(answer, name))?;
        read(value).filter(|text| !text.trim().is_empty())
    })
}

/// Returns a unique representation of a subject: a string as it is, with `#` before one that begins
/// with `#`; a number as its digits after `#`. So the number 1 and the string `1` differ.
pub(crate) fn subject(value: &Value) -> Option<String> {
    match value {
        Value::String(name) if name.starts_with('#') => Some(format!("#{name}")),
        Value::String(name) => Some(name.clone()),
        number => text(number).map(|digits| format!("#{digits}")),
    }
}

/// Returns a string, or the digits of an integer: identifiers are often numbers. Rejects numbers
/// that JSON parsers round: two users could become one.
fn text(value: &Value) -> Option<String> {
    /// Largest integer that doubles represent exactly.
    const MAX_EXACT_INTEGER: f64 = 9_007_199_254_740_992.0;
    match value {
        Value::String(text) => Some(text.trim().to_owned()),
        Value::Number(number) if number.is_u64() || number.is_i64() => Some(number.to_string()),
        Value::Number(number) => {
            let number = number.as_f64()?;
            (number.fract() == 0.0 && number.abs() < MAX_EXACT_INTEGER)
                .then(|| format!("{number:.0}"))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;

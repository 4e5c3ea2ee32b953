//! Where answers that are not the standard's have their members.

use std::fmt;

use http::header::{
    AUTHORIZATION, CONNECTION, CONTENT_LENGTH, COOKIE, HOST, PROXY_AUTHORIZATION, TE, TRAILER,
    TRANSFER_ENCODING, UPGRADE,
};
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Map, Value};

use crate::{Endpoint, SettingsError};

/// Names of members with dots between them, from the top of a JSON answer down. A number is the index
/// of an array's element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path(Box<str>);

/// Where a token answer that is not RFC 6749's has its members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenMapping {
    /// The access token.
    pub access_token: Path,
    /// Seconds until it expires.
    pub expires_in: Path,
    /// The refresh token.
    pub refresh_token: Path,
    /// The granted scopes: a string with blanks between, or a list.
    pub scope: Path,
}

/// Where and how a provider says who the user is.
#[derive(Clone, Debug)]
pub struct UserInfo {
    /// The userinfo endpoint.
    pub endpoint: Endpoint,
    /// Method of the request.
    pub method: Method,
    /// More headers of the request.
    pub headers: Headers,
    /// Which members of the answer mean what.
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

/// Headers of the userinfo request beside those that it always has. Their values are never shown.
#[derive(Clone, Default)]
pub struct Headers(HeaderMap);

/// Which members of the userinfo answer mean what: the first that is not empty counts.
///
/// A name is a member's at the top of the answer or, if there is none of that name, a [`Path`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldMapping {
    subject: Box<[Box<str>]>,
    name: Box<[Box<str>]>,
    email: Box<[Box<str>]>,
}

// === impl Path ===

impl Path {
    /// 1 to 16 names, none of them empty, 256 bytes at most.
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

    /// What is there.
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
    /// The access token at `access_token`, the rest at RFC 6749's names.
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
    /// A GET request with nothing special about it, answered with OpenID's names.
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
    /// These headers, each with its value.
    ///
    /// # Errors
    /// [`SettingsError::Header`]: malformed, or one that the request or its connection sets itself.
    pub fn new<N: AsRef<str>, V: AsRef<str>>(
        headers: impl IntoIterator<Item = (N, V)>,
    ) -> Result<Self, SettingsError> {
        const OWN: [HeaderName; 10] = [
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
            if OWN.contains(&name) || map.contains_key(&name) {
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
    /// The names that mean the subject, the name and the address, the most wanted first.
    ///
    /// # Errors
    /// [`SettingsError::NoSubject`] without a name of the subject, [`SettingsError::Path`] with an empty one.
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

    /// Whether the subject is something else than OpenID's `sub`.
    pub(crate) fn renames_subject(&self) -> bool {
        !matches!(&*self.subject, [only] if **only == *"sub")
    }
}

impl Default for FieldMapping {
    /// OpenID's names: `sub`, `name`, `email` (OpenID Connect Core 1.0 section 5.1).
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

/// A subject as it is told apart: a string by its characters, with `#` before one that begins so; a number as
/// its digits after `#`. So no two values are one subject, the number 1 and the string `1` neither.
pub(crate) fn subject(value: &Value) -> Option<String> {
    match value {
        Value::String(name) if name.starts_with('#') => Some(format!("#{name}")),
        Value::String(name) => Some(name.clone()),
        number => text(number).map(|digits| format!("#{digits}")),
    }
}

/// A string, or a whole number as its digits: identifiers are often numbers. A number that JSON readers
/// round is none, since two users could become one.
fn text(value: &Value) -> Option<String> {
    /// Beyond, doubles skip whole numbers.
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

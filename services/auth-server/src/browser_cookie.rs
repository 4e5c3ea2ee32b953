//! Cookie that identifies a browser.

use std::time::Duration;

use axum::body::Body;
use http::header::{COOKIE, SET_COOKIE};
use http::{HeaderMap, HeaderValue, Response};
use vmcp_auth_store::Digest;

use crate::random_tokens::{RandomUnavailable, nonce};
use crate::settings::Settings;

/// Lifetime of the browser cookie.
pub(crate) const COOKIE_LIFETIME: Duration = Duration::from_hours(720);

/// Length of a cookie's value: 32 random bytes in base64url.
const COOKIE_LENGTH: usize = 43;

/// Cookie that identifies a browser. Its value is a secret: the store has its digest only.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct BrowserCookie {
    value: String,
    is_new: bool,
}

impl BrowserCookie {
    /// Returns this server's cookie if the request has exactly one. Of two cookies, one may have been planted by another
    /// site.
    pub(crate) fn from_headers(headers: &HeaderMap, settings: &Settings) -> Option<Self> {
        let name = Self::name(settings);
        let mut found = headers
            .get_all(COOKIE)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(';'))
            .filter_map(|pair| pair.trim().split_once('='))
            .filter(|(known, _)| *known == name)
            .map(|(_, value)| value);
        let value = found.next().filter(|_| found.next().is_none())?;
        let legal = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        let ours = value.len() == COOKIE_LENGTH && value.bytes().all(legal);
        ours.then(|| Self { value: value.to_owned(), is_new: false })
    }

    /// Returns the cookie of the request, or a new one.
    pub(crate) fn from_headers_or_new(
        headers: &HeaderMap,
        settings: &Settings,
    ) -> Result<Self, RandomUnavailable> {
        match Self::from_headers(headers, settings) {
            Some(cookie) => Ok(cookie),
            None => Ok(Self { value: nonce()?, is_new: true }),
        }
    }

    /// Returns the store's key of the browser.
    pub(crate) fn digest(&self) -> Digest {
        Digest::of(["browser\0", &self.value].concat())
    }

    /// Returns the form token of the connections page. It cannot be computed without the cookie.
    pub(crate) fn form_token(&self) -> String {
        Digest::of(["form\0", &self.value].concat()).to_text()
    }

    /// Returns `true` if the cookie is new, so that the store cannot have a record of the browser.
    pub(crate) fn is_new(&self) -> bool {
        self.is_new
    }

    /// Adds the cookie to a response. For an existing cookie, this renews its lifetime.
    pub(crate) fn set_on(&self, settings: &Settings, response: &mut Response<Body>) {
        // `Lax`, because the redirect from a provider is a cross-site navigation.
        let secure = if settings.authorization_issuer().is_https() { "; Secure" } else { "" };
        let name = Self::name(settings);
        let seconds = COOKIE_LIFETIME.as_secs();
        let cookie = format!(
            "{name}={}; Path=/; HttpOnly; SameSite=Lax; Max-Age={seconds}{secure}",
            self.value
        );
        let cookie = HeaderValue::try_from(cookie).expect("a cookie's value is base64url");
        response.headers_mut().append(SET_COOKIE, cookie);
    }

    /// Returns the cookie's name. Browsers let no other host or path set a cookie with this prefix, and accept it over
    /// https only.
    fn name(settings: &Settings) -> &'static str {
        if settings.authorization_issuer().is_https() {
            "__Host-vmcp-browser"
        } else {
            "vmcp-browser"
        }
    }
}

impl std::fmt::Debug for BrowserCookie {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BrowserCookie").field("fresh", &self.is_new).finish_non_exhaustive()
    }
}

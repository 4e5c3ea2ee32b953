//! Access control for `/status`, `/metrics` and `/api/backends/*`, which show more than clients may know.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use http::header::{AUTHORIZATION, HeaderMap, HeaderValue, WWW_AUTHENTICATE};
use http::{Response, StatusCode};
use secrecy::{ExposeSecret, SecretString};
use serde_json::json;
use vmcp_core::Body;

use super::json_response;

/// Minimum length of a token, in bytes.
const MIN_TOKEN: usize = 16;

/// A bearer token for these endpoints.
#[derive(Clone)]
pub struct AdminToken(Arc<SecretString>);

/// Error of a file without a token.
#[derive(Debug, thiserror::Error)]
pub enum AdminTokenError {
    /// The file cannot be read.
    #[error("failed to read {path}: {source}")]
    Unreadable {
        /// The file.
        path: String,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// The content is not a token.
    #[error(
        "{path} must hold one line of at least {MIN_TOKEN} visible ASCII characters, such as `openssl rand -hex 32` prints"
    )]
    NoToken {
        /// The file.
        path: String,
    },
}

/// Access to the administration endpoints on one listener.
#[derive(Clone, Debug)]
pub(crate) struct AdminAccess {
    /// `true` if the listener needs no token: it is on loopback, or a separate administration listener.
    pub(crate) is_private: bool,
    /// `true` for a separate administration listener on loopback.
    pub(crate) is_loopback: bool,
    pub(crate) token: Option<AdminToken>,
}

impl AdminToken {
    /// Reads a token from a file, and ignores surrounding white space.
    ///
    /// # Errors
    /// Returns an error, which does not show the content, if the file cannot be read or does not hold a token.
    pub fn read(path: &Path) -> Result<Self, AdminTokenError> {
        let name = || path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|source| AdminTokenError::Unreadable { path: name(), source })?;
        let text = text.trim();
        let is_token = text.len() >= MIN_TOKEN && text.bytes().all(|byte| byte.is_ascii_graphic());
        let token = is_token.then(|| Self(Arc::new(text.into())));
        token.ok_or_else(|| AdminTokenError::NoToken { path: name() })
    }

    fn is_in(&self, headers: &HeaderMap) -> bool {
        let mut all = headers.get_all(AUTHORIZATION).iter();
        let (Some(value), None) = (all.next(), all.next()) else { return false };
        let value = value.as_bytes();
        let Some((scheme, token)) = value.split_at_checked(7) else { return false };
        scheme.eq_ignore_ascii_case(b"bearer ")
            && verify_slices_are_equal(token, self.0.expose_secret().as_bytes()).is_ok()
    }
}

impl AdminAccess {
    /// Checks a request for an endpoint that shows names and addresses. Listeners on a network address require the
    /// token. Returns the response to a rejected request.
    pub(crate) fn reject(&self, headers: &HeaderMap) -> Option<Response<Body>> {
        match &self.token {
            Some(token) if token.is_in(headers) => None,
            Some(_) => Some(unauthorized()),
            None if self.is_private => None,
            None => {
                let message =
                    "not on this port: see --admin-listen and --admin-token-file of vmcp serve";
                let error = json!({"error": "not_found", "message": message});
                Some(json_response(StatusCode::NOT_FOUND, &error))
            }
        }
    }

    /// Checks a request for metrics, which the configuration opens on the main port.
    pub(crate) fn reject_metrics(&self, headers: &HeaderMap) -> Option<Response<Body>> {
        let is_closed = self.token.as_ref().is_some_and(|token| !token.is_in(headers));
        is_closed.then(unauthorized)
    }
}

fn unauthorized() -> Response<Body> {
    let mut response = json_response(StatusCode::UNAUTHORIZED, &json!({"error": "unauthorized"}));
    response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    response
}

impl fmt::Debug for AdminToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AdminToken")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(values: &[&'static str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(AUTHORIZATION, HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn accepts_only_configured_token() {
        let token = AdminToken(Arc::new("0123456789abcdef".to_owned().into()));
        assert_eq!(format!("{token:?}"), "AdminToken");
        let good = ["Bearer 0123456789abcdef", "bearer 0123456789abcdef"];
        for is_private in [false, true] {
            let access = AdminAccess { is_private, is_loopback: false, token: Some(token.clone()) };
            for value in good {
                assert!(access.reject(&headers(&[value])).is_none(), "{value}");
                assert!(access.reject_metrics(&headers(&[value])).is_none(), "{value}");
            }
            for values in [
                &[][..],
                &["Bearer 0123456789abcdeg"],
                &["Bearer "],
                &["Basic 0123456789abcdef"],
                &[good[0], good[0]],
            ] {
                let rejection = access.reject(&headers(values)).unwrap();
                assert_eq!(rejection.status(), 401, "{values:?}");
                assert_eq!(access.reject_metrics(&headers(values)).unwrap().status(), 401);
            }
        }
        let public = AdminAccess { is_private: false, is_loopback: false, token: None };
        assert_eq!(public.reject(&headers(&good[..1])).unwrap().status(), 404);
        assert!(public.reject_metrics(&headers(&[])).is_none());
        assert!(
            AdminAccess { is_private: true, is_loopback: false, token: None }
                .reject(&headers(&[]))
                .is_none()
        );
    }
}

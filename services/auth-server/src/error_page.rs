//! Texts of the error pages.

use http::StatusCode;
use vmcp_auth_store::StoreError;

use crate::error::{ErrorCode, OAuthError};
use crate::provider_error::{CONFIG_MISMATCH, DENIED_BY_PROVIDER};

/// Error page: states the problem and the next step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ErrorPage {
    pub(crate) status: StatusCode,
    pub(crate) title: &'static str,
    pub(crate) text: &'static str,
    pub(crate) help: &'static str,
}

impl ErrorPage {
    pub(crate) const LOGIN_EXPIRED: Self = Self {
        status: StatusCode::BAD_REQUEST,
        title: "This login has expired",
        text: "The login is already complete, or a step took longer than ten minutes.",
        help: "Go back to the application and log in again.",
    };

    pub(crate) const OTHER_BROWSER: Self = Self {
        status: StatusCode::FORBIDDEN,
        title: "This login started in another browser",
        text: "A login must end in the browser that started it, with cookies enabled. If someone sent you a link to \
         this page, do not continue.",
        help: "Go back to the application and log in again.",
    };

    pub(crate) const MALFORMED: Self = Self {
        status: StatusCode::BAD_REQUEST,
        title: "This request is malformed",
        text: "The application sent a request that this server cannot read.",
        help: "Try again. If the error persists, contact the developer of the application.",
    };

    pub(crate) const UNKNOWN_CLIENT: Self = Self {
        status: StatusCode::BAD_REQUEST,
        title: "Unknown application",
        text: "The application is not registered, or its registration expired because it was not used.",
        help: "Remove this server from the application and add it again, so that the application registers again.",
    };

    pub(crate) const UNREGISTERED_REDIRECT_URI: Self = Self {
        status: StatusCode::BAD_REQUEST,
        title: "Unregistered redirect address",
        text: "The application requested an address that it has not registered. This server did not redirect you \
         there.",
        help: "Remove this server from the application and add it again. If the error persists, contact the developer \
         of the application.",
    };

    pub(crate) const REQUEST_REJECTED: Self = Self {
        status: StatusCode::BAD_REQUEST,
        title: "This server rejected the request",
        text: "A site sent you here with an invalid request. This server did not redirect you back, because you have \
         not given consent to that site.",
        help: "Go back only if you came from that site and trust it.",
    };

    pub(crate) const CONSENT_DENIED: Self = Self {
        status: StatusCode::OK,
        title: "You denied access",
        text: "The application received no access. You can close this page.",
        help: "Go back only if you trust the site.",
    };

    pub(crate) const UNAVAILABLE: Self = Self {
        status: StatusCode::SERVICE_UNAVAILABLE,
        title: "Temporarily unavailable",
        text: "This server cannot reach a service that it needs.",
        help: "Try again in a minute.",
    };

    pub(crate) const RATE_LIMITED: Self = Self {
        status: StatusCode::TOO_MANY_REQUESTS,
        title: "Too many requests",
        text: "Your address sent too many requests.",
        help: "Wait a minute and try again.",
    };

    pub(crate) const SERVER_ERROR: Self = Self {
        status: StatusCode::INTERNAL_SERVER_ERROR,
        title: "Server error",
        text: "This server changed nothing on your behalf.",
        help: "Try again. If the error persists, contact the operator of this server.",
    };

    pub(crate) const NOT_LOGGED_IN: Self = Self {
        status: StatusCode::FORBIDDEN,
        title: "You are not logged in",
        text: "This page shows your linked accounts after you log in from an application in the same browser.",
        help: "Log in from an application first, with cookies enabled.",
    };

    pub(crate) const INVALID_CLIENT_METADATA: Self = Self {
        status: StatusCode::BAD_REQUEST,
        title: "Invalid application metadata",
        text: "A document on the web describes this application. This server failed to fetch it, or its content is \
         not valid.",
        help: "Try again in a minute. If the error persists, contact the developer of the application.",
    };

    pub(crate) const BROWSER_FORGOTTEN: Self = Self {
        status: StatusCode::OK,
        title: "This browser is forgotten",
        text: "Your connections are unchanged, but this browser no longer shows them.",
        help: "Log in from an application to see them again.",
    };

    pub(crate) const MALFORMED_CALLBACK: Self = Self {
        status: StatusCode::BAD_REQUEST,
        title: "Malformed response of the identity provider",
        text: "The response does not name the login that it belongs to.",
        help: "Go back to the application and log in again. If the error persists, contact the operator of this \
         server.",
    };

    pub(crate) const PROVIDER_LOGIN_FAILED: Self = Self {
        status: StatusCode::BAD_GATEWAY,
        title: "The login at the identity provider failed",
        text: "Its response does not belong to this login, or arrived too late. Nothing was changed.",
        help: "Go back to your connections and try again.",
    };

    pub(crate) const DENIED_BY_PROVIDER: Self = Self {
        status: StatusCode::FORBIDDEN,
        title: "Login cancelled or denied",
        text: "You cancelled the login at the identity provider, or the provider denied it. Nothing was changed.",
        help: "Go back to your connections to try again. If the provider denies the login, ask its operator for \
         access.",
    };

    pub(crate) const CONFIG_MISMATCH: Self = Self {
        status: StatusCode::BAD_GATEWAY,
        title: "Mismatched configuration of the identity provider",
        text: "The identity provider or this server is not configured for the other. Nothing was changed.",
        help: "Contact the operator of this server.",
    };

    pub(crate) const OTHER_ACCOUNT: Self = Self {
        status: StatusCode::FORBIDDEN,
        title: "This is another account",
        text: "You logged in at the identity provider with another account than the one of this connection. Nothing \
         was changed.",
        help: "Log out at the identity provider and link again with the same account.",
    };
}

impl ErrorPage {
    /// Converts an error to the page for a login that no client started.
    pub(crate) fn of_login(error: &OAuthError) -> Self {
        // The page does not depend on the provider that caused the error.
        let mut error = error.clone();
        error.upstream = None;
        match error.code {
            _ if error == DENIED_BY_PROVIDER => Self::DENIED_BY_PROVIDER,
            ErrorCode::AccessDenied => Self::PROVIDER_LOGIN_FAILED,
            _ if error == CONFIG_MISMATCH => Self::CONFIG_MISMATCH,
            _ => Self::from(&error),
        }
    }
}

impl From<&OAuthError> for ErrorPage {
    fn from(error: &OAuthError) -> Self {
        match error.status() {
            StatusCode::TOO_MANY_REQUESTS => Self::RATE_LIMITED,
            StatusCode::SERVICE_UNAVAILABLE => Self::UNAVAILABLE,
            StatusCode::INTERNAL_SERVER_ERROR => Self::SERVER_ERROR,
            _ => Self::MALFORMED,
        }
    }
}

impl From<OAuthError> for ErrorPage {
    fn from(error: OAuthError) -> Self {
        Self::from(&error)
    }
}

impl From<StoreError> for ErrorPage {
    fn from(error: StoreError) -> Self {
        OAuthError::from(error).into()
    }
}

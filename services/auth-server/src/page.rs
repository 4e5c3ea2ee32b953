//! HTML pages for users: no scripts, and headers that prevent framing and foreign content.

mod connections;
mod consent;

use aws_lc_rs::digest;
use axum::body::Body;
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, LOCATION, REFERRER_POLICY,
    RETRY_AFTER, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use http::{HeaderValue, StatusCode};
use maud::{DOCTYPE, Markup, PreEscaped, html};

pub(crate) use self::connections::{
    AccountChangePage, Connection, ConnectionsPage, Link, ProviderConnection,
};
pub(crate) use self::consent::ConsentPage;
use crate::error::OAuthError;
use crate::error_page::ErrorPage;

const STYLE: &str = include_str!("page/style.css");

/// Renderer of the pages.
#[derive(Debug)]
pub(crate) struct Pages {
    /// Display name of the server.
    name: String,
    policy: HeaderValue,
}

impl Pages {
    pub(crate) fn new(name: &str) -> Self {
        let hash = STANDARD.encode(digest::digest(&digest::SHA256, STYLE.as_bytes()));
        let policy = format!(
            "default-src 'none'; style-src 'sha256-{hash}'; form-action 'self'; \
             frame-ancestors 'none'; base-uri 'none'"
        );
        let policy = HeaderValue::try_from(policy).expect("base64 and fixed text fit a header");
        Self { name: name.to_owned(), policy }
    }

    /// Renders an error page.
    pub(crate) fn error(&self, page: ErrorPage) -> Response {
        let ErrorPage { status, title, text, help } = page;
        let content = html! {
            h1 { (title) }
            p { (text) }
            p { (help) }
        };
        let mut response = self.page(status, title, None, &content);
        if matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
            // The page states the same minute.
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("60"));
        }
        response
    }

    /// Redirects the browser by a page after a form was submitted, not by an HTTP redirect: browsers apply the
    /// `form-action` policy of the form's page to all redirects that follow, including those of a provider.
    pub(crate) fn continue_to(&self, to: &str, place: &str) -> Response {
        let refresh = html! { meta http-equiv="refresh" content={ "0;url=" (to) }; };
        let content = html! {
            h1 { "Redirecting" }
            p { "Redirecting to " strong { bdi { (place) } } "." }
            p { a href=(to) rel="noreferrer" { "Continue" } }
        };
        self.page(StatusCode::OK, "Redirecting", Some(&refresh), &content)
    }

    /// Renders a page with a link to a site, which the user may follow.
    pub(crate) fn return_page(
        &self,
        page: ErrorPage,
        error: &OAuthError,
        to: &str,
        place: &str,
    ) -> Response {
        let ErrorPage { status, title, text, help } = page;
        let content = html! {
            h1 { (title) }
            p { (text) }
            p { "The site receives this error: " (error.description) " (" code { (error.code.name()) } ")." }
            p { (help) }
            p { a href=(to) rel="noreferrer" { "Go back to " bdi { (place) } } }
        };
        self.page(status, title, None, &content)
    }

    fn page(
        &self,
        status: StatusCode,
        title: &str,
        head: Option<&Markup>,
        content: &Markup,
    ) -> Response {
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="robots" content="noindex";
                    @if let Some(head) = head { (head) }
                    title { (title) " – " (self.name) }
                    style { (PreEscaped(STYLE)) }
                }
                body { main { (content) } }
            }
        };
        let mut response = Response::new(Body::from(page.into_string()));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
        headers.insert(CONTENT_SECURITY_POLICY, self.policy.clone());
        for (name, value) in HEADERS {
            headers.insert(name, HeaderValue::from_static(value));
        }
        response
    }
}

/// Headers of all pages and redirects.
const HEADERS: [(HeaderName, &str); 4] = [
    (X_FRAME_OPTIONS, "DENY"),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (REFERRER_POLICY, "no-referrer"),
    (CACHE_CONTROL, "no-store"),
];

/// Redirects the browser with GET (RFC 9700 section 4.12).
pub(crate) fn redirect(to: &str) -> Response {
    let mut response = Response::new(Body::empty());
    // Invariant: the address was parsed as a URI, and its parameters are escaped.
    let Ok(location) = HeaderValue::try_from(to) else {
        tracing::error!("failed to redirect browser: the address does not fit a header");
        *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
        return response;
    };
    *response.status_mut() = StatusCode::SEE_OTHER;
    response.headers_mut().insert(LOCATION, location);
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests;

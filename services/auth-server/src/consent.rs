//! Consent endpoint: receives the user's decision.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use vmcp_auth_store::{ClientId, Digest, Login, Stage};

use crate::auth_server::{AppState, EndpointClass};
use crate::error::{ErrorCode, OAuthError};
use crate::event::{Event, EventKind};
use crate::extract::{BrowserCookie, form, peer_address};
use crate::login::consent_login_key;
use crate::page::ErrorPage;
use crate::params::Params;
use crate::redirect_uri::RedirectUri;

/// Handles `POST` of the consent page.
pub(crate) async fn decide(State(server): State<Arc<AppState>>, request: Request) -> Response {
    match server.decide(request).await {
        Ok(response) => response,
        Err(page) => server.error_page(server.record_error_page(None, page)),
    }
}

/// Handles `GET` of the consent page, which is a reload: without the form, the login is unknown.
pub(crate) async fn reload(State(server): State<Arc<AppState>>, request: Request) -> Response {
    let admitted = server.admit(EndpointClass::Page, peer_address(&request));
    server.error_page(
        admitted.map_or_else(|error| ErrorPage::from(&error), |()| ErrorPage::LOGIN_EXPIRED),
    )
}

/// Returns `true` if the browser's headers say that the form is from a page of this server. The form's token is the actual
/// check; this one rejects earlier.
pub(crate) fn is_same_origin_form(request: &Request) -> bool {
    let site = request.headers().get("sec-fetch-site");
    site.is_none_or(|site| site == "same-origin")
}

impl AppState {
    async fn decide(&self, request: Request) -> Result<Response, ErrorPage> {
        self.admit(EndpointClass::Page, peer_address(&request))
            .map_err(|error| ErrorPage::from(&error))?;
        if !is_same_origin_form(&request) {
            return Err(ErrorPage::OTHER_BROWSER);
        }
        let cookie = BrowserCookie::from_headers(request.headers(), &self.settings);
        let cookie = cookie.ok_or(ErrorPage::OTHER_BROWSER)?;
        let text = form(request).await.map_err(ErrorPage::from)?;
        let params = Params::parse(&text).map_err(|_| ErrorPage::MALFORMED)?;
        if params.has_repeated() {
            return Err(ErrorPage::MALFORMED);
        }
        let key = consent_login_key(params.get("id").ok_or(ErrorPage::MALFORMED)?);
        let login = self
            .store
            .login(&key)
            .await
            .map_err(|error| ErrorPage::from(&OAuthError::from(error)))?;
        let login = login.ok_or(ErrorPage::LOGIN_EXPIRED)?;
        let Stage::AwaitConsent { csrf } = &login.stage else {
            return Err(ErrorPage::LOGIN_EXPIRED);
        };
        let given = params.get("csrf").map(Digest::of);
        if given != Some(*csrf) || login.browser != cookie.digest() {
            return Err(ErrorPage::OTHER_BROWSER);
        }
        match params.get("decision") {
            Some("allow") => {}
            Some("deny") => {
                let error = OAuthError::new(ErrorCode::AccessDenied, "the user denied consent");
                let login = self.take_login(&key).await?;
                self.report(Event::of_login(&login, EventKind::ConsentDenied));
                let (to, place) = self.client_redirect(&login, &error)?;
                // A user who denies a client is not redirected to it without following a link, whatever kind of client it
                // is (RFC 9700 section 4.11.2).
                return Ok(self.pages.return_page(
                    ErrorPage::CONSENT_DENIED,
                    &error,
                    &to,
                    place.destination(),
                ));
            }
            _ => return Err(ErrorPage::MALFORMED),
        }
        let upstream = self.upstreams.first().ok_or(ErrorPage::SERVER_ERROR)?;
        let (client, session) = (login.client().cloned(), login.session);
        match self.redirect_to_upstream(login, upstream, Some(&key)).await {
            Ok(Some(to)) => {
                let client = client.as_ref().map(ClientId::as_str);
                self.report(Event::of(client, EventKind::ConsentGiven).with_session(session));
                Ok(self.pages.continue_to(&to.to_string(), to.host().unwrap_or_default()))
            }
            Ok(None) => Err(ErrorPage::LOGIN_EXPIRED),
            Err(error) => {
                let login = self.take_login(&key).await?;
                self.record_login_failure(&login, &error);
                let (to, place) = self.client_redirect(&login, &error)?;
                Ok(self.pages.continue_to(&to, place.destination()))
            }
        }
    }

    /// Takes the login from the store. The take is atomic: of several requests, one gets it.
    async fn take_login(&self, key: &Digest) -> Result<Login, ErrorPage> {
        let login = self.store.take_login(key).await;
        login
            .map_err(|error| ErrorPage::from(&OAuthError::from(error)))?
            .ok_or(ErrorPage::LOGIN_EXPIRED)
    }

    /// Returns the redirect that reports the error to the client, and the client's redirect URI.
    fn client_redirect(
        &self,
        login: &Login,
        error: &OAuthError,
    ) -> Result<(String, RedirectUri), ErrorPage> {
        let to = self.login_error_redirect(login, error).ok_or(ErrorPage::SERVER_ERROR)?;
        let place = RedirectUri::parse(&to).map_err(|_| ErrorPage::SERVER_ERROR)?;
        Ok((to, place))
    }
}

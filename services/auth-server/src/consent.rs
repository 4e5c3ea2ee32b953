//! Consent endpoint: receives the user's decision.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use vmcp_auth_store::{ClientId, Digest, Login, Stage, Store};

use crate::browser_cookie::BrowserCookie;
use crate::error::{ErrorCode, OAuthError};
use crate::error_page::ErrorPage;
use crate::event::{Event, EventKind};
use crate::event_reporter::{EventReporter, RequestEvents};
use crate::extract::{is_same_origin_form, peer_address, read_form};
use crate::login::{LoginRedirector, consent_login_key};
use crate::page::Pages;
use crate::params::Params;
use crate::rate_limits::{EndpointClass, RateLimiters};
use crate::redirect_uri::RedirectUri;
use crate::settings::Settings;
use crate::upstream_provider::UpstreamProviders;

/// State of the consent endpoint.
pub(crate) struct ConsentEndpoint {
    pub(crate) settings: Arc<Settings>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) providers: UpstreamProviders,
    pub(crate) limiters: Arc<RateLimiters>,
    pub(crate) pages: Arc<Pages>,
    pub(crate) events: EventReporter,
    pub(crate) logins: LoginRedirector,
}

/// Handles `POST` of the consent page.
pub(crate) async fn decide(
    State(endpoint): State<Arc<ConsentEndpoint>>,
    request: Request,
) -> Response {
    let events = endpoint.events.for_request(&request);
    match endpoint.decide(request, &events).await {
        Ok(response) => response,
        Err(page) => endpoint.pages.error(events.report_error_page(None, page)),
    }
}

/// Handles `GET` of the consent page, which is a reload: without the form, the login is unknown.
pub(crate) async fn reload(
    State(endpoint): State<Arc<ConsentEndpoint>>,
    request: Request,
) -> Response {
    let admitted = endpoint.limiters.admit(EndpointClass::Page, peer_address(&request));
    endpoint
        .pages
        .error(admitted.map_or_else(|error| ErrorPage::from(&error), |()| ErrorPage::LOGIN_EXPIRED))
}

impl ConsentEndpoint {
    async fn decide(
        &self,
        request: Request,
        events: &RequestEvents,
    ) -> Result<Response, ErrorPage> {
        self.limiters.admit(EndpointClass::Page, peer_address(&request))?;
        if !is_same_origin_form(&request) {
            return Err(ErrorPage::OTHER_BROWSER);
        }
        let cookie = BrowserCookie::from_headers(request.headers(), &self.settings);
        let cookie = cookie.ok_or(ErrorPage::OTHER_BROWSER)?;
        let text = read_form(request).await?;
        let params = Params::parse(&text).map_err(|_| ErrorPage::MALFORMED)?;
        if params.has_repeated() {
            return Err(ErrorPage::MALFORMED);
        }
        let key = consent_login_key(params.get("id").ok_or(ErrorPage::MALFORMED)?);
        let login = self.store.login(&key).await?;
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
                events.report(Event::of_login(&login, EventKind::ConsentDenied));
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
        let upstream = self.providers.first();
        let (client, session) = (login.client().cloned(), login.session);
        match self.logins.redirect_to_upstream(login, upstream, Some(&key)).await {
            Ok(Some(to)) => {
                let client = client.as_ref().map(ClientId::as_str);
                events.report(Event::new(client, EventKind::ConsentGiven).with_session(session));
                let host = to.host().unwrap_or(upstream.name.as_str());
                Ok(self.pages.continue_to(&to.to_string(), host))
            }
            Ok(None) => Err(ErrorPage::LOGIN_EXPIRED),
            Err(error) => {
                let login = self.take_login(&key).await?;
                events.report_login_failure(&login, &error);
                let (to, place) = self.client_redirect(&login, &error)?;
                Ok(self.pages.continue_to(&to, place.destination()))
            }
        }
    }

    /// Takes the login from the store. The take is atomic: of several requests, one gets it.
    async fn take_login(&self, key: &Digest) -> Result<Login, ErrorPage> {
        let login = self.store.take_login(key).await;
        login?.ok_or(ErrorPage::LOGIN_EXPIRED)
    }

    /// Returns the redirect that reports the error to the client, and the client's redirect URI.
    fn client_redirect(
        &self,
        login: &Login,
        error: &OAuthError,
    ) -> Result<(String, RedirectUri), ErrorPage> {
        let to = self.logins.login_error_redirect(login, error).ok_or(ErrorPage::SERVER_ERROR)?;
        let place = RedirectUri::parse(&to).map_err(|_| ErrorPage::SERVER_ERROR)?;
        Ok((to, place))
    }
}

//! Consent endpoint: receives the user's decision.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use vmcp_auth_store::{ClientId, Digest, Login, Stage};

use crate::error::{Code, Fault};
use crate::event::{Event, Happened};
use crate::flow::consent_key;
use crate::intake::{BrowserCookie, form, peer};
use crate::page::Trouble;
use crate::params::Params;
use crate::redirect::RedirectUri;
use crate::server::{Asked, Inner};

/// Handles `POST` of the consent page.
pub(crate) async fn decide(State(server): State<Arc<Inner>>, request: Request) -> Response {
    match server.decide(request).await {
        Ok(response) => response,
        Err(trouble) => server.trouble(server.stopped(None, trouble)),
    }
}

/// Handles `GET` of the consent page, which is a reload: without the form, the login is unknown.
pub(crate) async fn asked(State(server): State<Arc<Inner>>, request: Request) -> Response {
    let admitted = server.admit(Asked::Page, peer(&request));
    server.trouble(admitted.map_or_else(|fault| Trouble::from(&fault), |()| Trouble::EXPIRED))
}

/// Returns `true` if the browser's headers say that the form is from a page of this server. The form's token is the actual
/// check; this one rejects earlier.
pub(crate) fn is_own_form(request: &Request) -> bool {
    let site = request.headers().get("sec-fetch-site");
    site.is_none_or(|site| site == "same-origin")
}

impl Inner {
    async fn decide(&self, request: Request) -> Result<Response, Trouble> {
        self.admit(Asked::Page, peer(&request)).map_err(|fault| Trouble::from(&fault))?;
        if !is_own_form(&request) {
            return Err(Trouble::OTHER_BROWSER);
        }
        let cookie = BrowserCookie::sent(request.headers(), &self.settings);
        let cookie = cookie.ok_or(Trouble::OTHER_BROWSER)?;
        let text = form(request).await.map_err(Trouble::from)?;
        let params = Params::parse(&text).map_err(|_| Trouble::MALFORMED)?;
        if params.any_twice() {
            return Err(Trouble::MALFORMED);
        }
        let key = consent_key(params.get("id").ok_or(Trouble::MALFORMED)?);
        let login =
            self.store.login(&key).await.map_err(|error| Trouble::from(&Fault::from(error)))?;
        let login = login.ok_or(Trouble::EXPIRED)?;
        let Stage::AwaitConsent { csrf } = &login.stage else { return Err(Trouble::EXPIRED) };
        let given = params.get("csrf").map(Digest::of);
        if given != Some(*csrf) || login.browser != cookie.digest() {
            return Err(Trouble::OTHER_BROWSER);
        }
        match params.get("decision") {
            Some("allow") => {}
            Some("deny") => {
                let fault = Fault::new(Code::AccessDenied, "the user did not allow it");
                let login = self.end(&key).await?;
                self.tell(Event::of_login(&login, Happened::ConsentDenied));
                let (to, place) = self.back(&login, &fault)?;
                // A user who denies a client is not redirected to it without following a link, whatever kind of client it
                // is (RFC 9700 section 4.11.2).
                return Ok(self.pages.way_back(Trouble::DENIED, &fault, &to, place.place()));
            }
            _ => return Err(Trouble::MALFORMED),
        }
        let leg = self.upstreams.first().ok_or(Trouble::BROKEN)?;
        let (client, session) = (login.client().cloned(), login.session);
        match self.go_on(login, leg, Some(&key)).await {
            Ok(Some(to)) => {
                let client = client.as_ref().map(ClientId::as_str);
                self.tell(Event::of(client, Happened::ConsentGiven).within(session));
                Ok(self.pages.leave(&to.to_string(), to.host().unwrap_or_default()))
            }
            Ok(None) => Err(Trouble::EXPIRED),
            Err(fault) => {
                let login = self.end(&key).await?;
                self.failed(&login, &fault);
                let (to, place) = self.back(&login, &fault)?;
                Ok(self.pages.leave(&to, place.place()))
            }
        }
    }

    /// Takes the login from the store. The take is atomic: of several requests, one gets it.
    async fn end(&self, key: &Digest) -> Result<Login, Trouble> {
        let login = self.store.take_login(key).await;
        login.map_err(|error| Trouble::from(&Fault::from(error)))?.ok_or(Trouble::EXPIRED)
    }

    /// Returns the redirect that reports the error to the client, and the client's redirect URI.
    fn back(&self, login: &Login, fault: &Fault) -> Result<(String, RedirectUri), Trouble> {
        let to = self.login_error_uri(login, fault).ok_or(Trouble::BROKEN)?;
        let place = RedirectUri::parse(&to).map_err(|_| Trouble::BROKEN)?;
        Ok((to, place))
    }
}

//! Callback endpoint, to which upstream providers redirect browsers (RFC 6749 section 4.1.2).

mod link;

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::response::Response;
use http::HeaderMap;
use secrecy::ExposeSecret;
use vmcp_auth_store::{
    AuthorizationCodeData, Consent, Login, LoginPurpose, Profile, ReauthOptions, Stage, Subject,
    SubjectName, Timestamp, UserId,
};
use vmcp_upstream::{AuthorizationDenied, AuthorizationResponse, AuthorizationResponseError};

use crate::Scopes;
use crate::error::{Code, Fault};
use crate::event::{Event, Happened};
use crate::flow::{Stop, state_key, upstream_fault};
use crate::intake::{BROWSER, BrowserCookie, peer};
use crate::metadata::path;
use crate::opaque::{NoRandomness, random};
use crate::page::{OtherAccount, Trouble, redirect};
use crate::params::Params;
use crate::redirect::RedirectUri;
use crate::server::{Asked, Inner, Leg};

/// Tolerated clock difference between a provider and this server.
const SLACK: Duration = Duration::from_secs(60);

/// Error for the client when the configuration changed during its login.
const CHANGED: Fault =
    Fault::new(Code::AccessDenied, "the identity provider changed meanwhile: try again");

/// Handles `GET` of a callback.
pub(crate) async fn callback(State(server): State<Arc<Inner>>, request: Request) -> Response {
    let path = request.uri().path().to_owned();
    let query = request.uri().query().unwrap_or_default().to_owned();
    let address = peer(&request);
    if let Err(fault) = server.admit(Asked::Page, address) {
        return server.trouble(server.stopped(None, Trouble::from(&fault)));
    }
    let own = server.settings.return_path();
    let path = path.strip_prefix(&own).unwrap_or(&path);
    match server.arrive(request.headers(), path, &query).await {
        Ok(response) => response,
        Err(trouble) => server.trouble(trouble),
    }
}

/// Handles `GET` of a callback at another origin than that of the authorization endpoint. The cookie that binds the browser
/// to its login is not sent to that origin, so the browser is redirected with the response to the return path at the
/// authorization endpoint.
pub(crate) async fn forward(State(server): State<Arc<Inner>>, request: Request) -> Response {
    if let Err(fault) = server.admit(Asked::Page, peer(&request)) {
        return server.trouble(server.stopped(None, Trouble::from(&fault)));
    }
    let uri = request.uri();
    let (base, query) = (server.settings.front().as_str(), uri.query().unwrap_or_default());
    redirect(&format!("{base}{}{}?{query}", path::RETURN, uri.path()))
}

impl Inner {
    /// Takes the login of this `state` from the store and continues it. The take is atomic: of several requests with the
    /// same `state`, one succeeds.
    async fn arrive(
        &self,
        headers: &HeaderMap,
        path: &str,
        query: &str,
    ) -> Result<Response, Trouble> {
        let stopped = |trouble| self.stopped(None, trouble);
        let params = Params::parse(query.as_bytes()).map_err(|_| stopped(Trouble::ANSWER))?;
        let state = params.get("state").filter(|_| !params.is_twice("state"));
        let key = state_key(state.ok_or_else(|| stopped(Trouble::ANSWER))?);
        let login = self
            .store
            .take_login(&key)
            .await
            .map_err(|error| stopped(Trouble::from(&Fault::from(error))))?;
        let login = login.ok_or_else(|| stopped(Trouble::EXPIRED))?;
        let cookie = BrowserCookie::sent(headers, &self.settings);
        let Some(cookie) = cookie.filter(|cookie| cookie.digest() == login.browser) else {
            tracing::warn!("a login came back in another browser than it began in");
            self.clear(&login).await;
            return Err(self.stopped(Some(&login), Trouble::OTHER_BROWSER));
        };
        match self.continue_login(&login, &cookie, &params, path).await {
            Ok(mut response) => {
                cookie.send(&self.settings, &mut response);
                Ok(response)
            }
            Err(stop) => {
                self.clear(&login).await;
                let fault = match stop {
                    Stop::Person(trouble) => return Err(self.stopped(Some(&login), trouble)),
                    Stop::Client(fault) => fault,
                };
                self.failed(&login, &fault);
                // Without a client, the error goes to the user.
                let to = self.login_error_uri(&login, &fault);
                to.map(|to| redirect(&to)).ok_or_else(|| Trouble::of_login(&fault))
            }
        }
    }

    /// Ends the session of a failed login, with the tokens stored so far. If that fails, the session expires.
    async fn clear(&self, login: &Login) {
        if matches!(login.aim, LoginPurpose::Authorize(_)) {
            let _ = self.store.end_session(&login.session).await;
        }
    }

    async fn continue_login(
        &self,
        login: &Login,
        cookie: &BrowserCookie,
        params: &Params<'_>,
        path: &str,
    ) -> Result<Response, Stop> {
        let Stage::AwaitUpstream { provider, leg: sealed } = &login.stage else {
            return Err(Stop::Person(Trouble::EXPIRED));
        };
        let (at, leg) = self.upstream(provider).ok_or(Stop::Client(Fault::server()))?;
        if params.any_twice() || leg.provider.redirect_uri().path() != path {
            return Err(Stop::Client(Fault::new(
                Code::AccessDenied,
                "the identity provider's answer is malformed",
            )));
        }
        // The provider's own error text is neither shown nor forwarded.
        let outcome = match (params.get("error"), params.get("code")) {
            (Some(error), _) => Err(AuthorizationDenied::from_code(error)),
            (None, Some(code)) => Ok(code.into()),
            (None, None) => {
                let words = "the identity provider's answer has neither a code nor an error";
                return Err(Stop::Client(Fault::new(Code::AccessDenied, words)));
            }
        };
        let iss = params.get("iss");
        if iss.is_some_and(|iss| self.is_of_another(leg, iss)) {
            tracing::warn!(provider = %leg.name, "another upstream provider's answer came to a login");
            let fault = vmcp_upstream::ProviderError::from(AuthorizationResponseError::WrongIssuer);
            return Err(Stop::Client(upstream_fault(&fault).at(at)));
        }
        let answer = AuthorizationResponse { outcome, iss: iss.map(str::to_owned) };
        let kept = self.open("leg", login.session, leg, sealed).map_err(|error| {
            tracing::warn!(provider = %leg.name, %error, "a login was begun at another provider or with another secret");
            Stop::Client(CHANGED)
        })?;
        let came = leg.provider.finish(&kept, answer).await.map_err(|fault| {
            tracing::warn!(provider = %leg.name, %fault, "a login failed at an upstream provider");
            Stop::Client(upstream_fault(&fault).at(at))
        })?;
        let (user, profile) = self.who(login, at, leg, &came).await?;
        let mut login = Login { user: Some(user.clone()), profile, ..login.clone() };
        if at > 0 && self.is_other_account(&login, leg, &came).await.map_err(Stop::Client)? {
            return Ok(self.pages.other_account(&OtherAccount {
                provider: leg.name.as_str(),
                who: came.email.as_deref().or(came.name.as_deref()),
                session: &login.session.to_text(),
                csrf: &cookie.form_token(),
                base: self.settings.front().path(),
            }));
        }
        if at == 0 {
            login.authenticated = self.authenticated(&login, &came).map_err(Stop::Client)?;
        }
        self.link(&login, leg, came.tokens).await.map_err(Stop::Client)?;
        let LoginPurpose::Authorize(request) = &login.aim else {
            return Ok(redirect(&self.page(path::CONNECTIONS)));
        };
        if let Some(next) = self.upstreams.get(at + 1) {
            let to = self.go_on(login.clone(), next, None).await.map_err(Stop::Client)?;
            let to = to.ok_or(Stop::Person(Trouble::EXPIRED))?;
            return Ok(redirect(&to.to_string()));
        }
        self.finish(&login, &user, request, cookie).await.map_err(Stop::Client)
    }

    /// Returns `true` if `iss` in a response names another provider than this one, which may have no known issuer (RFC 9207
    /// section 2.4, RFC 9700 section 4.4.2).
    fn is_of_another(&self, leg: &Leg, iss: &str) -> bool {
        let mut others = self.upstreams.iter().filter(|other| other.name != leg.name);
        others.any(|other| other.provider.issuer() == Some(iss)) && !leg.provider.may_be(iss)
    }

    /// Returns the time of the user's authentication. The provider enforces `prompt` and `max_age`, but the browser can
    /// drop them from the redirect, so they are verified here (OpenID Connect Core 1.0 section 3.1.2.1).
    fn authenticated(
        &self,
        login: &Login,
        came: &vmcp_upstream::Login,
    ) -> Result<Option<Timestamp>, Fault> {
        let now = self.now();
        let at = came.authenticated.map(|at| Timestamp::from(at).min(now));
        let LoginPurpose::Authorize(request) = &login.aim else { return Ok(at) };
        let ReauthOptions { login: anew, select_account: _, max_age } = request.fresh;
        let is_since = |least: Timestamp| at.is_some_and(|at| at + SLACK >= least);
        let old = max_age.is_some_and(|age| {
            at.is_none_or(|at| now.since(at) > SLACK + Duration::from_secs(age.into()))
        });
        if old || anew && at.is_some() && !is_since(login.created) {
            return Err(Fault::new(
                Code::LoginRequired,
                "the identity provider did not have the user log in as lately as is wanted",
            ));
        }
        Ok(at)
    }

    /// Returns the user of the login. The first provider identifies the user; the others only add links.
    async fn who(
        &self,
        login: &Login,
        at: usize,
        leg: &Leg,
        came: &vmcp_upstream::Login,
    ) -> Result<(UserId, Profile), Stop> {
        let server = |_| Stop::Client(Fault::server());
        if at > 0 {
            // Invariant: every login passes the first provider, which sets the user, before any other.
            let user = login.user.clone().ok_or(Stop::Client(Fault::server()))?;
            return Ok((user, login.profile.clone()));
        }
        let text = |text: &Option<Box<str>>| text.as_deref().map(str::to_owned);
        let (name, email) = (text(&came.name), text(&came.email));
        let profile = Profile { name, email, email_verified: came.email_verified };
        let user = if came.is_synthetic {
            UserId::new(&*came.subject).map_err(server)?
        } else {
            let name = SubjectName::new(&*came.subject).map_err(server)?;
            let (provider, issuer) = (leg.name.clone(), leg.issuer.clone());
            let subject = Subject { provider, issuer, name };
            let proposed = user_id().map_err(|error| Stop::Client(error.into()))?;
            let found = self.store.upsert_user(&subject, &proposed, &profile).await;
            found.map_err(|error| Stop::Client(error.into()))?
        };
        match (&login.aim, &login.user) {
            // Another user than the one with the stored consent logged in. Without the browser's record, the next
            // attempt shows the consent page.
            (LoginPurpose::Authorize(_), Some(known)) if *known != user => {
                self.store
                    .remove_browser(&login.browser)
                    .await
                    .map_err(|error| Stop::Client(error.into()))?;
                let words = "another account logged in than before: try again";
                Err(Stop::Client(Fault::new(Code::AccessDenied, words)))
            }
            // Synthetic subjects are new at each login, so a difference does not show another user.
            (LoginPurpose::Relink | LoginPurpose::LinkOther, Some(known))
                if *known != user && !came.is_synthetic =>
            {
                Err(Stop::Person(Trouble::OTHER_ACCOUNT))
            }
            (LoginPurpose::Relink | LoginPurpose::LinkOther, Some(known)) => {
                Ok((known.clone(), profile))
            }
            (LoginPurpose::Authorize(_) | LoginPurpose::Relink | LoginPurpose::LinkOther, _) => {
                Ok((user, profile))
            }
        }
    }

    /// Redirects the client with its code and stores the consent.
    async fn finish(
        &self,
        login: &Login,
        user: &UserId,
        request: &vmcp_auth_store::AuthorizationRequest,
        cookie: &BrowserCookie,
    ) -> Result<Response, Fault> {
        let to = RedirectUri::parse(&request.redirect_uri).map_err(|_| Fault::server())?;
        let now = self.now();
        let seed = AuthorizationCodeData {
            client: request.client.clone(),
            redirect_uri: request.redirect_uri.clone(),
            challenge: request.challenge,
            scopes: request.scopes.clone(),
            resource: request.resource.clone(),
            nonce: request.nonce.clone(),
            refresh: request.refresh,
            session: login.session,
            user: user.clone(),
            profile: login.profile.clone(),
            authenticated: login.authenticated.unwrap_or(now),
        };
        let code = self.settings.hmac.code()?;
        let key = self.settings.hmac.open_code(code.expose_secret()).ok_or(Fault::server())?;
        if !self.store.put_code(&key, &seed, self.settings.lifespans.code()).await? {
            return Err(Fault::new(Code::AccessDenied, "the session ended meanwhile"));
        }
        let consent = Consent {
            client: request.client.clone(),
            redirect_uri: to.without_port(),
            scopes: Scopes::stored(&request.scopes).agreed(request.refresh).to_vec(),
            given: now,
            expires: now + BROWSER,
        };
        // The login succeeds either way: without a stored consent, the next one shows the consent page. A consent of a
        // synthetic user is not stored, since it would apply to the next user of this browser.
        let consent = Some(&consent).filter(|_| !user.is_synthetic());
        if let Err(error) = self.store.put_browser(&cookie.digest(), user, consent, BROWSER).await {
            tracing::warn!(%error, "a consent is not remembered");
        }
        let (scopes, resource) = (&*request.scopes, request.resource.as_deref());
        self.tell(Event::of_login(login, Happened::LoginCompleted { scopes, resource }));
        Ok(redirect(&to.with(&[
            ("code", code.expose_secret()),
            ("state", request.state.as_deref().unwrap_or_default()),
            ("iss", self.issuer()),
        ])))
    }

    /// Returns the address of a page.
    pub(crate) fn page(&self, path: &str) -> String {
        format!("{}{path}", self.settings.front().as_str())
    }
}

/// Returns the identifier of a new user (RFC 9562 section 5.4).
fn user_id() -> Result<UserId, NoRandomness> {
    UserId::new(uuid()?).map_err(|_| NoRandomness)
}

/// Returns a random UUID.
pub(crate) fn uuid() -> Result<String, NoRandomness> {
    let mut bytes: [u8; 16] = random()?;
    bytes[6] = (bytes[6] & 0x0f) | 0x40;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    let bits = u128::from_be_bytes(bytes);
    Ok(format!(
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        bits >> 96,
        (bits >> 80) & 0xffff,
        (bits >> 64) & 0xffff,
        (bits >> 48) & 0xffff,
        bits & 0xffff_ffff_ffff,
    ))
}

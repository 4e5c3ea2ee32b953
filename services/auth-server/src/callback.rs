//! Callback endpoint, to which upstream providers redirect browsers (RFC 6749 section 4.1.2).

mod upstream_link;

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::response::Response;
use http::HeaderMap;
use secrecy::ExposeSecret;
use vmcp_auth_store::{
    AuthorizationCodeData, Consent, Login, LoginPurpose, Profile, ReauthOptions, Stage, Store,
    Subject, SubjectName, Timestamp, UserId,
};
use vmcp_core::Clock;
use vmcp_upstream::{AuthorizationDenied, AuthorizationResponse, AuthorizationResponseError};

pub(crate) use self::upstream_link::UpstreamLinks;
use crate::browser_cookie::{BrowserCookie, COOKIE_LIFETIME};
use crate::error::{ErrorCode, OAuthError};
use crate::error_page::ErrorPage;
use crate::event::{Event, EventKind};
use crate::event_reporter::{EventReporter, RequestEvents};
use crate::extract::peer_address;
use crate::login::{LoginError, LoginRedirector, upstream_login_key};
use crate::page::{AccountChangePage, Pages, redirect};
use crate::params::Params;
use crate::path;
use crate::provider_error::provider_error;
use crate::random_tokens::{RandomUnavailable, uuid};
use crate::rate_limits::{EndpointClass, RateLimiters};
use crate::redirect_uri::RedirectUri;
use crate::scope::Scopes;
use crate::settings::Settings;
use crate::upstream_cipher::UpstreamCipher;
use crate::upstream_provider::{UpstreamProvider, UpstreamProviders};

/// Tolerated clock difference between a provider and this endpoint.
const CLOCK_TOLERANCE: Duration = Duration::from_mins(1);

/// Error for the client when the configuration changed during its login.
const PROVIDER_CHANGED: OAuthError = OAuthError::new(
    ErrorCode::AccessDenied,
    "failed to complete login: the configuration of the identity provider changed; log in again",
);

/// State of the callback endpoint.
pub(crate) struct CallbackEndpoint {
    pub(crate) settings: Arc<Settings>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Clock,
    pub(crate) providers: UpstreamProviders,
    pub(crate) limiters: Arc<RateLimiters>,
    pub(crate) pages: Arc<Pages>,
    pub(crate) events: EventReporter,
    pub(crate) logins: LoginRedirector,
    pub(crate) cipher: UpstreamCipher,
    pub(crate) links: UpstreamLinks,
}

/// Handles `GET` of a callback.
pub(crate) async fn callback(
    State(endpoint): State<Arc<CallbackEndpoint>>,
    request: Request,
) -> Response {
    let path = request.uri().path().to_owned();
    let query = request.uri().query().unwrap_or_default().to_owned();
    let address = peer_address(&request);
    let events = endpoint.events.for_request(&request);
    if let Err(error) = endpoint.limiters.admit(EndpointClass::Page, address) {
        return endpoint.pages.error(events.report_error_page(None, ErrorPage::from(&error)));
    }
    let own = endpoint.settings.return_path();
    let path = path.strip_prefix(&own).unwrap_or(&path);
    match endpoint.handle_callback(request.headers(), path, &query, &events).await {
        Ok(response) => response,
        Err(page) => endpoint.pages.error(page),
    }
}

/// Handles `GET` of a callback at another origin than that of the authorization endpoint. The cookie that binds the browser
/// to its login is not sent to that origin, so the browser is redirected with the response to the return path at the
/// authorization endpoint.
pub(crate) async fn forward_callback(
    State(endpoint): State<Arc<CallbackEndpoint>>,
    request: Request,
) -> Response {
    if let Err(error) = endpoint.limiters.admit(EndpointClass::Page, peer_address(&request)) {
        let events = endpoint.events.for_request(&request);
        return endpoint.pages.error(events.report_error_page(None, ErrorPage::from(&error)));
    }
    let uri = request.uri();
    let (base, query) =
        (endpoint.settings.authorization_issuer().as_str(), uri.query().unwrap_or_default());
    redirect(&format!("{base}{}{}?{query}", path::RETURN, uri.path()))
}

impl CallbackEndpoint {
    /// Takes the login of this `state` from the store and continues it. The take is atomic: of several requests with the
    /// same `state`, one succeeds.
    async fn handle_callback(
        &self,
        headers: &HeaderMap,
        path: &str,
        query: &str,
        events: &RequestEvents,
    ) -> Result<Response, ErrorPage> {
        let report_error_page = |page| events.report_error_page(None, page);
        let params = Params::parse(query.as_bytes())
            .map_err(|_| report_error_page(ErrorPage::MALFORMED_CALLBACK))?;
        let state = params.get("state").filter(|_| !params.is_repeated("state"));
        let key = upstream_login_key(
            state.ok_or_else(|| report_error_page(ErrorPage::MALFORMED_CALLBACK))?,
        );
        let login = self
            .store
            .take_login(&key)
            .await
            .map_err(|error| report_error_page(ErrorPage::from(&OAuthError::from(error))))?;
        let login = login.ok_or_else(|| report_error_page(ErrorPage::LOGIN_EXPIRED))?;
        let cookie = BrowserCookie::from_headers(headers, &self.settings);
        let Some(cookie) = cookie.filter(|cookie| cookie.digest() == login.browser) else {
            tracing::warn!("login returned in another browser");
            self.end_failed_session(&login).await;
            return Err(events.report_error_page(Some(&login), ErrorPage::OTHER_BROWSER));
        };
        match self.continue_login(&login, &cookie, &params, path, events).await {
            Ok(mut response) => {
                cookie.set_on(&self.settings, &mut response);
                Ok(response)
            }
            Err(stop) => {
                self.end_failed_session(&login).await;
                let error = match stop {
                    LoginError::ShowPage(page) => {
                        return Err(events.report_error_page(Some(&login), page));
                    }
                    LoginError::RedirectToClient(error) => error,
                };
                events.report_login_failure(&login, &error);
                // Without a client, the error goes to the user.
                let to = self.logins.login_error_redirect(&login, &error);
                to.map(|to| redirect(&to)).ok_or_else(|| ErrorPage::of_login(&error))
            }
        }
    }

    /// Ends the session of a failed login, with the tokens stored so far. If that fails, the session expires.
    async fn end_failed_session(&self, login: &Login) {
        if matches!(login.aim, LoginPurpose::Authorize(_))
            && let Err(error) = self.store.end_session(&login.session).await
        {
            tracing::warn!(%error, "failed to end session of failed login");
        }
    }

    async fn continue_login(
        &self,
        login: &Login,
        cookie: &BrowserCookie,
        params: &Params<'_>,
        path: &str,
        events: &RequestEvents,
    ) -> Result<Response, LoginError> {
        let Stage::AwaitUpstream { provider, leg: sealed } = &login.stage else {
            return Err(LoginError::ShowPage(ErrorPage::LOGIN_EXPIRED));
        };
        let upstream =
            self.providers.by_name(provider.as_str()).ok_or(OAuthError::server_error())?;
        let at = upstream.index;
        if params.has_repeated() || upstream.provider.redirect_uri().path() != path {
            return Err(OAuthError::new(
                ErrorCode::AccessDenied,
                "the response of the identity provider is malformed; log in again",
            )
            .into());
        }
        let response = self.authorization_response(upstream, params)?;
        let state = self.cipher.open("leg", login.session, upstream, sealed).map_err(|error| {
            tracing::warn!(provider = %upstream.name, %error, "failed to decrypt login state: its provider or its \
             secret changed");
            PROVIDER_CHANGED
        })?;
        let upstream_login = upstream.provider.finish(&state, response).await.map_err(|error| {
            tracing::warn!(provider = %upstream.name, %error, "upstream login failed");
            provider_error(&error).caused_by(at)
        })?;
        let (user, profile) = self.identify_user(login, at, upstream, &upstream_login).await?;
        let mut login = Login { user: Some(user.clone()), profile, ..login.clone() };
        if at > 0 && self.links.is_other_account(&login, upstream, &upstream_login).await? {
            return Ok(self.pages.account_change(&AccountChangePage {
                provider: upstream.name.as_str(),
                display_name: upstream_login.email.as_deref().or(upstream_login.name.as_deref()),
                session: &login.session.to_text(),
                csrf: &cookie.form_token(),
                base: self.settings.authorization_issuer().path(),
            }));
        }
        if at == 0 {
            login.authenticated = self.verify_authentication_time(&login, &upstream_login)?;
        }
        self.links.store(&login, upstream, upstream_login.tokens, events).await?;
        let LoginPurpose::Authorize(request) = &login.aim else {
            return Ok(redirect(&self.settings.page_url(path::CONNECTIONS)));
        };
        if let Some(next) = self.providers.next(upstream) {
            let to = self.logins.redirect_to_upstream(login.clone(), next, None).await?;
            let to = to.ok_or(LoginError::ShowPage(ErrorPage::LOGIN_EXPIRED))?;
            return Ok(redirect(&to.to_string()));
        }
        Ok(self.complete_login(&login, &user, request, cookie, events).await?)
    }

    /// Parses the provider's response, and rejects one of another provider.
    fn authorization_response(
        &self,
        upstream: &UpstreamProvider,
        params: &Params<'_>,
    ) -> Result<AuthorizationResponse, OAuthError> {
        // The provider's own error text is neither shown nor forwarded.
        let outcome = match (params.get("error"), params.get("code")) {
            (Some(error), _) => Err(AuthorizationDenied::from_code(error)),
            (None, Some(code)) => Ok(code.into()),
            (None, None) => {
                let words = "the response of the identity provider has neither code nor error; log in again";
                return Err(OAuthError::new(ErrorCode::AccessDenied, words));
            }
        };
        let iss = params.get("iss");
        if iss.is_some_and(|iss| self.names_other_provider(upstream, iss)) {
            tracing::warn!(provider = %upstream.name, "login response names another issuer");
            let error = vmcp_upstream::ProviderError::from(AuthorizationResponseError::WrongIssuer);
            return Err(provider_error(&error).caused_by(upstream.index));
        }
        Ok(AuthorizationResponse { outcome, iss: iss.map(str::to_owned) })
    }

    /// Returns `true` if `iss` in a response names another provider than this one, which may have no known issuer (RFC 9207
    /// section 2.4, RFC 9700 section 4.4.2).
    fn names_other_provider(&self, upstream: &UpstreamProvider, iss: &str) -> bool {
        let mut others = self.providers.iter().filter(|other| other.name != upstream.name);
        others.any(|other| other.provider.issuer() == Some(iss))
            && !upstream.provider.may_have_issuer(iss)
    }

    /// Returns the time of the user's authentication. The provider enforces `prompt` and `max_age`, but the browser can
    /// drop them from the redirect, so they are verified here (OpenID Connect Core 1.0 section 3.1.2.1).
    fn verify_authentication_time(
        &self,
        login: &Login,
        upstream_login: &vmcp_upstream::Login,
    ) -> Result<Option<Timestamp>, OAuthError> {
        let now = Timestamp::from(self.clock.now());
        let at = upstream_login.authenticated.map(|at| Timestamp::from(at).min(now));
        let LoginPurpose::Authorize(request) = &login.aim else { return Ok(at) };
        let ReauthOptions { login: anew, select_account: _, max_age } = request.fresh;
        let is_since = |least: Timestamp| at.is_some_and(|at| at + CLOCK_TOLERANCE >= least);
        let old = max_age.is_some_and(|age| {
            at.is_none_or(|at| now.since(at) > CLOCK_TOLERANCE + Duration::from_secs(age.into()))
        });
        if old || anew && at.is_some() && !is_since(login.created) {
            return Err(OAuthError::new(
                ErrorCode::LoginRequired,
                "the identity provider did not reauthenticate the user as requested; log in again",
            ));
        }
        Ok(at)
    }

    /// Returns the user of the login. The first provider identifies the user; the others only add links.
    async fn identify_user(
        &self,
        login: &Login,
        at: usize,
        upstream: &UpstreamProvider,
        upstream_login: &vmcp_upstream::Login,
    ) -> Result<(UserId, Profile), LoginError> {
        let server = |_| LoginError::RedirectToClient(OAuthError::server_error());
        if at > 0 {
            // Invariant: every login passes the first provider, which sets the user, before any other.
            let user = login.user.clone().ok_or(OAuthError::server_error())?;
            return Ok((user, login.profile.clone()));
        }
        let text = |text: &Option<Box<str>>| text.as_deref().map(str::to_owned);
        let (name, email) = (text(&upstream_login.name), text(&upstream_login.email));
        let profile = Profile { name, email, email_verified: upstream_login.email_verified };
        let user = if upstream_login.is_synthetic {
            UserId::new(&*upstream_login.subject).map_err(server)?
        } else {
            let name = SubjectName::new(&*upstream_login.subject).map_err(server)?;
            let (provider, issuer) = (upstream.name.clone(), upstream.issuer.clone());
            let subject = Subject { provider, issuer, name };
            let proposed = user_id()?;
            let found = self.store.upsert_user(&subject, &proposed, &profile).await;
            found?
        };
        match (&login.aim, &login.user) {
            // Another user than the one with the stored consent logged in. Without the browser's record, the next
            // attempt shows the consent page.
            (LoginPurpose::Authorize(_), Some(known)) if *known != user => {
                self.store.remove_browser(&login.browser).await?;
                let words =
                    "another account logged in than the one that gave consent; log in again";
                Err(LoginError::RedirectToClient(OAuthError::new(ErrorCode::AccessDenied, words)))
            }
            // Synthetic subjects are new at each login, so a difference does not show another user.
            (LoginPurpose::Relink | LoginPurpose::LinkOther, Some(known))
                if *known != user && !upstream_login.is_synthetic =>
            {
                Err(LoginError::ShowPage(ErrorPage::OTHER_ACCOUNT))
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
    async fn complete_login(
        &self,
        login: &Login,
        user: &UserId,
        request: &vmcp_auth_store::AuthorizationRequest,
        cookie: &BrowserCookie,
        events: &RequestEvents,
    ) -> Result<Response, OAuthError> {
        let to =
            RedirectUri::parse(&request.redirect_uri).map_err(|_| OAuthError::server_error())?;
        let now = Timestamp::from(self.clock.now());
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
        let code = self.settings.hmac.new_code()?;
        let key = self
            .settings
            .hmac
            .verify_code(code.expose_secret())
            .ok_or(OAuthError::server_error())?;
        if !self.store.put_code(&key, &seed, self.settings.lifespans.code()).await? {
            return Err(OAuthError::new(
                ErrorCode::AccessDenied,
                "the session ended during the login; log in again",
            ));
        }
        let consent = Consent {
            client: request.client.clone(),
            redirect_uri: to.without_port(),
            scopes: Scopes::from_stored(&request.scopes)
                .with_offline_access(request.refresh)
                .to_vec(),
            given: now,
            expires: now + COOKIE_LIFETIME,
        };
        // The login succeeds either way: without a stored consent, the next one shows the consent page. A consent of a
        // synthetic user is not stored, since it would apply to the next user of this browser.
        let consent = Some(&consent).filter(|_| !user.is_synthetic());
        if let Err(error) =
            self.store.put_browser(&cookie.digest(), user, consent, COOKIE_LIFETIME).await
        {
            tracing::warn!(%error, "failed to store consent");
        }
        let (scopes, resource) = (&*request.scopes, request.resource.as_deref());
        events.report(Event::of_login(login, EventKind::LoginCompleted { scopes, resource }));
        Ok(redirect(&to.with_query(&[
            ("code", code.expose_secret()),
            ("state", request.state.as_deref().unwrap_or_default()),
            ("iss", self.settings.issuer.as_str()),
        ])))
    }
}

/// Returns the identifier of a new user (RFC 9562 section 5.4).
fn user_id() -> Result<UserId, RandomUnavailable> {
    UserId::new(uuid()?).map_err(|_| RandomUnavailable)
}

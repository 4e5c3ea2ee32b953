//! The authorization endpoint (RFC 6749 section 3.1, OAuth 2.1 section 3.1).

mod parameter;

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use bytes::Bytes;
use http::{HeaderMap, Method, Uri};
use url::Url;
use vmcp_auth_store::{
    Browser, Client, ClientAuth, CodeChallenge, Consent, Digest, Login, LoginPurpose, Profile,
    ReauthOptions, SessionId, Stage, UserId,
};

use self::parameter::{challenge, is_printable, max_age, prompts, scopes};
use crate::Scopes;
use crate::cimd::is_document_url;
use crate::client::{Unknown, redirect_uris};
use crate::error::{Code, Fault};
use crate::event::{Event, Happened};
use crate::flow::{STEP, Stop, consent_key};
use crate::intake::{BrowserCookie, form, origin, peer};
use crate::opaque::{nonce, random};
use crate::page::{Ask, Trouble, redirect};
use crate::params::Params;
use crate::redirect::{RedirectKind, RedirectUri};
use crate::server::{Asked, Inner};

/// Maximum length of `state`, in bytes.
const MAX_STATE: usize = 2048;

/// Maximum length of a form that is repeated as a query, in bytes.
const MAX_QUERY: usize = 8 * 1024;

/// Maximum length of `nonce`, in bytes.
const MAX_NONCE: usize = 512;

/// Validated authorization request.
struct Checked {
    scopes: Scopes,
    resource: String,
    challenge: CodeChallenge,
    nonce: Option<String>,
    /// `true` if the grant includes a refresh token.
    refresh: bool,
    fresh: ReauthOptions,
    /// `true` if the consent page is shown even where a consent is stored.
    ask: bool,
}

/// Client and redirect URI of a request, both validated: later errors are reported to the client.
struct Trusted {
    client: Client,
    redirect: RedirectUri,
    state: Option<String>,
}

/// Handles `GET` and `POST` of the authorization endpoint.
pub(crate) async fn authorize(State(server): State<Arc<Inner>>, request: Request) -> Response {
    match server.authorize(request).await {
        Ok(response) => response,
        Err(trouble) => server.trouble(trouble),
    }
}

impl Inner {
    async fn authorize(&self, request: Request) -> Result<Response, Trouble> {
        let stopped = |trouble| self.stopped(None, trouble);
        let address = peer(&request);
        let admitted = self.admit(Asked::Page, address);
        admitted.map_err(|fault| stopped(Trouble::from(&fault)))?;
        let headers = request.headers().clone();
        let text = if request.method() == Method::POST {
            let path = request.uri().path().to_owned();
            let text = form(request).await.map_err(|fault| stopped(fault.into()))?;
            // A cross-site form arrives without the cookie; a redirect makes the browser repeat the request with it.
            if BrowserCookie::sent(&headers, &self.settings).is_none() && text.len() <= MAX_QUERY {
                // A form encoded by a browser contains graphic ASCII only.
                let legal = text.iter().all(u8::is_ascii_graphic);
                let text = std::str::from_utf8(&text).ok().filter(|_| legal);
                let text = text.ok_or_else(|| stopped(Trouble::MALFORMED))?;
                return Ok(redirect(&format!("{path}?{text}")));
            }
            text
        } else {
            Bytes::copy_from_slice(request.uri().query().unwrap_or_default().as_bytes())
        };
        let params = Params::parse(&text).map_err(|_| stopped(Trouble::MALFORMED))?;
        let trusted = self.trust(&params, address).await.inspect_err(|trouble| {
            let refusal = (*trouble).into();
            let what = Happened::LoginFailed { provider: None, refusal };
            self.tell(Event::of(params.get("client_id"), what));
        })?;
        match self.begin(&headers, &params, (&trusted, address)).await {
            Ok(response) => Ok(response),
            Err(Stop::Person(trouble)) => Err(stopped(trouble)),
            Err(Stop::Client(fault)) => {
                let leg = fault.leg.and_then(|at| self.upstreams.get(at));
                let provider = leg.map(|leg| leg.name.as_str());
                let what = Happened::LoginFailed { provider, refusal: (&fault).into() };
                self.tell(Event::of(Some(trusted.client.id.as_str()), what));
                tracing::info!(client = %trusted.client.id, error = fault.code.name(), "an authorization request is refused");
                let state = trusted.state.as_deref();
                let to = self.error_uri(&trusted.redirect, state, &fault);
                if self.may_send(&headers, &trusted).await {
                    return Ok(redirect(&to));
                }
                Ok(self.pages.way_back(Trouble::REFUSED, &fault, &to, trusted.redirect.place()))
            }
        }
    }

    /// Returns whether the browser may be redirected to the client before the user decides. Anyone can register a client,
    /// so a deliberately wrong request would lead from this server's address to a site, a port of the user's machine or an
    /// application (RFC 9700 section 4.11.2). Only a client with a stored consent of this user qualifies.
    async fn may_send(&self, headers: &HeaderMap, trusted: &Trusted) -> bool {
        let Trusted { client, redirect, .. } = trusted;
        if is_anyone(client, redirect) {
            return false;
        }
        let Some(cookie) = BrowserCookie::sent(headers, &self.settings) else { return false };
        let known = self.store.browser(&cookie.digest()).await.ok().flatten();
        let now = self.now();
        known.is_some_and(|Browser { consents, .. }| {
            consents.iter().any(|consent| is_of(consent, client, redirect) && consent.expires > now)
        })
    }

    /// Looks up the client and validates its redirect URI. Errors go to a page: without a valid redirect URI, redirecting
    /// the browser is unsafe.
    async fn trust(&self, params: &Params<'_>, address: IpAddr) -> Result<Trusted, Trouble> {
        if params.is_twice("client_id") || params.is_twice("redirect_uri") {
            return Err(Trouble::MALFORMED);
        }
        let id = params.get("client_id").ok_or(Trouble::CLIENT)?;
        let client = self.client(id, address).await.map_err(|unknown| match unknown {
            Unknown::NotRegistered => Trouble::CLIENT,
            Unknown::Document(_) => Trouble::DOCUMENT,
            Unknown::Unavailable(fault) => Trouble::from(&fault),
        })?;
        let redirect = if let Some(asked) = params.get("redirect_uri") {
            let asked = RedirectUri::parse(asked).map_err(|_| Trouble::REDIRECT)?;
            let public = client.auth == ClientAuth::None;
            let covers = |known: RedirectUri| known == asked || (public && known.covers(&asked));
            redirect_uris(&client).any(covers).then_some(asked).ok_or(Trouble::REDIRECT)?
        } else {
            // A client with a single redirect URI may omit the parameter.
            let mut known = redirect_uris(&client);
            let only = known.next().filter(|_| known.next().is_none());
            only.ok_or(Trouble::REDIRECT)?
        };
        let state = params.get("state").filter(|state| is_printable(state, MAX_STATE));
        let state = state.filter(|_| !params.is_twice("state")).map(str::to_owned);
        Ok(Trusted { client, redirect, state })
    }

    async fn begin(
        &self,
        headers: &HeaderMap,
        params: &Params<'_>,
        (trusted, address): (&Trusted, IpAddr),
    ) -> Result<Response, Stop> {
        let checked = self.check(params, trusted).map_err(Stop::Client)?;
        let cookie = BrowserCookie::sent_or_new(headers, &self.settings)
            .map_err(|error| Stop::Client(error.into()))?;
        let login = self.login(trusted, &checked, &cookie).map_err(Stop::Client)?;
        let login = Login { origin: Some(origin(address)), ..login };
        let remembered =
            if checked.ask { None } else { self.who_consented(trusted, &checked, &cookie).await? };
        let (session, is_remembered) = (login.session, remembered.is_some());
        let mut response = if let Some(user) = remembered {
            // The stored consent holds for this user only; the callback compares the user who logs in.
            let login = Login { user: Some(user), ..login };
            redirect(&self.first_leg(login).await.map_err(Stop::Client)?.to_string())
        } else {
            self.ask(login, trusted, &checked).await.map_err(Stop::Client)?
        };
        let (scopes, resource) = (checked.scopes.to_vec(), &*checked.resource);
        let remembered = is_remembered;
        let what = Happened::LoginStarted { scopes: &scopes, resource, remembered };
        self.tell(Event::of(Some(trusted.client.id.as_str()), what).within(session));
        cookie.send(&self.settings, &mut response);
        Ok(response)
    }

    /// Validates the parameters whose errors are reported to the client.
    fn check(&self, params: &Params<'_>, trusted: &Trusted) -> Result<Checked, Fault> {
        let Trusted { client, .. } = trusted;
        if params.is_twice("resource") {
            return Err(Fault::new(Code::InvalidTarget, "one resource only can be asked for"));
        }
        if params.any_twice() {
            return Err(Fault::request("a parameter is there twice"));
        }
        if params.get("state").is_some_and(|state| !is_printable(state, MAX_STATE)) {
            return Err(Fault::request(
                "state is longer than 2048 characters, or not printable ASCII",
            ));
        }
        for (name, code) in [
            ("request", Code::RequestNotSupported),
            ("request_uri", Code::RequestUriNotSupported),
            ("registration", Code::RegistrationNotSupported),
        ] {
            if params.has(name) {
                return Err(Fault::new(code, "this parameter of OpenID Connect is not supported"));
            }
        }
        match params.get("response_type") {
            Some("code") => {}
            Some(_) => {
                let words = "response_type must be code";
                return Err(Fault::new(Code::UnsupportedResponseType, words));
            }
            None => return Err(Fault::request("response_type is missing; it must be code")),
        }
        if params.get("response_mode").is_some_and(|mode| mode != "query") {
            return Err(Fault::request("response_mode must be query"));
        }
        let nonce = params.get("nonce");
        if nonce.is_some_and(|nonce| !is_printable(nonce, MAX_NONCE)) {
            return Err(Fault::request(
                "nonce is longer than 512 characters, or not printable ASCII",
            ));
        }
        let prompts = prompts(params)?;
        let refresh = client.refresh && self.settings.scopes.is_offline();
        let scopes = scopes(params, client)?;
        Ok(Checked {
            // A client without the refresh token grant type gets no refresh token.
            scopes: if refresh { scopes } else { scopes.online() },
            refresh,
            resource: self.resource(params)?,
            challenge: challenge(params)?,
            nonce: nonce.map(str::to_owned),
            fresh: ReauthOptions {
                login: prompts.contains(&"login"),
                select_account: prompts.contains(&"select_account"),
                max_age: max_age(params)?,
            },
            ask: prompts.contains(&"consent"),
        })
    }

    /// Returns the audience of the tokens (RFC 8707 section 2.1).
    fn resource(&self, params: &Params<'_>) -> Result<String, Fault> {
        let found = self.settings.audiences.find(params.get("resource"));
        let words = "resource is none that tokens are issued for";
        found.map(|known| known.as_str().to_owned()).ok_or(Fault::new(Code::InvalidTarget, words))
    }

    fn login(
        &self,
        trusted: &Trusted,
        checked: &Checked,
        cookie: &BrowserCookie,
    ) -> Result<Login, Fault> {
        let request = vmcp_auth_store::AuthorizationRequest {
            client: trusted.client.id.clone(),
            redirect_uri: trusted.redirect.as_str().to_owned(),
            state: trusted.state.clone(),
            challenge: checked.challenge,
            scopes: checked.scopes.to_vec(),
            resource: Some(checked.resource.clone()),
            nonce: checked.nonce.clone(),
            refresh: checked.refresh,
            fresh: checked.fresh,
        };
        Ok(Login {
            aim: LoginPurpose::Authorize(request),
            session: SessionId::from_bytes(random()?),
            browser: cookie.digest(),
            // Placeholder: the consent page or the first provider's login replaces it.
            stage: Stage::AwaitConsent { csrf: Digest::of(random::<32>()?) },
            user: None,
            profile: Profile::default(),
            authenticated: None,
            created: self.now(),
            origin: None,
        })
    }

    /// Returns the user of this browser if a stored consent covers the request.
    async fn who_consented(
        &self,
        trusted: &Trusted,
        checked: &Checked,
        cookie: &BrowserCookie,
    ) -> Result<Option<UserId>, Stop> {
        let Trusted { client, redirect, .. } = trusted;
        if cookie.is_fresh() || is_anyone(client, redirect) {
            return Ok(None);
        }
        let known = self.store.browser(&cookie.digest()).await;
        let Some(Browser { user, consents }) = known.map_err(|error| Stop::Client(error.into()))?
        else {
            return Ok(None);
        };
        let now = self.now();
        let asked = checked.scopes.clone().agreed(checked.refresh);
        let consented = consents.iter().any(|consent| {
            is_of(consent, client, redirect)
                && consent.expires > now
                && asked.is_subset(&Scopes::stored(&consent.scopes))
        });
        // A synthetic user name is new at each login, so it does not show that the same user is back.
        Ok(Some(user).filter(|user| consented && !user.is_synthetic()))
    }

    async fn first_leg(&self, login: Login) -> Result<Uri, Fault> {
        let leg = self.upstreams.first().ok_or(Fault::server())?;
        let gone = Fault::server();
        self.go_on(login, leg, None).await?.ok_or(gone)
    }

    /// Shows the consent page.
    async fn ask(
        &self,
        login: Login,
        trusted: &Trusted,
        checked: &Checked,
    ) -> Result<Response, Fault> {
        let (id, csrf) = (nonce()?, nonce()?);
        let login = Login { stage: Stage::AwaitConsent { csrf: Digest::of(&csrf) }, ..login };
        self.store.put_login(&consent_key(&id), &login, STEP).await?;
        let Trusted { client, redirect, .. } = trusted;
        let known_by =
            Url::parse(client.id.as_str()).ok().filter(|_| is_document_url(client.id.as_str()));
        let known_by = known_by.as_ref().and_then(Url::host_str);
        let providers: Vec<_> = self.upstreams.iter().map(|leg| leg.name.as_str()).collect();
        Ok(self.pages.consent(&Ask {
            client: client.name.as_deref().unwrap_or("An application without a name"),
            known_by,
            redirect,
            scopes: &checked.scopes.clone().agreed(checked.refresh),
            resource: &checked.resource,
            providers: &providers,
            id: &id,
            csrf: &csrf,
            base: self.settings.front().path(),
        }))
    }
}

/// Returns `true` if any local program can impersonate this client: a metadata document identifies it and it redirects to
/// loopback. A stored consent to such a client is never used (RFC 8252 section 8.6).
fn is_anyone(client: &Client, redirect: &RedirectUri) -> bool {
    is_document_url(client.id.as_str()) && redirect.kind() == RedirectKind::Loopback
}

/// Returns `true` if the consent was given to this client and redirect URI.
fn is_of(consent: &Consent, client: &Client, redirect: &RedirectUri) -> bool {
    consent.client == client.id && consent.redirect_uri == redirect.without_port()
}

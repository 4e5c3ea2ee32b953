//! The authorization endpoint (RFC 6749 section 3.1, OAuth 2.1 section 3.1).

mod parameter;
mod request;

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use bytes::Bytes;
use http::{HeaderMap, Method, Uri};
use url::Url;
use vmcp_auth_store::{
    Browser, Client, ClientAuth, Consent, Digest, Login, LoginPurpose, Profile, SessionId, Stage,
    Store, Timestamp, UserId,
};
use vmcp_core::Clock;

use self::parameter::is_printable;
use self::request::{MAX_STATE, ValidatedRequest};
use crate::browser_cookie::BrowserCookie;
use crate::client_id_metadata::is_document_url;
use crate::clients::{ClientLookupError, Clients, redirect_uris};
use crate::error::OAuthError;
use crate::error_page::ErrorPage;
use crate::event::{Event, EventKind};
use crate::event_reporter::{EventReporter, RequestEvents};
use crate::extract::{network_digest, peer_address, read_form};
use crate::login::{LOGIN_STEP_TIMEOUT, LoginError, LoginRedirector, consent_login_key};
use crate::page::{ConsentPage, Pages, redirect};
use crate::params::Params;
use crate::random_tokens::{nonce, random};
use crate::rate_limits::{EndpointClass, RateLimiters};
use crate::redirect_uri::{RedirectKind, RedirectUri};
use crate::scope::Scopes;
use crate::settings::Settings;
use crate::upstream_provider::UpstreamProviders;

/// Maximum length of a form that is repeated as a query, in bytes.
const MAX_REPEATED_FORM: usize = 8 * 1024;

/// Client and redirect URI of a request, both validated: later errors are reported to the client.
struct ValidatedClient {
    client: Client,
    redirect: RedirectUri,
    state: Option<String>,
}

/// State of the authorization endpoint.
pub(crate) struct AuthorizeEndpoint {
    pub(crate) settings: Arc<Settings>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Clock,
    pub(crate) providers: UpstreamProviders,
    pub(crate) limiters: Arc<RateLimiters>,
    pub(crate) pages: Arc<Pages>,
    pub(crate) events: EventReporter,
    pub(crate) clients: Clients,
    pub(crate) logins: LoginRedirector,
}

/// Handles `GET` and `POST` of the authorization endpoint.
pub(crate) async fn authorize(
    State(endpoint): State<Arc<AuthorizeEndpoint>>,
    request: Request,
) -> Response {
    match endpoint.respond(request).await {
        Ok(response) => response,
        Err(page) => endpoint.pages.error(page),
    }
}

impl AuthorizeEndpoint {
    async fn respond(&self, request: Request) -> Result<Response, ErrorPage> {
        let events = self.events.for_request(&request);
        let report_error_page = |page| events.report_error_page(None, page);
        let address = peer_address(&request);
        let admitted = self.limiters.admit(EndpointClass::Page, address);
        admitted.map_err(|error| report_error_page(ErrorPage::from(&error)))?;
        let headers = request.headers().clone();
        let text = if request.method() == Method::POST {
            let path = request.uri().path().to_owned();
            let text = read_form(request).await.map_err(|error| report_error_page(error.into()))?;
            // A cross-site form arrives without the cookie; a redirect makes the browser repeat the request with it.
            if BrowserCookie::from_headers(&headers, &self.settings).is_none()
                && text.len() <= MAX_REPEATED_FORM
            {
                // A form encoded by a browser contains graphic ASCII only.
                let legal = text.iter().all(u8::is_ascii_graphic);
                let text = std::str::from_utf8(&text).ok().filter(|_| legal);
                let text = text.ok_or_else(|| report_error_page(ErrorPage::MALFORMED))?;
                return Ok(redirect(&format!("{path}?{text}")));
            }
            text
        } else {
            Bytes::copy_from_slice(request.uri().query().unwrap_or_default().as_bytes())
        };
        let params = Params::parse(&text).map_err(|_| report_error_page(ErrorPage::MALFORMED))?;
        let client = self.validate_client(&params, address).await.inspect_err(|page| {
            let rejection = (*page).into();
            let kind = EventKind::LoginFailed { provider: None, rejection };
            events.report(Event::new(params.get("client_id"), kind));
        })?;
        match self.start_login(&headers, &params, (&client, address), &events).await {
            Ok(response) => Ok(response),
            Err(LoginError::ShowPage(page)) => Err(report_error_page(page)),
            Err(LoginError::RedirectToClient(error)) => {
                let kind = events.login_failure(&error);
                events.report(Event::new(Some(client.client.id.as_str()), kind));
                tracing::info!(client = %client.client.id, error = error.code.name(), "authorization request rejected");
                let state = client.state.as_deref();
                let to = self.logins.error_redirect(&client.redirect, state, &error);
                if self.is_trusted_redirect(&headers, &client).await {
                    return Ok(redirect(&to));
                }
                Ok(self.pages.return_page(
                    ErrorPage::REQUEST_REJECTED,
                    &error,
                    &to,
                    client.redirect.destination(),
                ))
            }
        }
    }

    /// Returns whether the browser may be redirected to the client before the user decides. Anyone can register a client,
    /// so a deliberately wrong request would lead from this server's address to a site, a port of the user's machine or an
    /// application (RFC 9700 section 4.11.2). Only a client with a stored consent of this user qualifies.
    async fn is_trusted_redirect(&self, headers: &HeaderMap, client: &ValidatedClient) -> bool {
        let ValidatedClient { client, redirect, .. } = client;
        if is_impersonable(client, redirect) {
            return false;
        }
        let Some(cookie) = BrowserCookie::from_headers(headers, &self.settings) else {
            return false;
        };
        let known = self.store.browser(&cookie.digest()).await.unwrap_or_else(|error| {
            tracing::warn!(%error, "failed to read consents of browser");
            None
        });
        let now = Timestamp::from(self.clock.now());
        known.is_some_and(|Browser { consents, .. }| {
            consents
                .iter()
                .any(|consent| consent_covers(consent, client, redirect) && consent.expires > now)
        })
    }

    /// Looks up the client and validates its redirect URI. Errors go to a page: without a valid redirect URI, redirecting
    /// the browser is unsafe.
    async fn validate_client(
        &self,
        params: &Params<'_>,
        address: IpAddr,
    ) -> Result<ValidatedClient, ErrorPage> {
        if params.is_repeated("client_id") || params.is_repeated("redirect_uri") {
            return Err(ErrorPage::MALFORMED);
        }
        let id = params.get("client_id").ok_or(ErrorPage::UNKNOWN_CLIENT)?;
        let client = self.clients.find(id, address).await.map_err(|unknown| match unknown {
            ClientLookupError::NotRegistered => ErrorPage::UNKNOWN_CLIENT,
            ClientLookupError::Document(_) => ErrorPage::INVALID_CLIENT_METADATA,
            ClientLookupError::Unavailable(error) => ErrorPage::from(&error),
        })?;
        let redirect = if let Some(asked) = params.get("redirect_uri") {
            let asked =
                RedirectUri::parse(asked).map_err(|_| ErrorPage::UNREGISTERED_REDIRECT_URI)?;
            let public = client.auth == ClientAuth::None;
            let matches = |known: RedirectUri| known == asked || (public && known.matches(&asked));
            redirect_uris(&client)
                .any(matches)
                .then_some(asked)
                .ok_or(ErrorPage::UNREGISTERED_REDIRECT_URI)?
        } else {
            // A client with a single redirect URI may omit the parameter.
            let mut known = redirect_uris(&client);
            let only = known.next().filter(|_| known.next().is_none());
            only.ok_or(ErrorPage::UNREGISTERED_REDIRECT_URI)?
        };
        let state = params.get("state").filter(|state| is_printable(state, MAX_STATE));
        let state = state.filter(|_| !params.is_repeated("state")).map(str::to_owned);
        Ok(ValidatedClient { client, redirect, state })
    }

    async fn start_login(
        &self,
        headers: &HeaderMap,
        params: &Params<'_>,
        (client, address): (&ValidatedClient, IpAddr),
        events: &RequestEvents,
    ) -> Result<Response, LoginError> {
        let validated = ValidatedRequest::validate(params, &client.client, &self.settings)?;
        let cookie = BrowserCookie::from_headers_or_new(headers, &self.settings)?;
        let login = self.new_login(client, &validated, &cookie)?;
        let login = Login { origin: Some(network_digest(address)), ..login };
        let remembered = if validated.force_consent {
            None
        } else {
            self.consenting_user(client, &validated, &cookie).await?
        };
        let (session, is_remembered) = (login.session, remembered.is_some());
        let mut response = if let Some(user) = remembered {
            // The stored consent holds for this user only; the callback compares the user who logs in.
            let login = Login { user: Some(user), ..login };
            redirect(&self.redirect_to_first_provider(login).await?.to_string())
        } else {
            self.show_consent_page(login, client, &validated).await?
        };
        let (scopes, resource) = (validated.scopes.to_vec(), &*validated.resource);
        let remembered = is_remembered;
        let kind = EventKind::LoginStarted { scopes: &scopes, resource, remembered };
        events.report(Event::new(Some(client.client.id.as_str()), kind).with_session(session));
        cookie.set_on(&self.settings, &mut response);
        Ok(response)
    }

    fn new_login(
        &self,
        client: &ValidatedClient,
        validated: &ValidatedRequest,
        cookie: &BrowserCookie,
    ) -> Result<Login, OAuthError> {
        let request = vmcp_auth_store::AuthorizationRequest {
            client: client.client.id.clone(),
            redirect_uri: client.redirect.as_str().to_owned(),
            state: client.state.clone(),
            challenge: validated.challenge,
            scopes: validated.scopes.to_vec(),
            resource: Some(validated.resource.clone()),
            nonce: validated.nonce.clone(),
            refresh: validated.refresh,
            fresh: validated.fresh,
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
            created: Timestamp::from(self.clock.now()),
            origin: None,
        })
    }

    /// Returns the user of this browser if a stored consent covers the request.
    async fn consenting_user(
        &self,
        client: &ValidatedClient,
        validated: &ValidatedRequest,
        cookie: &BrowserCookie,
    ) -> Result<Option<UserId>, LoginError> {
        let ValidatedClient { client, redirect, .. } = client;
        if cookie.is_new() || is_impersonable(client, redirect) {
            return Ok(None);
        }
        let known = self.store.browser(&cookie.digest()).await;
        let Some(Browser { user, consents }) = known? else {
            return Ok(None);
        };
        let now = Timestamp::from(self.clock.now());
        let asked = validated.scopes.clone().with_offline_access(validated.refresh);
        let consented = consents.iter().any(|consent| {
            consent_covers(consent, client, redirect)
                && consent.expires > now
                && asked.is_subset(&Scopes::from_stored(&consent.scopes))
        });
        // A synthetic user name is new at each login, so it does not show that the same user is back.
        Ok(Some(user).filter(|user| consented && !user.is_synthetic()))
    }

    async fn redirect_to_first_provider(&self, login: Login) -> Result<Uri, OAuthError> {
        let to = self.logins.redirect_to_upstream(login, self.providers.first(), None).await?;
        Ok(to.expect("a login that replaces none is always stored"))
    }

    /// Shows the consent page.
    async fn show_consent_page(
        &self,
        login: Login,
        client: &ValidatedClient,
        validated: &ValidatedRequest,
    ) -> Result<Response, OAuthError> {
        let (id, csrf) = (nonce()?, nonce()?);
        let login = Login { stage: Stage::AwaitConsent { csrf: Digest::of(&csrf) }, ..login };
        self.store.put_login(&consent_login_key(&id), &login, LOGIN_STEP_TIMEOUT).await?;
        let ValidatedClient { client, redirect, .. } = client;
        let metadata_host =
            Url::parse(client.id.as_str()).ok().filter(|_| is_document_url(client.id.as_str()));
        let metadata_host = metadata_host.as_ref().and_then(Url::host_str);
        let providers: Vec<_> =
            self.providers.iter().map(|upstream| upstream.name.as_str()).collect();
        Ok(self.pages.consent(&ConsentPage {
            client: client.name.as_deref().unwrap_or("Unnamed application"),
            metadata_host,
            redirect,
            scopes: &validated.scopes.clone().with_offline_access(validated.refresh),
            resource: &validated.resource,
            providers: &providers,
            id: &id,
            csrf: &csrf,
            base: self.settings.authorization_issuer().path(),
        }))
    }
}

/// Returns `true` if any local program can impersonate this client: a metadata document identifies it and it redirects to
/// loopback. A stored consent to such a client is never used (RFC 8252 section 8.6).
fn is_impersonable(client: &Client, redirect: &RedirectUri) -> bool {
    is_document_url(client.id.as_str()) && redirect.kind() == RedirectKind::Loopback
}

/// Returns `true` if the consent was given to this client and redirect URI.
fn consent_covers(consent: &Consent, client: &Client, redirect: &RedirectUri) -> bool {
    consent.client == client.id && consent.redirect_uri == redirect.without_port()
}

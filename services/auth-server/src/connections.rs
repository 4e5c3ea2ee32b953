//! Connections page: shows the linked accounts of a user, who can link them again or unlink them.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use http::HeaderMap;
use vmcp_auth_store::{
    Client, Digest, Login, LoginPurpose, Profile, ProviderName, Session, SessionId, Stage, Store,
    Timestamp, UserId,
};
use vmcp_core::Clock;

use crate::browser_cookie::BrowserCookie;
use crate::error_page::ErrorPage;
use crate::event::{Event, EventKind, RevokedBy};
use crate::event_reporter::{EventReporter, RequestEvents};
use crate::extract::{is_same_origin_form, network_digest, peer_address, read_form};
use crate::login::LoginRedirector;
use crate::page::{Connection, ConnectionsPage, Link, Pages, ProviderConnection};
use crate::params::Params;
use crate::path;
use crate::rate_limits::{EndpointClass, RateLimiters};
use crate::sessions::Sessions;
use crate::settings::Settings;
use crate::upstream_cipher::UpstreamCipher;
use crate::upstream_provider::{UpstreamProvider, UpstreamProviders};
use crate::upstream_token_cache::UpstreamTokenCache;

/// State of the connections page.
pub(crate) struct ConnectionsEndpoint {
    pub(crate) settings: Arc<Settings>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Clock,
    pub(crate) providers: UpstreamProviders,
    pub(crate) limiters: Arc<RateLimiters>,
    pub(crate) pages: Arc<Pages>,
    pub(crate) events: EventReporter,
    pub(crate) logins: LoginRedirector,
    pub(crate) cipher: UpstreamCipher,
    pub(crate) token_cache: Arc<UpstreamTokenCache>,
    pub(crate) sessions: Sessions,
}

/// Handles `GET` of the page.
pub(crate) async fn show(
    State(endpoint): State<Arc<ConnectionsEndpoint>>,
    request: Request,
) -> Response {
    let address = peer_address(&request);
    match endpoint.list_connections(address, request.headers().clone()).await {
        Ok(response) => response,
        Err(page) => endpoint.pages.error(page),
    }
}

/// Handles `POST` of the page.
pub(crate) async fn change(
    State(endpoint): State<Arc<ConnectionsEndpoint>>,
    request: Request,
) -> Response {
    match endpoint.change_connection(request).await {
        Ok(response) => response,
        Err(page) => endpoint.pages.error(page),
    }
}

impl ConnectionsEndpoint {
    async fn list_connections(
        &self,
        address: IpAddr,
        headers: HeaderMap,
    ) -> Result<Response, ErrorPage> {
        self.limiters.admit(EndpointClass::Page, address)?;
        let (cookie, user) = self.browser_user(&headers).await?;
        let sessions = self.store.sessions_of(&user).await?;
        let mut connections = Vec::with_capacity(sessions.len());
        for session in sessions {
            // A session without a grant belongs to an unfinished login.
            if session.grant.is_some() {
                connections.push(self.describe_session(session).await);
            }
        }
        number_duplicate_names(&mut connections);
        let account = self.store.account(&user).await?;
        let profile = account.map(|account| account.profile).unwrap_or_default();
        let overview = ConnectionsPage {
            display_name: profile.email.or(profile.name),
            connections: &connections,
            csrf: &cookie.form_token(),
            base: self.settings.authorization_issuer().path(),
        };
        Ok(self.pages.connections(&overview))
    }

    async fn change_connection(&self, request: Request) -> Result<Response, ErrorPage> {
        let address = peer_address(&request);
        let events = self.events.for_request(&request);
        self.limiters.admit(EndpointClass::Page, address)?;
        if !is_same_origin_form(&request) {
            return Err(ErrorPage::OTHER_BROWSER);
        }
        let headers = request.headers().clone();
        let (cookie, user) = self.browser_user(&headers).await?;
        let text = read_form(request).await?;
        let params = Params::parse(&text).map_err(|_| ErrorPage::MALFORMED)?;
        if params.has_repeated() {
            return Err(ErrorPage::MALFORMED);
        }
        if params.get("csrf") != Some(&cookie.form_token()) {
            return Err(ErrorPage::OTHER_BROWSER);
        }
        if params.get("action") == Some("forget") {
            self.store.remove_browser(&cookie.digest()).await?;
            return Err(ErrorPage::BROWSER_FORGOTTEN);
        }
        let session: SessionId =
            params.get("session").and_then(|text| text.parse().ok()).ok_or(ErrorPage::MALFORMED)?;
        let session = self.store.session(&session).await?;
        // A session of another user is reported as missing.
        let session =
            session.filter(|session| session.head.user == user).ok_or(ErrorPage::LOGIN_EXPIRED)?;
        let upstream = params.get("provider").and_then(|name| self.providers.by_name(name));
        match (params.get("action"), upstream) {
            (Some("end"), None) => {
                // Delete the consent as well, so that the client must ask again after a logout.
                let client = &session.head.client;
                self.store.remove_consents(&user, client).await?;
                self.sessions.end(session.head.id).await?;
                let kind = EventKind::TokenRevoked { by: RevokedBy::User };
                events.report(Event::of_session(&session.head, kind));
            }
            (Some("unlink"), Some(upstream)) => self.unlink(&session, upstream, &events).await?,
            (Some("link"), Some(upstream)) => {
                // Linking another account requires a confirmation page; the first provider's account cannot change.
                let other = params.get("other") == Some("yes") && upstream.index > 0;
                let aim = if other { LoginPurpose::LinkOther } else { LoginPurpose::Relink };
                return self
                    .relink(&session, upstream, aim, (&cookie, network_digest(address)))
                    .await;
            }
            _ => return Err(ErrorPage::MALFORMED),
        }
        Ok(self.pages.continue_to(&self.settings.page_url(path::CONNECTIONS), "your connections"))
    }

    /// Returns the user who last logged in with this browser.
    async fn browser_user(
        &self,
        headers: &HeaderMap,
    ) -> Result<(BrowserCookie, UserId), ErrorPage> {
        let cookie =
            BrowserCookie::from_headers(headers, &self.settings).ok_or(ErrorPage::NOT_LOGGED_IN)?;
        let browser = self.store.browser(&cookie.digest()).await?;
        Ok((cookie, browser.ok_or(ErrorPage::NOT_LOGGED_IN)?.user))
    }

    async fn describe_session(&self, session: Session) -> Connection {
        let client = self.store.client(&session.head.client).await.unwrap_or_else(|error| {
            tracing::warn!(%error, "failed to read client name for connections page");
            None
        });
        let name = client.and_then(|Client { name, .. }| name);
        let linked = self.providers.iter().map(|upstream| {
            let record =
                session.rows.get(&upstream.name).filter(|record| record.issuer == upstream.issuer);
            let link = record.map(|record| Link {
                scopes: record.scopes.join(" "),
                until: expiry_text(record.expires, self.is_refreshable(&session, upstream)),
            });
            ProviderConnection { provider: upstream.name.as_str().to_owned(), link }
        });
        Connection {
            session: session.head.id.to_text(),
            client: name.unwrap_or_else(|| session.head.client.as_str().to_owned()),
            since: format_time(session.created),
            linked: linked.collect(),
        }
    }

    /// Returns `true` if the provider's tokens are refreshed automatically.
    fn is_refreshable(&self, session: &Session, upstream: &UpstreamProvider) -> bool {
        let record = session.rows.get(&upstream.name);
        let tokens = record
            .and_then(|record| self.cipher.decrypt_tokens(session.head.id, upstream, record).ok());
        tokens.is_some_and(|tokens| tokens.refresh.is_some())
    }

    /// Deletes the provider's tokens here and revokes them at the provider. The session remains.
    async fn unlink(
        &self,
        session: &Session,
        upstream: &UpstreamProvider,
        events: &RequestEvents,
    ) -> Result<(), ErrorPage> {
        let id = session.head.id;
        self.store.remove_upstream_token(&id, &upstream.name, None).await?;
        self.token_cache.remove(id, &upstream.name);
        let kind = EventKind::UpstreamUnlinked { provider: upstream.name.as_str() };
        events.report(Event::of_session(&session.head, kind));
        let record = session.rows.get(&upstream.name);
        let tokens =
            record.and_then(|record| self.cipher.decrypt_tokens(id, upstream, record).ok());
        if let Some(tokens) = tokens
            && let Err(error) = upstream.provider.revoke(&tokens).await
        {
            tracing::warn!(provider = %upstream.name, %error, "failed to revoke upstream tokens");
        }
        Ok(())
    }

    /// Redirects the browser to one provider, to link it again for an existing session.
    async fn relink(
        &self,
        session: &Session,
        upstream: &UpstreamProvider,
        aim: LoginPurpose,
        (cookie, origin): (&BrowserCookie, Digest),
    ) -> Result<Response, ErrorPage> {
        let provider: ProviderName = upstream.name.clone();
        let login = Login {
            aim,
            session: session.head.id,
            browser: cookie.digest(),
            // Placeholder: the redirect to the provider replaces it.
            stage: Stage::AwaitConsent { csrf: cookie.digest() },
            user: Some(session.head.user.clone()),
            profile: Profile::default(),
            authenticated: None,
            created: Timestamp::from(self.clock.now()),
            origin: Some(origin),
        };
        let to = self.logins.redirect_to_upstream(login, upstream, None).await?;
        let to = to.ok_or(ErrorPage::LOGIN_EXPIRED)?;
        Ok(self.pages.continue_to(&to.to_string(), to.host().unwrap_or(provider.as_str())))
    }
}

/// Numbers the logins of clients with the same name, so that users of screen readers can tell the buttons apart.
fn number_duplicate_names(connections: &mut [Connection]) {
    let mut known: HashMap<String, usize> = HashMap::new();
    for connection in connections {
        let count = known.entry(connection.client.clone()).or_default();
        *count += 1;
        if *count > 1 {
            connection.client = format!("{} ({count})", connection.client);
        }
    }
}

fn expiry_text(expires: Option<Timestamp>, is_refreshable: bool) -> String {
    match (expires, is_refreshable) {
        (_, true) => "refreshed automatically".to_owned(),
        (None, false) => "no expiry".to_owned(),
        (Some(at), false) => format_time(at),
    }
}

/// Formats a time as day and minute.
fn format_time(at: Timestamp) -> String {
    let seconds = i64::try_from(at.unix()).unwrap_or(i64::MAX);
    let at = jiff::Timestamp::from_second(seconds).unwrap_or(jiff::Timestamp::MAX);
    at.strftime("%Y-%m-%d %H:%M UTC").to_string()
}

//! Connections page: shows the linked accounts of a user, who can link them again or unlink them.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use http::HeaderMap;
use vmcp_auth_store::{
    Client, Digest, Login, LoginPurpose, Profile, ProviderName, Session, SessionId, Stage,
    Timestamp, UserId,
};

use crate::auth_server::{AppState, EndpointClass, UpstreamProvider};
use crate::consent::is_same_origin_form;
use crate::discovery::path;
use crate::error::OAuthError;
use crate::event::{Event, EventKind, RevokedBy};
use crate::extract::{BrowserCookie, form, network_digest, peer_address};
use crate::page::{Connection, ConnectionsPage, ErrorPage, Link, ProviderConnection};
use crate::params::Params;

/// Handles `GET` of the page.
pub(crate) async fn show(State(server): State<Arc<AppState>>, request: Request) -> Response {
    let address = peer_address(&request);
    match server.list_connections(address, request.headers().clone()).await {
        Ok(response) => response,
        Err(page) => server.error_page(page),
    }
}

/// Handles `POST` of the page.
pub(crate) async fn change(State(server): State<Arc<AppState>>, request: Request) -> Response {
    match server.change_connection(request).await {
        Ok(response) => response,
        Err(page) => server.error_page(page),
    }
}

impl AppState {
    async fn list_connections(
        &self,
        address: IpAddr,
        headers: HeaderMap,
    ) -> Result<Response, ErrorPage> {
        self.admit(EndpointClass::Page, address).map_err(|error| ErrorPage::from(&error))?;
        let (cookie, user) = self.browser_user(&headers).await?;
        let sessions = self.store.sessions_of(&user).await.map_err(store_error_page)?;
        let mut connections = Vec::with_capacity(sessions.len());
        for session in sessions {
            // A session without a grant belongs to an unfinished login.
            if session.grant.is_some() {
                connections.push(self.describe_session(session).await);
            }
        }
        number_duplicate_names(&mut connections);
        let account = self.store.account(&user).await.map_err(store_error_page)?;
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
        self.admit(EndpointClass::Page, address).map_err(|error| ErrorPage::from(&error))?;
        if !is_same_origin_form(&request) {
            return Err(ErrorPage::OTHER_BROWSER);
        }
        let headers = request.headers().clone();
        let (cookie, user) = self.browser_user(&headers).await?;
        let text = form(request).await.map_err(ErrorPage::from)?;
        let params = Params::parse(&text).map_err(|_| ErrorPage::MALFORMED)?;
        if params.has_repeated() {
            return Err(ErrorPage::MALFORMED);
        }
        if params.get("csrf") != Some(&cookie.form_token()) {
            return Err(ErrorPage::OTHER_BROWSER);
        }
        if params.get("action") == Some("forget") {
            self.store.remove_browser(&cookie.digest()).await.map_err(store_error_page)?;
            return Err(ErrorPage::BROWSER_FORGOTTEN);
        }
        let session: SessionId =
            params.get("session").and_then(|text| text.parse().ok()).ok_or(ErrorPage::MALFORMED)?;
        let session = self.store.session(&session).await.map_err(store_error_page)?;
        // A session of another user is reported as missing.
        let session =
            session.filter(|session| session.head.user == user).ok_or(ErrorPage::LOGIN_EXPIRED)?;
        let upstream = params
            .get("provider")
            .and_then(|name| self.upstreams.iter().find(|upstream| upstream.name.as_str() == name));
        match (params.get("action"), upstream) {
            (Some("end"), None) => {
                // Delete the consent as well, so that the client must ask again after a logout.
                let client = &session.head.client;
                self.store.remove_consents(&user, client).await.map_err(store_error_page)?;
                self.end_session(session.head.id).await.map_err(store_error_page)?;
                let kind = EventKind::TokenRevoked { by: RevokedBy::User };
                self.report(Event::of_session(&session.head, kind));
            }
            (Some("unlink"), Some(upstream)) => self.unlink(&session, upstream).await?,
            (Some("link"), Some(upstream)) => {
                // Linking another account requires a confirmation page; the first provider's account cannot change.
                let other = params.get("other") == Some("yes") && upstream.at > 0;
                let aim = if other { LoginPurpose::LinkOther } else { LoginPurpose::Relink };
                return self
                    .relink(&session, upstream, aim, (&cookie, network_digest(address)))
                    .await;
            }
            _ => return Err(ErrorPage::MALFORMED),
        }
        Ok(self.pages.continue_to(&self.page_url(path::CONNECTIONS), "your connections"))
    }

    /// Returns the user who last logged in with this browser.
    async fn browser_user(
        &self,
        headers: &HeaderMap,
    ) -> Result<(BrowserCookie, UserId), ErrorPage> {
        let cookie =
            BrowserCookie::from_headers(headers, &self.settings).ok_or(ErrorPage::NOT_LOGGED_IN)?;
        let browser = self.store.browser(&cookie.digest()).await.map_err(store_error_page)?;
        Ok((cookie, browser.ok_or(ErrorPage::NOT_LOGGED_IN)?.user))
    }

    async fn describe_session(&self, session: Session) -> Connection {
        let client = self.store.client(&session.head.client).await.ok().flatten();
        let name = client.and_then(|Client { name, .. }| name);
        let linked = self.upstreams.iter().map(|upstream| {
            let row = session.rows.get(&upstream.name).filter(|row| row.issuer == upstream.issuer);
            let link = row.map(|row| Link {
                scopes: row.scopes.join(" "),
                until: expiry_text(row.expires, self.is_refreshable(&session, upstream)),
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
        let row = session.rows.get(&upstream.name);
        let tokens = row.and_then(|row| self.decrypt_tokens(session.head.id, upstream, row).ok());
        tokens.is_some_and(|tokens| tokens.refresh.is_some())
    }

    /// Deletes the provider's tokens here and revokes them at the provider. The session remains.
    async fn unlink(
        &self,
        session: &Session,
        upstream: &UpstreamProvider,
    ) -> Result<(), ErrorPage> {
        let id = session.head.id;
        self.store
            .remove_upstream_token(&id, &upstream.name, None)
            .await
            .map_err(store_error_page)?;
        self.token_cache.remove(id, &upstream.name);
        let kind = EventKind::UpstreamUnlinked { provider: upstream.name.as_str() };
        self.report(Event::of_session(&session.head, kind));
        let row = session.rows.get(&upstream.name);
        let tokens = row.and_then(|row| self.decrypt_tokens(id, upstream, row).ok());
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
            created: self.now(),
            origin: Some(origin),
        };
        let to = self
            .redirect_to_upstream(login, upstream, None)
            .await
            .map_err(|error| ErrorPage::from(&error))?;
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

fn store_error_page(error: vmcp_auth_store::StoreError) -> ErrorPage {
    ErrorPage::from(&OAuthError::from(error))
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

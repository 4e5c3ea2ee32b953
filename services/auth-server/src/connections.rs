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

use crate::consent::is_own_form;
use crate::error::Fault;
use crate::event::{Event, Happened, Revoker};
use crate::intake::{BrowserCookie, form, origin, peer};
use crate::metadata::path;
use crate::page::{Connection, Link, Linked, Overview, Trouble};
use crate::params::Params;
use crate::server::{Asked, Inner, Leg};

/// Handles `GET` of the page.
pub(crate) async fn show(State(server): State<Arc<Inner>>, request: Request) -> Response {
    let address = peer(&request);
    match server.show(address, request.headers().clone()).await {
        Ok(response) => response,
        Err(trouble) => server.trouble(trouble),
    }
}

/// Handles `POST` of the page.
pub(crate) async fn change(State(server): State<Arc<Inner>>, request: Request) -> Response {
    match server.change(request).await {
        Ok(response) => response,
        Err(trouble) => server.trouble(trouble),
    }
}

impl Inner {
    async fn show(&self, address: IpAddr, headers: HeaderMap) -> Result<Response, Trouble> {
        self.admit(Asked::Page, address).map_err(|fault| Trouble::from(&fault))?;
        let (cookie, user) = self.visitor(&headers).await?;
        let sessions = self.store.sessions_of(&user).await.map_err(trouble)?;
        let mut connections = Vec::with_capacity(sessions.len());
        for session in sessions {
            // A session without a grant belongs to an unfinished login.
            if session.grant.is_some() {
                connections.push(self.connection(session).await);
            }
        }
        tell_apart(&mut connections);
        let account = self.store.account(&user).await.map_err(trouble)?;
        let profile = account.map(|account| account.profile).unwrap_or_default();
        let overview = Overview {
            who: profile.email.or(profile.name),
            connections: &connections,
            csrf: &cookie.form_token(),
            base: self.settings.front().path(),
        };
        Ok(self.pages.connections(&overview))
    }

    async fn change(&self, request: Request) -> Result<Response, Trouble> {
        let address = peer(&request);
        self.admit(Asked::Page, address).map_err(|fault| Trouble::from(&fault))?;
        if !is_own_form(&request) {
            return Err(Trouble::OTHER_BROWSER);
        }
        let headers = request.headers().clone();
        let (cookie, user) = self.visitor(&headers).await?;
        let text = form(request).await.map_err(Trouble::from)?;
        let params = Params::parse(&text).map_err(|_| Trouble::MALFORMED)?;
        if params.any_twice() {
            return Err(Trouble::MALFORMED);
        }
        if params.get("csrf") != Some(&cookie.form_token()) {
            return Err(Trouble::OTHER_BROWSER);
        }
        if params.get("action") == Some("forget") {
            self.store.remove_browser(&cookie.digest()).await.map_err(trouble)?;
            return Err(Trouble::FORGOTTEN);
        }
        let session: SessionId =
            params.get("session").and_then(|text| text.parse().ok()).ok_or(Trouble::MALFORMED)?;
        let session = self.store.session(&session).await.map_err(trouble)?;
        // A session of another user is reported as missing.
        let session =
            session.filter(|session| session.head.user == user).ok_or(Trouble::EXPIRED)?;
        let leg = params
            .get("provider")
            .and_then(|name| self.upstreams.iter().find(|leg| leg.name.as_str() == name));
        match (params.get("action"), leg) {
            (Some("end"), None) => {
                // Delete the consent as well, so that the client must ask again after a logout.
                let client = &session.head.client;
                self.store.remove_consents(&user, client).await.map_err(trouble)?;
                self.end_session(session.head.id).await.map_err(trouble)?;
                let what = Happened::TokenRevoked { by: Revoker::Person };
                self.tell(Event::of_session(&session.head, what));
            }
            (Some("unlink"), Some(leg)) => self.unlink(&session, leg).await?,
            (Some("link"), Some(leg)) => {
                // Linking another account requires a confirmation page; the first provider's account cannot change.
                let other = params.get("other") == Some("yes") && leg.at > 0;
                let aim = if other { LoginPurpose::LinkOther } else { LoginPurpose::Relink };
                return self.relink(&session, leg, aim, (&cookie, origin(address))).await;
            }
            _ => return Err(Trouble::MALFORMED),
        }
        Ok(self.pages.leave(&self.page(path::CONNECTIONS), "your connections"))
    }

    /// Returns the user who last logged in with this browser.
    async fn visitor(&self, headers: &HeaderMap) -> Result<(BrowserCookie, UserId), Trouble> {
        let cookie = BrowserCookie::sent(headers, &self.settings).ok_or(Trouble::NOBODY)?;
        let browser = self.store.browser(&cookie.digest()).await.map_err(trouble)?;
        Ok((cookie, browser.ok_or(Trouble::NOBODY)?.user))
    }

    async fn connection(&self, session: Session) -> Connection {
        let client = self.store.client(&session.head.client).await.ok().flatten();
        let name = client.and_then(|Client { name, .. }| name);
        let linked = self.upstreams.iter().map(|leg| {
            let row = session.rows.get(&leg.name).filter(|row| row.issuer == leg.issuer);
            let link = row.map(|row| Link {
                scopes: row.scopes.join(" "),
                until: until(row.expires, self.renews(&session, leg)),
            });
            Linked { provider: leg.name.as_str().to_owned(), link }
        });
        Connection {
            session: session.head.id.to_text(),
            client: name.unwrap_or_else(|| session.head.client.as_str().to_owned()),
            since: date(session.created),
            linked: linked.collect(),
        }
    }

    /// Returns `true` if the provider's tokens are refreshed automatically.
    fn renews(&self, session: &Session, leg: &Leg) -> bool {
        let row = session.rows.get(&leg.name);
        let tokens = row.and_then(|row| self.open_row(session.head.id, leg, row).ok());
        tokens.is_some_and(|tokens| tokens.refresh.is_some())
    }

    /// Deletes the provider's tokens here and revokes them at the provider. The session remains.
    async fn unlink(&self, session: &Session, leg: &Leg) -> Result<(), Trouble> {
        let id = session.head.id;
        self.store.remove_upstream_token(&id, &leg.name, None).await.map_err(trouble)?;
        self.rows.forget(id, &leg.name);
        let what = Happened::UpstreamUnlinked { provider: leg.name.as_str() };
        self.tell(Event::of_session(&session.head, what));
        let row = session.rows.get(&leg.name);
        let tokens = row.and_then(|row| self.open_row(id, leg, row).ok());
        if let Some(tokens) = tokens
            && let Err(fault) = leg.provider.revoke(&tokens).await
        {
            tracing::warn!(provider = %leg.name, %fault, "a provider is not told that its tokens are not used any more");
        }
        Ok(())
    }

    /// Redirects the browser to one provider, to link it again for an existing session.
    async fn relink(
        &self,
        session: &Session,
        leg: &Leg,
        aim: LoginPurpose,
        (cookie, origin): (&BrowserCookie, Digest),
    ) -> Result<Response, Trouble> {
        let provider: ProviderName = leg.name.clone();
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
        let to = self.go_on(login, leg, None).await.map_err(|fault| Trouble::from(&fault))?;
        let to = to.ok_or(Trouble::EXPIRED)?;
        Ok(self.pages.leave(&to.to_string(), to.host().unwrap_or(provider.as_str())))
    }
}

/// Numbers the logins of clients with the same name, so that users of screen readers can tell the buttons apart.
fn tell_apart(connections: &mut [Connection]) {
    let mut known: HashMap<String, usize> = HashMap::new();
    for connection in connections {
        let count = known.entry(connection.client.clone()).or_default();
        *count += 1;
        if *count > 1 {
            connection.client = format!("{} ({count})", connection.client);
        }
    }
}

fn trouble(error: vmcp_auth_store::StoreError) -> Trouble {
    Trouble::from(&Fault::from(error))
}

fn until(expires: Option<Timestamp>, renews: bool) -> String {
    match (expires, renews) {
        (_, true) => "renewed by itself".to_owned(),
        (None, false) => "no end".to_owned(),
        (Some(at), false) => date(at),
    }
}

/// Formats a time as day and minute.
fn date(at: Timestamp) -> String {
    let seconds = i64::try_from(at.unix()).unwrap_or(i64::MAX);
    let at = jiff::Timestamp::from_second(seconds).unwrap_or(jiff::Timestamp::MAX);
    at.strftime("%Y-%m-%d %H:%M UTC").to_string()
}

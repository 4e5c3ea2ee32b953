//! Audit events of the embedded authorization server. They use the sink, the format and the event filter of MCP
//! requests.

mod visit;

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use http::StatusCode;
use vmcp_audit::{
    Auditor, BoundedText, ClientInfo, Event, EventSource, EventTarget, EventType, FieldValue,
    Outcome,
};
use vmcp_auth_server::{Event as Told, Happened, Lost, Observer, Refusal};
use vmcp_auth_store::{Digest, SessionId};
use vmcp_core::Identity;

use self::visit::VISIT;
pub(crate) use self::visit::VisitLayer;

/// Number of characters of a session digest in an event, enough to tell sessions apart.
const SESSION: usize = 16;

/// Current auditor. A reload may replace it; requests that began before the reload use the new one.
#[derive(Debug, Default)]
pub(crate) struct Logins(ArcSwapOption<Auditor>);

/// Observer that turns the events of one issuer into audit events.
pub(crate) struct Recorder {
    issuer: String,
    logins: Arc<Logins>,
}

impl Logins {
    /// Replaces the auditor; `None` stops recording.
    pub(crate) fn go_to(&self, auditor: Option<&Auditor>) {
        self.0.store(auditor.cloned().map(Arc::new));
    }
}

impl Recorder {
    pub(crate) fn new(issuer: &str, logins: &Arc<Logins>) -> Self {
        Self { issuer: issuer.to_owned(), logins: Arc::clone(logins) }
    }

    fn event(&self, told: &Told<'_>, auditor: &Auditor) -> Option<Event> {
        let Told { client, user, name, email, session, what } = *told;
        let kind = kind(&what);
        if !auditor.is_enabled(kind) {
            return None;
        }
        let mut event = Event::new(kind, outcome(&what), auditor.now());
        // Events without a request, such as the loss of a provider link, have a local source.
        event.source = EventSource::Local;
        _ = VISIT.try_with(|visit| {
            event.source = visit.source.clone();
            event.target.endpoint = visit.endpoint.clone();
            event.target.method = visit.method.clone();
            event.details.duration = Some(visit.began.elapsed());
        });
        event.caller = user.map(|user| {
            let said = [("name", name), ("email", email)];
            let known = said.into_iter().filter_map(|(claim, value)| Some((claim, value?)));
            let claims: serde_json::Map<_, _> =
                known.map(|(claim, value)| (claim.to_owned(), value.into())).collect();
            Identity::builder(&self.issuer, user).claims(claims).build()
        });
        event.target.kind = "client";
        event.target.name = client.map(BoundedText::from);
        describe(&what, &mut event);
        if let Some(session) = session {
            event.details.more.push(("session", text(&print(session))));
        }
        Some(event)
    }
}

impl Observer for Recorder {
    fn observe(&self, told: &Told<'_>) {
        if let Some(auditor) = &*self.logins.0.load()
            && let Some(event) = self.event(told, auditor)
        {
            auditor.record(event);
        }
    }
}

fn kind(what: &Happened<'_>) -> EventType {
    match what {
        Happened::LoginStarted { .. } => EventType::LoginStarted,
        Happened::ConsentGiven => EventType::ConsentGiven,
        Happened::ConsentDenied => EventType::ConsentDenied,
        Happened::LoginCompleted { .. } => EventType::LoginCompleted,
        Happened::LoginFailed { .. } => EventType::LoginFailed,
        Happened::UpstreamLinked { .. } => EventType::UpstreamLinked,
        Happened::UpstreamUnlinked { .. } => EventType::UpstreamUnlinked,
        Happened::UpstreamLost { .. } => EventType::UpstreamLost,
        Happened::TokenIssued { .. } => EventType::TokenIssued,
        Happened::TokenRefreshed { .. } => EventType::TokenRefreshed,
        Happened::TokenRefused { .. } => EventType::TokenRefused,
        Happened::TokenReused { .. } => EventType::TokenReused,
        Happened::TokenRevoked { .. } => EventType::TokenRevoked,
        Happened::ClientRegistered { .. } => EventType::ClientRegistered,
        Happened::ClientRefused { .. } => EventType::ClientRefused,
    }
}

/// Derives the outcome from the status, as for MCP requests, even if the browser carries the response.
fn outcome(what: &Happened<'_>) -> Outcome {
    match what {
        Happened::LoginFailed { refusal, .. }
        | Happened::TokenRefused { refusal }
        | Happened::ClientRefused { refusal } => match refusal.status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Outcome::Denied,
            status if status.is_server_error() => Outcome::Error,
            _ => Outcome::Failure,
        },
        Happened::ConsentDenied | Happened::TokenReused { .. } => Outcome::Denied,
        Happened::UpstreamLost { lost: Lost::NotKept, .. } => Outcome::Error,
        Happened::UpstreamLost { lost: Lost::Dead | Lost::SubjectChanged, .. } => Outcome::Failure,
        Happened::LoginStarted { .. }
        | Happened::ConsentGiven
        | Happened::LoginCompleted { .. }
        | Happened::UpstreamLinked { .. }
        | Happened::UpstreamUnlinked { .. }
        | Happened::TokenIssued { .. }
        | Happened::TokenRefreshed { .. }
        | Happened::TokenRevoked { .. }
        | Happened::ClientRegistered { .. } => Outcome::Success,
    }
}

/// Adds the fields that are specific to the kind of event.
fn describe(what: &Happened<'_>, event: &mut Event) {
    let Event { target, details, client, .. } = event;
    let more = &mut details.more;
    match *what {
        Happened::LoginStarted { scopes, resource, remembered } => {
            more.push(("scope", words(scopes)));
            more.push(("resource", text(resource)));
            more.push(("consent_remembered", FieldValue::Flag(remembered)));
        }
        Happened::ConsentGiven | Happened::ConsentDenied => {}
        Happened::LoginCompleted { scopes, resource } => {
            more.push(("scope", words(scopes)));
            more.extend(resource.map(|resource| ("resource", text(resource))));
        }
        Happened::LoginFailed { provider, refusal } => {
            more.push(("refused_by", text(if provider.is_some() { "provider" } else { "server" })));
            more.extend(provider.map(|provider| ("provider", text(provider))));
            refused(&refusal, more);
        }
        Happened::UpstreamLinked { provider, scopes } => {
            of_provider(provider, target);
            more.push(("scope", words(scopes)));
        }
        Happened::UpstreamUnlinked { provider } => of_provider(provider, target),
        Happened::UpstreamLost { provider, lost } => {
            of_provider(provider, target);
            more.push(("reason", text(lost.name())));
        }
        Happened::TokenIssued { scopes, audience } => {
            more.extend([("scope", words(scopes)), ("audience", words(audience))]);
        }
        Happened::TokenRefreshed { scopes, audience, repeated } => {
            more.extend([("scope", words(scopes)), ("audience", words(audience))]);
            more.push(("repeated", FieldValue::Flag(repeated)));
        }
        Happened::TokenRefused { refusal } | Happened::ClientRefused { refusal } => {
            refused(&refusal, more);
        }
        Happened::TokenReused { token } => more.push(("reused", text(token.name()))),
        Happened::TokenRevoked { by } => more.push(("revoked_by", text(by.name()))),
        Happened::ClientRegistered { name, redirect_uris } => {
            *client = name.map(|name| ClientInfo { name: Some(name.into()), version: None });
            more.push(("redirect_uris", words(redirect_uris)));
        }
    }
}

fn refused(refusal: &Refusal, more: &mut Vec<(&'static str, FieldValue)>) {
    let Refusal { status: _, error, reason } = *refusal;
    more.extend(error.map(|error| ("error", text(error))));
    more.push(("reason", text(reason)));
}

/// Makes the provider the target of the event and moves the client to `client_id`.
fn of_provider(provider: &str, target: &mut EventTarget) {
    target.kind = "upstream_provider";
    let client = target.name.replace(provider.into());
    target.more.extend(client.map(|client| ("client_id", client)));
}

fn text(text: &str) -> FieldValue {
    FieldValue::Text(text.into())
}

/// Joins a list with spaces, as OAuth does.
fn words(words: &[String]) -> FieldValue {
    text(&words.join(" "))
}

/// Returns a digest of the session identifier: the identifier itself is a lookup key of tokens.
fn print(session: SessionId) -> String {
    let digest = Digest::of(["audit\0", &session.to_text()].concat()).to_text();
    digest.chars().take(SESSION).collect()
}

#[cfg(test)]
mod tests;

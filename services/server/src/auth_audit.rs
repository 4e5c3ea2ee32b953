//! Audit events of the embedded authorization server. They use the sink, the format and the event filter of MCP
//! requests.

mod request_info;

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use http::StatusCode;
use vmcp_audit::{
    Auditor, BoundedText, ClientInfo, Event, EventSource, EventTarget, EventType, FieldValue,
    Outcome,
};
use vmcp_auth_server::{
    Event as AuthEvent, EventContext, EventKind, LinkLossReason, Observer, Rejection,
};
use vmcp_auth_store::{Digest, SessionId};
use vmcp_core::Identity;

use self::request_info::RequestInfo;
pub(crate) use self::request_info::RequestInfoLayer;

/// Number of characters of a session digest in an event, enough to tell sessions apart.
const SESSION: usize = 16;

/// Current auditor. Only the start and a reload replace it, with the rest of the reloadable state; requests that began before the reload use the new one.
#[derive(Debug, Default)]
pub(crate) struct AuthAuditRecorder(ArcSwapOption<Auditor>);

/// Observer that turns the events of one issuer into audit events.
pub(crate) struct AuthEventObserver {
    issuer: String,
    auth_audit: Arc<AuthAuditRecorder>,
}

impl AuthAuditRecorder {
    /// Replaces the auditor; `None` stops recording.
    pub(crate) fn set_auditor(&self, auditor: Option<&Auditor>) {
        self.0.store(auditor.cloned().map(Arc::new));
    }
}

impl AuthEventObserver {
    pub(crate) fn new(issuer: &str, auth_audit: &Arc<AuthAuditRecorder>) -> Self {
        Self { issuer: issuer.to_owned(), auth_audit: Arc::clone(auth_audit) }
    }

    fn event(&self, told: &AuthEvent<'_>, auditor: &Auditor) -> Option<Event> {
        let AuthEvent { client, user, name, email, session, context, kind: what } = *told;
        let kind = kind(&what);
        if !auditor.is_enabled(kind) {
            return None;
        }
        let mut event = Event::new(kind, outcome(&what), auditor.now());
        // Events without a request, such as the loss of a provider link, have a local source.
        event.source = EventSource::Local;
        if let Some(info) = context.and_then(EventContext::get::<RequestInfo>) {
            event.source = info.source.clone();
            event.target.endpoint = info.endpoint.clone();
            event.target.method = info.method.clone();
            event.details.duration = Some(info.began.elapsed());
        }
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

impl Observer for AuthEventObserver {
    fn observe(&self, told: &AuthEvent<'_>) {
        if let Some(auditor) = &*self.auth_audit.0.load()
            && let Some(event) = self.event(told, auditor)
        {
            auditor.record(event);
        }
    }
}

fn kind(what: &EventKind<'_>) -> EventType {
    match what {
        EventKind::LoginStarted { .. } => EventType::LoginStarted,
        EventKind::ConsentGiven => EventType::ConsentGiven,
        EventKind::ConsentDenied => EventType::ConsentDenied,
        EventKind::LoginCompleted { .. } => EventType::LoginCompleted,
        EventKind::LoginFailed { .. } => EventType::LoginFailed,
        EventKind::UpstreamLinked { .. } => EventType::UpstreamLinked,
        EventKind::UpstreamUnlinked { .. } => EventType::UpstreamUnlinked,
        EventKind::UpstreamLinkLost { .. } => EventType::UpstreamLost,
        EventKind::TokenIssued { .. } => EventType::TokenIssued,
        EventKind::TokenRefreshed { .. } => EventType::TokenRefreshed,
        EventKind::TokenRejected { .. } => EventType::TokenRefused,
        EventKind::TokenReplayed { .. } => EventType::TokenReused,
        EventKind::TokenRevoked { .. } => EventType::TokenRevoked,
        EventKind::ClientRegistered { .. } => EventType::ClientRegistered,
        EventKind::RegistrationRejected { .. } => EventType::ClientRefused,
    }
}

/// Derives the outcome from the status, as for MCP requests, even if the browser carries the response.
fn outcome(what: &EventKind<'_>) -> Outcome {
    match what {
        EventKind::LoginFailed { rejection, .. }
        | EventKind::TokenRejected { rejection }
        | EventKind::RegistrationRejected { rejection } => match rejection.status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Outcome::Denied,
            status if status.is_server_error() => Outcome::Error,
            _ => Outcome::Failure,
        },
        EventKind::ConsentDenied | EventKind::TokenReplayed { .. } => Outcome::Denied,
        EventKind::UpstreamLinkLost { reason: LinkLossReason::StoreFailed, .. } => Outcome::Error,
        EventKind::UpstreamLinkLost {
            reason: LinkLossReason::GrantEnded | LinkLossReason::SubjectChanged,
            ..
        } => Outcome::Failure,
        EventKind::LoginStarted { .. }
        | EventKind::ConsentGiven
        | EventKind::LoginCompleted { .. }
        | EventKind::UpstreamLinked { .. }
        | EventKind::UpstreamUnlinked { .. }
        | EventKind::TokenIssued { .. }
        | EventKind::TokenRefreshed { .. }
        | EventKind::TokenRevoked { .. }
        | EventKind::ClientRegistered { .. } => Outcome::Success,
    }
}

/// Adds the fields that are specific to the kind of event.
fn describe(what: &EventKind<'_>, event: &mut Event) {
    let Event { target, details, client, .. } = event;
    let more = &mut details.more;
    match *what {
        EventKind::LoginStarted { scopes, resource, remembered } => {
            more.push(("scope", words(scopes)));
            more.push(("resource", text(resource)));
            more.push(("consent_remembered", FieldValue::Flag(remembered)));
        }
        EventKind::ConsentGiven | EventKind::ConsentDenied => {}
        EventKind::LoginCompleted { scopes, resource } => {
            more.push(("scope", words(scopes)));
            more.extend(resource.map(|resource| ("resource", text(resource))));
        }
        EventKind::LoginFailed { provider, rejection } => {
            more.push(("refused_by", text(if provider.is_some() { "provider" } else { "server" })));
            more.extend(provider.map(|provider| ("provider", text(provider))));
            refused(&rejection, more);
        }
        EventKind::UpstreamLinked { provider, scopes } => {
            of_provider(provider, target);
            more.push(("scope", words(scopes)));
        }
        EventKind::UpstreamUnlinked { provider } => of_provider(provider, target),
        EventKind::UpstreamLinkLost { provider, reason } => {
            of_provider(provider, target);
            more.push(("reason", text(reason.name())));
        }
        EventKind::TokenIssued { scopes, audience } => {
            more.extend([("scope", words(scopes)), ("audience", words(audience))]);
        }
        EventKind::TokenRefreshed { scopes, audience, repeated } => {
            more.extend([("scope", words(scopes)), ("audience", words(audience))]);
            more.push(("repeated", FieldValue::Flag(repeated)));
        }
        EventKind::TokenRejected { rejection } | EventKind::RegistrationRejected { rejection } => {
            refused(&rejection, more);
        }
        EventKind::TokenReplayed { token } => more.push(("reused", text(token.name()))),
        EventKind::TokenRevoked { by } => more.push(("revoked_by", text(by.name()))),
        EventKind::ClientRegistered { name, redirect_uris } => {
            *client = name.map(|name| ClientInfo { name: Some(name.into()), version: None });
            more.push(("redirect_uris", words(redirect_uris)));
        }
    }
}

fn refused(rejection: &Rejection, more: &mut Vec<(&'static str, FieldValue)>) {
    let Rejection { status: _, error, reason } = *rejection;
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

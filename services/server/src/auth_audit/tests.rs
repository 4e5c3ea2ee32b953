use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::time::Duration;

use http::Request;
use tower::{ServiceExt, service_fn};
use tower_layer::Layer;
use vmcp_audit::{AuditSettings, EventFilter};
use vmcp_auth_server::{ReplayedToken, RevokedBy};

use super::*;

type Taken = Arc<Mutex<Vec<Event>>>;

fn recorder(events: EventFilter) -> (AuthEventObserver, Arc<AuthAuditRecorder>, Taken) {
    let taken = Taken::default();
    let kept = Arc::clone(&taken);
    let settings = AuditSettings { events, ..AuditSettings::default() };
    let auditor = Auditor::new(settings, move |event| kept.lock().unwrap().push(event));
    let auth_audit = Arc::new(AuthAuditRecorder::default());
    auth_audit.set_auditor(Some(&auditor));
    (AuthEventObserver::new("https://as.example", &auth_audit), auth_audit, taken)
}

fn told(what: EventKind<'_>) -> AuthEvent<'_> {
    let session = Some(SessionId::from_bytes([7; 16]));
    let (client, user) = (Some("editor"), Some("u-1"));
    AuthEvent {
        client,
        user,
        name: Some("Ann"),
        email: Some("ann@example.com"),
        session,
        context: None,
        kind: what,
    }
}

fn fact<'a>(event: &'a Event, name: &str) -> Option<&'a str> {
    let mut facts = event.details.more.iter().filter(|(known, _)| *known == name);
    match facts.next()? {
        (_, FieldValue::Text(text)) => Some(text),
        other => panic!("{other:?}"),
    }
}

fn rejection(status: u16) -> Rejection {
    let status = StatusCode::from_u16(status).unwrap();
    Rejection { status, error: Some("invalid_grant"), reason: "the code is unknown" }
}

#[test]
fn every_issuer_event_type_has_a_source() {
    let (scopes, rejection) = (&["tools".to_owned()][..], rejection(400));
    let all = [
        EventKind::LoginStarted { scopes, resource: "r", remembered: false },
        EventKind::ConsentGiven,
        EventKind::ConsentDenied,
        EventKind::LoginCompleted { scopes, resource: None },
        EventKind::LoginFailed { provider: None, rejection },
        EventKind::UpstreamLinked { provider: "corp", scopes },
        EventKind::UpstreamUnlinked { provider: "corp" },
        EventKind::UpstreamLinkLost { provider: "corp", reason: LinkLossReason::GrantEnded },
        EventKind::TokenIssued { scopes, audience: scopes },
        EventKind::TokenRefreshed { scopes, audience: scopes, repeated: false },
        EventKind::TokenRejected { rejection },
        EventKind::TokenReplayed { token: ReplayedToken::Code },
        EventKind::TokenRevoked { by: RevokedBy::Client },
        EventKind::ClientRegistered { name: None, redirect_uris: scopes },
        EventKind::RegistrationRejected { rejection },
    ];
    let mut made: Vec<_> = all.iter().map(kind).collect();
    made.sort_by_key(|kind| *kind as u8);
    let expected = EventType::ALL.iter().copied().filter(|kind| kind.is_auth_server_event());
    assert!(expected.eq(made.iter().copied()), "{made:?}");
    // One that is not wanted is not made.
    let (recorder, _, taken) = recorder(EventFilter::new(&[EventType::ConsentGiven], &[]));
    for what in all {
        recorder.observe(&told(what));
    }
    let taken = taken.lock().unwrap();
    assert_eq!(taken.iter().map(|event| event.kind).collect::<Vec<_>>(), [EventType::ConsentGiven]);
}

#[test]
fn derives_outcome_from_response_status() {
    for (status, expected) in [
        (401, Outcome::Denied),
        (403, Outcome::Denied),
        (400, Outcome::Failure),
        (429, Outcome::Failure),
        (500, Outcome::Error),
        (503, Outcome::Error),
    ] {
        let rejection = rejection(status);
        for what in [
            EventKind::LoginFailed { provider: Some("corp"), rejection },
            EventKind::TokenRejected { rejection },
            EventKind::RegistrationRejected { rejection },
        ] {
            assert_eq!(outcome(&what), expected, "{status} {what:?}");
        }
    }
    assert_eq!(outcome(&EventKind::ConsentDenied), Outcome::Denied);
    assert_eq!(
        outcome(&EventKind::TokenReplayed { token: ReplayedToken::RefreshToken }),
        Outcome::Denied
    );
}

#[test]
fn events_name_caller_client_and_session() {
    let (recorder, _, taken) = recorder(EventFilter::ALL);
    recorder.observe(&told(EventKind::TokenReplayed { token: ReplayedToken::RefreshToken }));
    let event = taken.lock().unwrap().pop().unwrap();
    assert_eq!((event.target.kind, event.target.name.as_deref()), ("client", Some("editor")));
    let caller = event.caller.as_ref().unwrap();
    assert_eq!((caller.issuer(), caller.subject()), (Some("https://as.example"), Some("u-1")));
    assert_eq!(caller.claims().unwrap().text("name"), Some("Ann"));
    assert_eq!(fact(&event, "reused"), Some("refresh_token"));
    let session = fact(&event, "session").unwrap();
    assert_eq!(session.len(), SESSION);
    assert!(!SessionId::from_bytes([7; 16]).to_text().contains(session), "{session}");
    // The event was caused by no request.
    assert!(matches!(event.source, EventSource::Local));
}

#[test]
fn records_rejecting_party_and_reason() {
    let (recorder, _, taken) = recorder(EventFilter::ALL);
    for (provider, by) in [(Some("corp"), "provider"), (None, "server")] {
        recorder.observe(&told(EventKind::LoginFailed { provider, rejection: rejection(400) }));
        let event = taken.lock().unwrap().pop().unwrap();
        assert_eq!((fact(&event, "refused_by"), fact(&event, "provider")), (Some(by), provider));
        assert_eq!(fact(&event, "error"), Some("invalid_grant"));
        assert_eq!(fact(&event, "reason"), Some("the code is unknown"));
    }
    recorder.observe(&told(EventKind::UpstreamLinkLost {
        provider: "corp",
        reason: LinkLossReason::GrantEnded,
    }));
    let event = taken.lock().unwrap().pop().unwrap();
    assert_eq!(
        (event.target.kind, event.target.name.as_deref()),
        ("upstream_provider", Some("corp"))
    );
    assert_eq!(event.target.more, [("client_id", BoundedText::from("editor"))]);
    assert_eq!(fact(&event, "reason"), Some("dead"));
}

#[tokio::test(start_paused = true)]
async fn events_during_requests_carry_request_source() {
    let (recorder, auth_audit, taken) = recorder(EventFilter::ALL);
    let recorder = Arc::new(recorder);
    let inner = service_fn(move |request: Request<()>| {
        let recorder = Arc::clone(&recorder);
        async move {
            tokio::time::sleep(Duration::from_millis(30)).await;
            let context = request.extensions().get::<EventContext>();
            recorder.observe(&AuthEvent { context, ..told(EventKind::ConsentGiven) });
            Ok::<_, Infallible>(())
        }
    });
    let request = || {
        let mut request = Request::post("/oauth/consent?id=canary").body(()).unwrap();
        request.extensions_mut().insert(SocketAddr::from(([192, 0, 2, 7], 1)));
        request
    };
    let service = RequestInfoLayer(Arc::clone(&auth_audit)).layer(inner);
    service.clone().oneshot(request()).await.unwrap();
    let event = taken.lock().unwrap().pop().unwrap();
    let EventSource::Network { address, .. } = event.source else { panic!("{:?}", event.source) };
    assert_eq!(address.unwrap().to_string(), "192.0.2.7");
    assert_eq!((&*event.target.endpoint, &*event.target.method), ("/oauth/consent", "POST"));
    assert_eq!(event.details.duration, Some(Duration::from_millis(30)));
    // Without an auditor, no event is built.
    auth_audit.set_auditor(None);
    service.oneshot(request()).await.unwrap();
    assert!(taken.lock().unwrap().is_empty());
}

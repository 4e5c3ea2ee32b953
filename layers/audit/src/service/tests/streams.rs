//! Tests of streamed responses.

use http::Method;
use http_body_util::channel::{Channel, Sender};

use super::*;

/// Returns a response and the sender of its body.
fn channel(media: &'static str) -> (Sender<Bytes, io::Error>, Response<Body>) {
    let (sender, body) = Channel::<Bytes, io::Error>::new(4);
    (sender, response(media, Body::wrap(body)))
}

/// Returns a service that responds once, with `response`.
fn once(
    text: &'static str,
    response: Response<Body>,
) -> impl Service<Request<()>, Response = Response<Body>, Error = Infallible, Future: Send> + Clone
{
    let response = Arc::new(Mutex::new(Some(response)));
    serve(text, move |_| response.lock().unwrap().take().unwrap())
}

#[tokio::test(start_paused = true)]
async fn records_stream_at_its_end() {
    let fixture = Fixture::new(AuditSettings::default());
    let (mut sender, response) = channel("text/event-stream");
    let call = fixture.layer.layer(once(CALL, response)).oneshot(post()).await.unwrap();
    let mut body = call.into_body();
    sender.send_data(Bytes::from_static(b"data: {\"jsonrpc\":\"2.0\",\"meth")).await.unwrap();
    assert!(body.frame().await.unwrap().is_ok());
    assert!(fixture.events().is_empty());
    tokio::time::advance(Duration::from_secs(5)).await;
    sender.send_data(Bytes::from_static(b"od\":\"x\"}\n\n")).await.unwrap();
    drop(sender);
    assert!(body.frame().await.unwrap().is_ok());
    assert!(body.frame().await.is_none());
    let Event { outcome, details, .. } = fixture.event();
    assert_eq!((outcome, details.size), (Outcome::Success, Some(38)));
    assert!(details.duration.unwrap() >= Duration::from_secs(5));
}

#[tokio::test(start_paused = true)]
async fn cancelled_stream_without_response_is_application_error() {
    for (sent, detects, outcome) in [
        (
            "data: {\"jsonrpc\":\"2.0\",\"method\":\"x\"}\n\n".to_owned(),
            true,
            Outcome::ApplicationError,
        ),
        (": \n\n".to_owned(), true, Outcome::ApplicationError),
        (format!("data: {RESULT}\n\n"), true, Outcome::Success),
        (": \n\n".to_owned(), false, Outcome::Success),
    ] {
        let fixture = Fixture::new(AuditSettings {
            detect_application_errors: detects,
            ..AuditSettings::default()
        });
        let (mut sender, response) = channel("text/event-stream");
        let mut request = post();
        let request_context = RequestContext::of(request.extensions_mut());
        let call = fixture.layer.layer(once(CALL, response)).oneshot(request).await.unwrap();
        sender.send_data(Bytes::from(sent)).await.unwrap();
        request_context.record_cancelled();
        drop(sender);
        call.into_body().collect().await.unwrap();
        let Event { outcome: recorded, details, .. } = fixture.event();
        assert_eq!(recorded, outcome);
        let is_error = outcome == Outcome::ApplicationError;
        assert_eq!((details.error_message.is_some(), details.cancelled), (is_error, false));
    }
}

#[tokio::test(start_paused = true)]
async fn truncated_stream_without_response_is_error() {
    for (first, outcome) in [
        ("data: {\"jsonrpc\":\"2.0\",\"method\":\"x\"}\n\n".to_owned(), Outcome::Error),
        (format!("data: {RESULT}\n\n"), Outcome::Success),
        (format!("data: {ERROR}\n\n"), Outcome::ApplicationError),
    ] {
        let fixture = Fixture::new(AuditSettings::default());
        let (mut sender, response) = channel("text/event-stream");
        let call = fixture.layer.layer(once(CALL, response)).oneshot(post()).await.unwrap();
        sender.send_data(Bytes::from(first)).await.unwrap();
        sender.abort(io::Error::other("c4n4ry"));
        assert!(call.into_body().collect().await.is_err());
        assert_eq!(fixture.event().outcome, outcome);
    }
}

#[tokio::test(start_paused = true)]
async fn disconnect_after_response_is_not_cancellation() {
    for (first, cancelled) in
        [("data: 1\n\n".to_owned(), true), (format!("data: {RESULT}\n\n"), false)]
    {
        let fixture = Fixture::new(AuditSettings::default());
        let (mut sender, response) = channel("text/event-stream");
        let call = fixture.layer.layer(once(CALL, response)).oneshot(post()).await.unwrap();
        sender.send_data(Bytes::from(first)).await.unwrap();
        let mut body = call.into_body();
        assert!(body.frame().await.unwrap().is_ok());
        drop(body);
        let event = fixture.event();
        assert_eq!(event.outcome, if cancelled { Outcome::Failure } else { Outcome::Success });
        assert_eq!(event.details.cancelled, cancelled);
    }
}

#[tokio::test(start_paused = true)]
async fn records_notification_stream_when_it_opens() {
    let fixture = Fixture::new(AuditSettings::default());
    let (mut sender, response) = channel("text/event-stream");
    let mut get = post();
    *get.method_mut() = Method::GET;
    get.headers_mut().insert("accept", "text/event-stream".parse().unwrap());
    let call = fixture.layer.layer(once("", response)).oneshot(get).await.unwrap();
    let event = fixture.event();
    assert_eq!((event.kind, event.outcome), (EventType::SseConnection, Outcome::Success));
    assert_eq!(event.target.kind, "sse_endpoint");
    sender.send_data(Bytes::from_static(b"x")).await.unwrap();
    drop(sender);
    assert_eq!(call.into_body().collect().await.unwrap().to_bytes(), "x");

    let listen = r#"{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{}}"#;
    let (_sender, response) = channel("text/event-stream; charset=utf-8");
    let call = fixture.layer.layer(once(listen, response)).oneshot(post()).await.unwrap();
    let events = fixture.events();
    assert_eq!(events.len(), 2);
    assert_eq!(events[1].kind, EventType::SseConnection);
    assert_eq!(&*events[1].target.method, "subscriptions/listen");
    drop(call);
    assert_eq!(fixture.events().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn records_rejected_stream_as_denied() {
    let fixture = Fixture::new(AuditSettings::default());
    let mut get = post();
    *get.method_mut() = Method::GET;
    get.headers_mut().insert("accept", "text/event-stream".parse().unwrap());
    let refuse = serve("", |_| {
        Rejection::new(StatusCode::UNAUTHORIZED, -32600, "log in").into_response(None)
    });
    send(&fixture, refuse, get).await;
    let event = fixture.event();
    assert_eq!((event.kind, event.outcome), (EventType::SseConnection, Outcome::Denied));
}

//! Replicas that accept connections and do not respond. The clock is paused.

use std::time::Duration;

use http::Response;
use tokio::time::{Instant, timeout};
use vmcp_core::Body;
use vmcp_peer::{ForwardError, ForwardOptions};

use crate::proxy::{Flow, Proxy};
use crate::replica::{Replica, bind, client_at, request, ring, text};

const LIMIT: Duration = Duration::from_secs(10);

async fn pair() -> (Replica, Proxy) {
    let [one, two, front] = bind().await;
    (Replica::start(one, ring(1)), Proxy::start(front, two))
}

async fn forward(
    (one, two): (&Replica, &Proxy),
    path: &str,
    response_timeout: Option<Duration>,
) -> Result<Response<Body>, ForwardError> {
    let options = ForwardOptions { response_timeout, ..ForwardOptions::default() };
    one.peers.forward(&two.replica.handle(), request(path, "x"), options).await
}

#[tokio::test(start_paused = true)]
async fn socket_that_never_answers_is_unreachable() {
    let [one, two] = bind().await;
    let one = Replica::start(one, ring(1));
    let silent = client_at(two.local_addr().unwrap(), ring(1));
    let begun = Instant::now();
    let options = ForwardOptions::default();
    let error = one.peers.forward(silent.own(), request("/", ""), options).await.unwrap_err();
    assert!(matches!(error, ForwardError::Unreachable { .. }), "{error}");
    assert!(!error.is_gone() && !error.is_sent(), "{error}");
    assert!(begun.elapsed() <= Duration::from_secs(3), "{:?}", begun.elapsed());
    drop(two);
}

#[tokio::test(start_paused = true)]
async fn later_request_reaches_replica_that_was_frozen() {
    for flow in [Flow::FirstPiece, Flow::Frozen, Flow::Cut] {
        let (one, two) = pair().await;
        one.peers.open(&two.replica.peers.sealed_handle().unwrap()).unwrap();
        two.flow.send(flow).unwrap();
        let error = forward((&one, &two), "/", None).await.unwrap_err();
        assert!(!error.is_gone() && !error.is_sent(), "{flow:?}: {error}");
        assert_eq!(one.peers.known(), [two.replica.handle()], "it is not forgotten");
        two.flow.send(Flow::Open).unwrap();
        let response = forward((&one, &two), "/", None).await.unwrap();
        assert!(text(response).await.ends_with('x'));
        assert_eq!(two.replica.requests(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn replica_without_connections_is_forgotten() {
    let (one, two) = pair().await;
    one.peers.open(&two.replica.peers.sealed_handle().unwrap()).unwrap();
    two.flow.send(Flow::Frozen).unwrap();
    for known in [1, 1, 0] {
        forward((&one, &two), "/", None).await.unwrap_err();
        assert_eq!(one.peers.known().len(), known);
    }
}

#[tokio::test(start_paused = true)]
async fn response_timeout_ends_request_at_frozen_replica() {
    let (one, two) = pair().await;
    forward((&one, &two), "/", None).await.unwrap();
    two.flow.send(Flow::Frozen).unwrap();
    let begun = Instant::now();
    let error = forward((&one, &two), "/", Some(LIMIT)).await.unwrap_err();
    assert!(matches!(error, ForwardError::ResponseTimeout { .. }), "{error}");
    assert!(error.is_sent() && !error.is_gone(), "{error}");
    assert_eq!(begun.elapsed().as_secs(), 10);
}

#[tokio::test(start_paused = true)]
async fn missing_pings_end_requests_and_bodies() {
    let (one, two) = pair().await;
    let stream = forward((&one, &two), "/stream", None).await.unwrap();
    let hanging = tokio::spawn({
        let (peers, handle) = (one.peers.clone(), two.replica.handle());
        async move { peers.forward(&handle, request("/hang", ""), ForwardOptions::default()).await }
    });
    while two.replica.requests() < 2 {
        tokio::task::yield_now().await;
    }
    two.flow.send(Flow::Frozen).unwrap();
    let begun = Instant::now();
    let error = hanging.await.unwrap().unwrap_err();
    assert!(matches!(error, ForwardError::Unresponsive(_)), "{error}");
    assert!(error.is_sent() && !error.is_gone(), "{error}");
    assert!((10..=16).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
    assert!(http_body_util::BodyExt::collect(stream.into_body()).await.is_err());
    assert_eq!(two.replica.requests(), 2, "nothing is sent again");
    // Nothing is sent on the connection afterwards.
    let error = forward((&one, &two), "/", None).await.unwrap_err();
    assert!(!error.is_sent(), "{error}");
}

#[tokio::test(start_paused = true)]
async fn idle_connection_to_frozen_replica_closes() {
    let (one, two) = pair().await;
    text(forward((&one, &two), "/", None).await.unwrap()).await;
    two.flow.send(Flow::Frozen).unwrap();
    tokio::time::sleep(Duration::from_secs(16)).await;
    assert_eq!(one.peers.counts().outgoing, 0);
    let error = forward((&one, &two), "/", None).await.unwrap_err();
    assert!(!error.is_sent(), "{error}");
}

#[tokio::test(start_paused = true)]
async fn pings_alone_keep_request_open() {
    let (one, two) = pair().await;
    let begun = Instant::now();
    let error = forward((&one, &two), "/hang", Some(LIMIT)).await.unwrap_err();
    assert!(matches!(error, ForwardError::ResponseTimeout { .. }), "{error}");
    assert_eq!(begun.elapsed().as_secs(), 10);
    // Without a limit, it may take as long as it needs.
    let hanging = timeout(Duration::from_hours(1), forward((&one, &two), "/hang", None)).await;
    assert!(hanging.is_err(), "{hanging:?}");
    assert_eq!(one.peers.counts().outgoing, 1);
}

#[tokio::test(start_paused = true)]
async fn cut_connection_interrupts_request_once() {
    let (one, two) = pair().await;
    let hanging = tokio::spawn({
        let (peers, handle) = (one.peers.clone(), two.replica.handle());
        async move { peers.forward(&handle, request("/hang", ""), ForwardOptions::default()).await }
    });
    while two.replica.requests() < 1 {
        tokio::task::yield_now().await;
    }
    two.flow.send(Flow::Cut).unwrap();
    let error = hanging.await.unwrap().unwrap_err();
    assert!(matches!(error, ForwardError::Interrupted(_)), "{error}");
    assert!(error.is_sent() && !error.is_gone(), "{error}");
    assert_eq!(two.replica.requests(), 1, "nothing is sent again");
}

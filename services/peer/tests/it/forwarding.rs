use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use http_body::Frame;
use http_body_util::BodyExt;
use tokio::time::sleep;
use vmcp_peer::{ForwardError, ForwardOptions, HandleError};

use crate::replica::{Replica, bind, client_at, request, ring, text};

#[tokio::test]
async fn forwards_request_with_client_address() {
    let [one, two] = bind().await;
    let (one, two) = (Replica::start(one, ring(1)), Replica::start(two, ring(1)));
    let handle = one.peers.open(&two.peers.sealed_handle().unwrap()).unwrap();
    assert!(!one.peers.is_own(&handle));
    assert!(two.peers.is_own(&handle));
    let mut forwarded = request("/mcp?x=1", "body");
    for (name, value) in [
        ("authorization", "Bearer t"),
        ("connection", "keep-alive, x-hop"),
        ("host", "gateway.example"),
        ("transfer-encoding", "chunked"),
        ("vmcp-client-address", "1.2.3.4:5"),
        ("x-hop", "1"),
    ] {
        forwarded.headers_mut().insert(name, value.parse().unwrap());
    }
    let client = "[2001:db8::1]:77".parse().ok();
    let response = one
        .peers
        .forward(&handle, forwarded, ForwardOptions { client, ..ForwardOptions::default() })
        .await
        .unwrap();
    assert_eq!(
        text(response).await,
        "POST /mcp?x=1 by=127.0.0.1 client=Some([2001:db8::1]:77) \
         [\"authorization\", \"content-length\", \"host\"] body"
    );
    // The address in a client's header is not believed either.
    let mut forwarded = request("/", "");
    forwarded.headers_mut().insert("vmcp-client-address", "1.2.3.4:5".parse().unwrap());
    let response = one.peers.forward(&handle, forwarded, ForwardOptions::default()).await.unwrap();
    assert!(text(response).await.contains("client=None"));
}

#[tokio::test]
async fn sequential_requests_share_one_connection() {
    let [one, two] = bind().await;
    let (one, two) = (Replica::start(one, ring(1)), Replica::start(two, ring(1)));
    for _ in 0..20 {
        let response = one
            .peers
            .forward(&two.handle(), request("/", "x"), ForwardOptions::default())
            .await
            .unwrap();
        assert!(text(response).await.ends_with('x'));
    }
    assert_eq!(one.peers.counts().outgoing, 1);
    assert_eq!(two.peers.counts().incoming, 1);
    assert_eq!(two.peers.known(), [one.handle()], "the proof names the forwarder");
}

#[tokio::test]
async fn concurrent_requests_share_one_connection() {
    let [one, two] = bind().await;
    let (one, two) = (Replica::start(one, ring(1)), Replica::start(two, ring(1)));
    let handle = two.handle();
    let responses = join_all((0..200).map(async |_| {
        one.peers.forward(&handle, request("/", "x"), ForwardOptions::default()).await.unwrap()
    }));
    for response in responses.await {
        assert!(text(response).await.ends_with('x'));
    }
    assert_eq!((one.peers.counts().outgoing, two.requests()), (1, 200));
}

#[tokio::test]
async fn paused_reader_does_not_stop_others() {
    let [one, two] = bind().await;
    let (one, two) = (Replica::start(one, ring(1)), Replica::start(two, ring(1)));
    let forward = async |path| {
        one.peers.forward(&two.handle(), request(path, "x"), ForwardOptions::default()).await
    };
    let unread = forward("/stream").await.unwrap();
    for _ in 0..100 {
        two.pieces.send(Ok(Frame::data(Bytes::from(vec![0; 1 << 16])))).unwrap();
    }
    for _ in 0..10 {
        assert!(text(forward("/").await.unwrap()).await.ends_with('x'));
    }
    drop(unread);
    two.pieces.closed().await;
}

#[tokio::test(start_paused = true)]
async fn idle_connection_closes() {
    let [one, two] = bind().await;
    let (one, two) = (Replica::start(one, ring(1)), Replica::start(two, ring(1)));
    let options = ForwardOptions::default();
    let response = one.peers.forward(&two.handle(), request("/", "x"), options).await.unwrap();
    assert!(text(response).await.ends_with('x'));
    sleep(Duration::from_secs(20)).await;
    assert_eq!((one.peers.counts().outgoing, two.peers.counts().incoming), (1, 1));
    sleep(Duration::from_secs(30)).await;
    assert_eq!((one.peers.counts().outgoing, two.peers.counts().incoming), (0, 0));
}

#[tokio::test]
async fn streams_responses_and_notices_disconnects() {
    let [one, two] = bind().await;
    let (one, two) = (Replica::start(one, ring(1)), Replica::start(two, ring(1)));
    let response = one
        .peers
        .forward(&two.handle(), request("/stream", ""), ForwardOptions::default())
        .await
        .unwrap();
    let mut body = response.into_body();
    for piece in ["first", "second"] {
        two.pieces.send(Ok(Frame::data(Bytes::from_static(piece.as_bytes())))).unwrap();
        let frame = body.frame().await.unwrap().unwrap();
        assert_eq!(frame.into_data().unwrap(), piece);
    }
    drop(body);
    two.pieces.closed().await;
}

#[tokio::test]
async fn aborted_response_is_an_error() {
    let [one, two] = bind().await;
    let (one, two) = (Replica::start(one, ring(1)), Replica::start(two, ring(1)));
    let response = one
        .peers
        .forward(&two.handle(), request("/stream", ""), ForwardOptions::default())
        .await
        .unwrap();
    two.pieces.send(Ok(Frame::data(Bytes::from_static(b"begun")))).unwrap();
    two.pieces.send(Err("failed".into())).unwrap();
    assert!(response.into_body().collect().await.is_err());
}

#[tokio::test]
async fn drains_responses_in_flight() {
    let [one, two] = bind().await;
    let (one, mut two) = (Replica::start(one, ring(1)), Replica::start(two, ring(1)));
    let handle = two.handle();
    let response = one
        .peers
        .forward(&handle, request("/stream", ""), ForwardOptions::default())
        .await
        .unwrap();
    drop(two.stop.take());
    two.pieces.send(Ok(Frame::data(Bytes::from_static(b"late")))).unwrap();
    drop(two.pieces);
    assert_eq!(text(response).await, "late");
    two.running.await.unwrap();
    let error =
        one.peers.forward(&handle, request("/", ""), ForwardOptions::default()).await.unwrap_err();
    assert!(error.is_gone() && !error.is_sent(), "{error}");
}

#[tokio::test]
async fn rejects_handles_of_other_rings_and_ports() {
    let [one, two] = bind().await;
    let (own, other) = (one.local_addr().unwrap(), two.local_addr().unwrap());
    let peers = client_at(own, ring(1));
    let stranger = client_at(other, ring(2)).sealed_handle().unwrap();
    assert_eq!(peers.open(&stranger), Err(HandleError::Invalid));
    for text in ["", "x", "=", &"A".repeat(10_000)] {
        assert_eq!(peers.open(text), Err(HandleError::Invalid));
    }
    let mut elsewhere = other;
    elsewhere.set_port(22);
    let elsewhere = client_at(elsewhere, ring(1));
    assert_eq!(peers.open(&elsewhere.sealed_handle().unwrap()), Err(HandleError::Port(22)));
    let error = peers
        .forward(elsewhere.own(), request("/", ""), ForwardOptions::default())
        .await
        .unwrap_err();
    assert!(matches!(error, ForwardError::NotPermitted(_)));
    assert!(peers.known().is_empty());
}

#[tokio::test]
async fn rejects_address_of_other_network() {
    let peers = client_at("127.0.0.1:4484".parse().unwrap(), ring(1));
    let metadata = client_at("169.254.169.254:4484".parse().unwrap(), ring(1));
    let handle = peers.open(&metadata.sealed_handle().unwrap()).unwrap();
    let error =
        peers.forward(&handle, request("/", ""), ForwardOptions::default()).await.unwrap_err();
    assert!(matches!(error, ForwardError::NotPermitted(_)));
    assert!(!error.is_sent());
}

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use vmcp_peer::{ForwardError, ForwardOptions};

use crate::replica::{Replica, bind, client_at, request, ring, text};

/// Forwards to a replica whose address another process has.
async fn forward_to(stranger: TcpListener, secret: &'static str) -> (ForwardError, Vec<u8>) {
    let address = stranger.local_addr().unwrap();
    let forwarder = client_at(([127, 0, 0, 9], address.port()).into(), ring(1));
    let former = client_at(address, ring(1));
    let listening = tokio::spawn(async move {
        let (mut stream, _) = stranger.accept().await.unwrap();
        let mut received = vec![0; 1 << 16];
        let mut length = stream.read(&mut received).await.unwrap();
        // A stranger that speaks no TLS.
        _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
        while let Ok(more @ 1..) = stream.read(&mut received[length..]).await {
            length += more;
        }
        received.truncate(length);
        received
    });
    let error = forwarder
        .forward(former.own(), request("/", secret), ForwardOptions::default())
        .await
        .unwrap_err();
    (error, listening.await.unwrap())
}

#[tokio::test]
async fn stranger_on_reused_address_gets_no_request() {
    let [listener] = bind().await;
    let (error, received) = forward_to(listener, "secret").await;
    assert!(error.is_gone() && !error.is_sent(), "{error}");
    assert!(!received.windows(6).any(|it| it == b"secret"));
}

#[tokio::test]
async fn replacement_with_same_ring_gets_no_request() {
    let [one, two] = bind().await;
    let former = client_at(two.local_addr().unwrap(), ring(1));
    let (one, two) = (Replica::start(one, ring(1)), Replica::start(two, ring(1)));
    one.peers.open(&former.sealed_handle().unwrap()).unwrap();
    assert_eq!(one.peers.known().len(), 1);
    let error = one
        .peers
        .forward(former.own(), request("/", ""), ForwardOptions::default())
        .await
        .unwrap_err();
    assert!(matches!(error, ForwardError::OtherProcess(_)), "{error}");
    assert_eq!((two.requests(), one.peers.known().len()), (0, 0));
}

#[tokio::test]
async fn holder_without_ring_gets_no_request() {
    let [one, two] = bind().await;
    // It has the pinned key, but another ring.
    let (one, two) = (Replica::start(one, ring(1)), Replica::start(two, ring(2)));
    let error = one
        .peers
        .forward(&two.handle(), request("/", ""), ForwardOptions::default())
        .await
        .unwrap_err();
    assert!(matches!(error, ForwardError::NotProven(_)), "{error}");
    assert_eq!(two.requests(), 0);
}

#[tokio::test]
async fn relayed_connection_reaches_pinned_process_only() {
    let [one, two, relay] = bind().await;
    let (one, two) = (Replica::start(one, ring(1)), Replica::start(two, ring(1)));
    let target = two.handle().address();
    let relayed = client_at(relay.local_addr().unwrap(), ring(1));
    tokio::spawn(async move {
        let (mut stream, _) = relay.accept().await.unwrap();
        let mut other = TcpStream::connect(target).await.unwrap();
        _ = copy_bidirectional(&mut stream, &mut other).await;
    });
    let error = one
        .peers
        .forward(relayed.own(), request("/", ""), ForwardOptions::default())
        .await
        .unwrap_err();
    assert!(matches!(error, ForwardError::OtherProcess(_)), "{error}");
    assert_eq!(two.requests(), 0);
}

/// Opens connections that send nothing.
async fn open_silent(address: SocketAddr, number: usize) -> Vec<TcpStream> {
    let mut silent = Vec::new();
    for _ in 0..number {
        silent.push(TcpStream::connect(address).await.unwrap());
    }
    silent
}

#[tokio::test]
async fn flood_without_proof_leaves_room_for_replicas() {
    let [one, two] = bind().await;
    let (one, two) = (Replica::start(one, ring(1)), Replica::start(two, ring(1)));
    let address = two.handle().address();
    // From the address of the replica.
    let mut silent = open_silent(address, 300).await;
    let flood = tokio::spawn(async move {
        loop {
            silent.append(&mut open_silent(address, 10).await);
            silent.drain(..10);
        }
    });
    let response =
        one.peers.forward(&two.handle(), request("/", "x"), ForwardOptions::default()).await;
    assert!(text(response.unwrap()).await.ends_with('x'));
    flood.abort();
    assert_eq!((two.requests(), two.peers.counts().incoming), (1, 1));
}

#[tokio::test]
async fn connections_without_proof_close_without_byte() {
    let [one] = bind().await;
    let one = Replica::start(one, ring(1));
    for mut stream in open_silent(one.handle().address(), 200).await {
        let read = timeout(Duration::from_secs(10), stream.read(&mut [0; 1])).await.unwrap();
        assert!(matches!(read, Ok(0) | Err(_)));
    }
}

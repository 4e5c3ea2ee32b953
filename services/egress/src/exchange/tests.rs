use std::sync::{Arc, atomic::AtomicUsize};

use http::Request;
use http_body::Body as _;
use http_body_util::BodyExt;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use super::*;
use crate::egress::Egress;

async fn pair() -> (Box<Connection>, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (server, _) = listener.accept().await.unwrap();
    let open = Egress::default().count_open();
    (Connection::open(Stream::plain(client), 64 * 1024, open).await.unwrap(), server)
}

fn request() -> Request<Full<Bytes>> {
    Request::post("/").header("host", "a").body(Full::new(Bytes::from_static(b"body"))).unwrap()
}

/// Runs the runtime until it has processed all socket events.
async fn settle() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn returns_request_after_failure_before_write() {
    let (connection, server) = pair().await;
    drop(server);
    settle().await;
    let error = exchange(connection, request()).await.err().unwrap();
    assert!(!error.error.sent(), "{:?}", error.error);
    let unsent = error.unsent.unwrap();
    assert_eq!(unsent.into_body().collect().await.unwrap().to_bytes(), "body");
}

#[tokio::test]
async fn keeps_the_request_if_it_was_written() {
    let (connection, mut server) = pair().await;
    let serve = async {
        assert!(server.read(&mut [0; 1024]).await.unwrap() > 0);
        drop(server);
    };
    let (error, ()) = tokio::join!(exchange(connection, request()), serve);
    let error = error.err().unwrap();
    assert!(error.error.sent() && error.unsent.is_none(), "{:?}", error.error);
}

#[tokio::test]
async fn idle_connection_wakes_no_task() {
    struct Count(AtomicUsize);
    impl std::task::Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        }
    }

    let (mut connection, mut server) = pair().await;
    server.write_all(b"").await.unwrap();
    let count = Arc::new(Count(AtomicUsize::new(0)));
    let waker = Waker::from(Arc::clone(&count));
    connection.drive();
    connection.register_task(&Context::from_waker(&waker));
    assert!(connection.prepare_for_pool());
    drop(waker);
    assert_eq!(Arc::strong_count(&count), 1, "the last task's memory is free");
    drop(server);
    settle().await;
    assert_eq!(count.0.load(std::sync::atomic::Ordering::SeqCst), 0);
    assert!(!connection.is_usable());
}

#[tokio::test]
async fn connection_stays_usable_until_peer_closes() {
    let (connection, mut server) = pair().await;
    let serve = async {
        assert!(server.read(&mut [0; 1024]).await.unwrap() > 0);
        server.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await.unwrap();
        server
    };
    let (received, server) = tokio::join!(exchange(connection, request()), serve);
    let ReceivedResponse { response, connection } = received.ok().unwrap();
    let (mut connection, mut body) = (connection.unwrap(), response.into_body());
    assert!(connection.take(&mut body).is_ready() && body.is_end_stream());
    assert!(!connection.driver_waker.is_woken.load(Ordering::Acquire));
    assert!(connection.is_usable());
    drop(server);
    settle().await;
    assert!(!connection.is_usable(), "its leaving is heard");
}

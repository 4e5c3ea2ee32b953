use std::sync::{Arc, atomic::AtomicUsize};

use http::Request;
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
    let open = Egress::default().opened();
    (Connection::open(Stream::plain(client), 64 * 1024, open).await.unwrap(), server)
}

fn request() -> Request<Full<Bytes>> {
    Request::post("/").header("host", "a").body(Full::new(Bytes::from_static(b"body"))).unwrap()
}

/// Lets the runtime learn what has happened on the sockets.
async fn settle() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn hands_the_request_back_when_the_peer_left_before_it_was_written() {
    let (connection, server) = pair().await;
    drop(server);
    settle().await;
    let failure = exchange(connection, request()).await.err().unwrap();
    assert!(!failure.error.sent(), "{:?}", failure.error);
    let unsent = failure.unsent.unwrap();
    assert_eq!(unsent.into_body().collect().await.unwrap().to_bytes(), "body");
}

#[tokio::test]
async fn keeps_the_request_when_the_peer_left_after_it_was_written() {
    let (connection, mut server) = pair().await;
    let serve = async {
        assert!(server.read(&mut [0; 1024]).await.unwrap() > 0);
        drop(server);
    };
    let (failure, ()) = tokio::join!(exchange(connection, request()), serve);
    let failure = failure.err().unwrap();
    assert!(failure.error.sent() && failure.unsent.is_none(), "{:?}", failure.error);
}

#[tokio::test]
async fn a_resting_connection_wakes_nobody() {
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
    connection.listen(&Context::from_waker(&waker));
    assert!(connection.comes_to_rest());
    drop(waker);
    assert_eq!(Arc::strong_count(&count), 1, "the last task's memory is free");
    drop(server);
    settle().await;
    assert_eq!(count.0.load(std::sync::atomic::Ordering::SeqCst), 0);
    assert!(!connection.is_usable());
}

#[tokio::test]
async fn a_body_that_was_taken_says_nothing_of_the_peer() {
    let (connection, mut server) = pair().await;
    let serve = async {
        assert!(server.read(&mut [0; 1024]).await.unwrap() > 0);
        server.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await.unwrap();
        server
    };
    let (answered, server) = tokio::join!(exchange(connection, request()), serve);
    let Answered { response, connection } = answered.ok().unwrap();
    let (mut connection, mut body) = (connection.unwrap(), response.into_body());
    assert!(connection.take(&mut body).is_ready() && body.is_end_stream());
    assert!(!connection.bell.rung.load(Ordering::Acquire));
    assert!(connection.is_usable());
    drop(server);
    settle().await;
    assert!(!connection.is_usable(), "its leaving is heard");
}

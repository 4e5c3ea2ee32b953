//! Exchanges: the sent bytes, retries, and reuse of the connection.

use std::sync::Arc;

use bytes::Bytes;
use http::{Request, header};
use http_body_util::{BodyExt, Full};
use tokio::sync::Notify;
use vmcp_egress::{Error, Settings};

use vmcp_test_support::ScriptedServer;

use crate::support::{OK, ServerExt, eventually, exchange, post};

#[tokio::test]
async fn keeps_a_connection_for_the_next_request() {
    let server = ScriptedServer::responding(OK).await;
    let client = server.client();
    for _ in 0..5 {
        assert_eq!(exchange(&client, "a").await.unwrap(), "ok");
    }
    assert_eq!(server.connections(), 1);
    assert_eq!(server.requests().len(), 5);
}

#[tokio::test]
async fn last_byte_returns_the_connection() {
    let server = ScriptedServer::responding(OK).await;
    let client = server.client();
    let mut body = client.send(post("a")).await.unwrap().into_body();
    let frame = body.frame().await.unwrap().unwrap();
    assert_eq!(frame.into_data().unwrap(), "ok");
    exchange(&client, "b").await.unwrap();
    drop(body);
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn sends_origin_form_host_and_exact_length() {
    let server = ScriptedServer::responding(OK).await;
    let client = server.client();
    let request = Request::post(server.parsed_url().join("/a?b=c").unwrap().as_str())
        .header(header::CONTENT_LENGTH, "999")
        .header(header::TRANSFER_ENCODING, "chunked")
        .body(Full::new(Bytes::from_static(b"body")))
        .unwrap();
    client.send(request).await.unwrap();
    let url = server.parsed_url();
    let host = url.authority();
    assert_eq!(
        server.requests(),
        [format!("POST /a?b=c HTTP/1.1\r\nhost: {host}\r\ncontent-length: 4\r\n\r\nbody")]
    );
}

#[tokio::test]
async fn keeps_an_existing_host_header() {
    let server = ScriptedServer::responding(OK).await;
    let request =
        Request::get("/").header(header::HOST, "named.example").body(Full::default()).unwrap();
    server.client().send(request).await.unwrap();
    assert_eq!(server.requests(), ["GET / HTTP/1.1\r\nhost: named.example\r\n\r\n"]);
}

#[tokio::test]
async fn rejects_request_for_other_origin() {
    let server = ScriptedServer::responding(OK).await;
    let client = server.client();
    for uri in [
        "http://127.0.0.1:1/mcp".to_owned(),
        server.parsed_url().as_str().replace("http:", "https:"),
        server.parsed_url().as_str().replace("http://", "http://user@"),
        server.parsed_url().as_str().replace("127.0.0.1", "localhost"),
    ] {
        let request = Request::post(uri).body(Full::default()).unwrap();
        let error = client.send(request).await.unwrap_err();
        assert_eq!((error.kind(), error.sent()), ("wrong_origin", false));
    }
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn serves_concurrent_requests_on_as_many_connections() {
    let server = ScriptedServer::start(|mut peer| async move {
        while let Some(request) = peer.request().await {
            let body = request.split("\r\n\r\n").nth(1).unwrap();
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
            peer.write(head.as_bytes()).await;
            peer.write(body.as_bytes()).await;
        }
    })
    .await;
    let client = server.client();
    for _ in 0..3 {
        let exchanges = (0..32).map(|n| {
            let client = client.clone();
            tokio::spawn(async move {
                let body = "x".repeat(n);
                let response = client.send(post(body.clone())).await.unwrap();
                assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), body);
            })
        });
        for exchange in exchanges.collect::<Vec<_>>() {
            exchange.await.unwrap();
        }
    }
    assert!(server.connections() <= 32);
    assert_eq!(server.requests().len(), 96);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn never_mixes_responses() {
    let server = ScriptedServer::start(|mut peer| async move {
        let mut served = 0;
        while let Some(request) = peer.request().await {
            let body = request.split("\r\n\r\n").nth(1).unwrap();
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
            if !peer.try_write(head.as_bytes()).await || !peer.try_write(body.as_bytes()).await {
                return;
            }
            served += 1;
            if served % 7 == 0 {
                return;
            }
        }
    })
    .await;
    let client = server.client();
    let tasks = (0..16).map(|task| {
        let client = client.clone();
        tokio::spawn(async move {
            let mut answered = 0;
            for round in 0..100 {
                let body = format!("{task}-{round}-").repeat(1 + round * 9);
                let response = match client.send(post(body.clone())).await {
                    Ok(response) => response,
                    Err(Error::Closed { .. }) => continue,
                    Err(error) => panic!("{error:?}"),
                };
                if round % 5 == 0 {
                    drop(response);
                    continue;
                }
                let got = response.into_body().collect().await.unwrap().to_bytes();
                assert!(got == body, "an answer of another request");
                answered += 1;
            }
            answered
        })
    });
    let mut answered = 0;
    for task in tasks.collect::<Vec<_>>() {
        answered += task.await.unwrap();
    }
    assert!(answered > 16 * 50, "{answered}");
}

#[tokio::test]
async fn replaces_closed_idle_connection() {
    let server = ScriptedServer::start(|mut peer| async move {
        peer.request().await;
        peer.write(OK).await;
    })
    .await;
    let client = server.client();
    exchange(&client, "first").await.unwrap();
    // The server's close arrives.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    exchange(&client, "second").await.unwrap();
    assert_eq!(server.connections(), 2);
    assert_eq!(server.requests().iter().filter(|it| it.ends_with("second")).count(), 1);
}

#[tokio::test]
async fn replaces_idle_connection_with_unexpected_data() {
    let server = ScriptedServer::start(|mut peer| async move {
        while peer.request().await.is_some() {
            peer.write(OK).await;
            peer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil").await;
        }
    })
    .await;
    let client = server.client();
    for _ in 0..3 {
        assert_eq!(exchange(&client, "a").await.unwrap(), "ok");
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
    }
    assert_eq!(server.connections(), 3);
}

#[tokio::test]
async fn never_retries_a_request_that_was_read() {
    for silent in [true, false] {
        let server = ScriptedServer::start(move |mut peer| async move {
            if peer.index == 0 {
                peer.request().await;
                peer.write(OK).await;
            }
            peer.request().await;
            if !silent {
                peer.write(b"HTTP/1.1 200 O").await;
            }
        })
        .await;
        let client = server.client();
        exchange(&client, "first").await.unwrap();
        let error = exchange(&client, "second").await.unwrap_err();
        assert_eq!((error.kind(), error.sent(), error.is_connect()), ("closed", true, false));
        assert_eq!(server.requests().len(), 2, "{:?}", server.requests());
        assert_eq!(server.connections(), 1);
    }
}

#[tokio::test]
async fn reports_truncated_body() {
    for answer in [
        "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nff\r\nhalf",
    ] {
        let server = ScriptedServer::start(move |mut peer| async move {
            peer.request().await;
            peer.write(answer.as_bytes()).await;
        })
        .await;
        let error = exchange(&server.client(), "a").await.unwrap_err();
        assert!(matches!(error, Error::Closed { sent: true, .. }), "{error:?}");
        assert_eq!(server.requests().len(), 1);
    }
}

#[tokio::test]
async fn early_body_drop_closes_the_connection() {
    let closed = Arc::new(Notify::new());
    let notify = Arc::clone(&closed);
    let server = ScriptedServer::start(move |mut peer| {
        let notify = Arc::clone(&notify);
        async move {
            peer.request().await;
            peer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n").await;
            peer.closed().await;
            notify.notify_one();
        }
    })
    .await;
    let client = server.client();
    let mut body = client.send(post("a")).await.unwrap().into_body();
    body.frame().await.unwrap().unwrap();
    drop(body);
    closed.notified().await;
}

#[tokio::test]
async fn dropped_request_closes_the_connection() {
    let closed = Arc::new(Notify::new());
    let notify = Arc::clone(&closed);
    let server = ScriptedServer::start(move |mut peer| {
        let notify = Arc::clone(&notify);
        async move {
            peer.request().await;
            peer.closed().await;
            notify.notify_one();
        }
    })
    .await;
    let client = server.client();
    let task = tokio::spawn(async move { client.send(post("a")).await });
    eventually(|| server.requests().len() == 1).await;
    task.abort();
    closed.notified().await;
}

#[tokio::test]
async fn unread_arrived_body_keeps_the_connection() {
    let server = ScriptedServer::responding(OK).await;
    let client = server.client();
    for _ in 0..3 {
        drop(client.send(post("a")).await.unwrap());
    }
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn moves_large_bodies_both_ways() {
    const SIZE: usize = 3 << 20;
    let server = ScriptedServer::start(|mut peer| async move {
        while let Some(request) = peer.request().await {
            let body = request.split("\r\n\r\n").nth(1).unwrap();
            peer.write(format!("HTTP/1.1 200 OK\r\ncontent-length: {SIZE}\r\n\r\n").as_bytes())
                .await;
            peer.write(body.as_bytes()).await;
        }
    })
    .await;
    let client = server.client();
    for _ in 0..2 {
        let response = client.send(post(vec![b'x'; SIZE])).await.unwrap();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        assert!(body.len() == SIZE && body.iter().all(|&byte| byte == b'x'));
    }
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn accepts_response_before_request_is_read() {
    let server = ScriptedServer::start(|mut peer| async move {
        peer.stirred().await;
        peer.write(b"HTTP/1.1 413 Content Too Large\r\ncontent-length: 2\r\n\r\nno").await;
        peer.closed().await;
    })
    .await;
    let client = server.client();
    for expected in 1..=2 {
        let response = client.send(post(vec![0; 8 << 20])).await.unwrap();
        assert_eq!(response.status(), 413);
        assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "no");
        assert_eq!(server.connections(), expected, "a half-written request blocks its connection");
    }
}

#[tokio::test]
async fn rejects_bodies_over_the_limit() {
    for answer in [
        "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n123456789",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\n12345\r\n4\r\n6789\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\n\r\n123456789",
    ] {
        let server = ScriptedServer::start(move |mut peer| async move {
            peer.request().await;
            peer.write(answer.as_bytes()).await;
        })
        .await;
        let client = server.client_with(Settings { max_body: 8, ..Settings::default() });
        let error = exchange(&client, "a").await.unwrap_err();
        assert!(matches!(error, Error::BodyTooLarge { limit: 8 }), "{error:?}");
        assert!(error.sent());

        let client = client.with_max_body(9);
        assert_eq!(exchange(&client, "a").await.unwrap(), "123456789");
    }
}

#[tokio::test]
async fn event_streams_are_unlimited() {
    let server = ScriptedServer::start(|mut peer| async move {
        peer.request().await;
        peer.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: Text/Event-Stream; charset=utf-8\r\n\r\ndata: 12345\n\n",
        )
        .await;
    })
    .await;
    let client = server.client().with_max_body(3);
    assert_eq!(exchange(&client, "a").await.unwrap(), "data: 12345\n\n");
}

#[tokio::test]
async fn serves_as_a_tower_service() {
    use tower::ServiceExt;

    let server = ScriptedServer::responding(OK).await;
    let response = server.client().oneshot(post("a")).await.unwrap();
    assert_eq!(response.status(), 200);

    let error = server.client().oneshot(Request::connect("a:1").body(Full::default()).unwrap());
    assert!(error.await.unwrap_err().downcast_ref::<Error>().is_some());
}

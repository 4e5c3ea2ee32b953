//! Framing of responses, and invalid responses.

use http::Method;
use http_body_util::BodyExt;
use vmcp_egress::Error;

use vmcp_test_support::ScriptedServer;

use crate::support::{OK, ServerExt, exchange, post};

#[tokio::test]
async fn reads_each_framing_and_reuses_connections() {
    const HEAD: &str = "HTTP/1.1 200 OK\r\n";
    for (method, answer, body, kept) in [
        (Method::POST, format!("{HEAD}content-length: 4\r\n\r\nbody"), "body", true),
        (Method::POST, format!("{HEAD}content-length: 0\r\n\r\n"), "", true),
        (
            Method::POST,
            format!("{HEAD}transfer-encoding: chunked\r\n\r\n2\r\nbo\r\n2\r\ndy\r\n0\r\n\r\n"),
            "body",
            true,
        ),
        (Method::POST, format!("{HEAD}transfer-encoding: chunked\r\n\r\n0\r\n\r\n"), "", true),
        (Method::POST, "HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n".into(), "", true),
        (Method::POST, "HTTP/1.1 204 No Content\r\n\r\n".into(), "", true),
        (Method::POST, "HTTP/1.1 304 Not Modified\r\n\r\n".into(), "", true),
        (Method::HEAD, format!("{HEAD}content-length: 400\r\n\r\n"), "", true),
        (
            Method::POST,
            format!("{HEAD}connection: close\r\ncontent-length: 4\r\n\r\nbody"),
            "body",
            false,
        ),
        (Method::POST, "HTTP/1.0 200 OK\r\ncontent-length: 4\r\n\r\nbody".into(), "body", false),
        (
            Method::POST,
            format!("HTTP/1.1 100 Continue\r\n\r\n{HEAD}content-length: 0\r\n\r\n"),
            "",
            true,
        ),
        (
            Method::POST,
            format!("HTTP/1.1 103 Early Hints\r\nlink: </>\r\n\r\n{HEAD}content-length: 0\r\n\r\n"),
            "",
            true,
        ),
    ] {
        let what = format!("{method} {answer:?}");
        let server = ScriptedServer::start({
            let answer = answer.clone();
            move |mut peer| {
                let answer = answer.clone();
                async move {
                    while peer.request().await.is_some() {
                        peer.write(answer.as_bytes()).await;
                    }
                }
            }
        })
        .await;
        let client = server.client();
        for _ in 0..2 {
            let mut request = post("a");
            *request.method_mut() = method.clone();
            let response = client.send(request).await.expect(&what);
            let got = response.into_body().collect().await.expect(&what).to_bytes();
            assert_eq!(got, body, "{what}");
        }
        assert_eq!(server.connections(), if kept { 1 } else { 2 }, "{what}");
    }
}

#[tokio::test]
async fn reads_a_body_that_ends_with_the_connection() {
    let server = ScriptedServer::start(|mut peer| async move {
        peer.request().await;
        peer.write(b"HTTP/1.1 200 OK\r\n\r\nuntil ").await;
        tokio::task::yield_now().await;
        peer.write(b"the end").await;
    })
    .await;
    let client = server.client();
    assert_eq!(exchange(&client, "a").await.unwrap(), "until the end");
    assert_eq!(exchange(&client, "a").await.unwrap(), "until the end");
    assert_eq!(server.connections(), 2);
}

#[tokio::test]
async fn reports_incomplete_json() {
    const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json; charset=utf-8\r\n\r\n";
    for (body, whole) in [
        (r#" {"a":[1,"}]\"{",{}]} "#, true),
        ("[]", true),
        ("", true),
        ("12", true),
        (r#"{"a":[1,"}]\""#, false),
        (r#"{"a":[1]"#, false),
        (r#"{"a":"}"#, false),
        (r#"[{"a":1}"#, false),
        ("{", false),
    ] {
        // In one piece with the head, and byte by byte.
        for pieces in [1, 2, 100] {
            let server = ScriptedServer::start(move |mut peer| async move {
                peer.request().await;
                peer.write(HEAD.as_bytes()).await;
                for piece in body.as_bytes().chunks(body.len().div_ceil(pieces).max(1)) {
                    peer.write(piece).await;
                    tokio::task::yield_now().await;
                }
            })
            .await;
            let client = server.client();
            for n in 1..=2 {
                let read = exchange(&client, "a").await;
                match read {
                    Ok(read) => assert!(whole && read == body, "{body}: {read:?}"),
                    Err(Error::Closed { sent: true, .. }) => assert!(!whole, "{body}"),
                    Err(error) => panic!("{body}: {error:?}"),
                }
                assert_eq!(server.connections(), n, "the connection is not used again");
            }
        }
    }
}

#[tokio::test]
async fn reports_reset_connection() {
    for media in ["application/json", "text/event-stream", "text/plain"] {
        let server = ScriptedServer::start(move |mut peer| async move {
            peer.request().await;
            let head = format!("HTTP/1.1 200 OK\r\ncontent-type: {media}\r\n\r\ndata");
            peer.write(head.as_bytes()).await;
            // Unread data of the client: closing resets the connection.
            peer.acknowledged().await;
            peer.reset();
        })
        .await;
        let client = server.client();
        let mut body = client.send(post("a")).await.unwrap().into_body();
        assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "data");
        server.acknowledge();
        assert!(body.frame().await.unwrap().is_err(), "{media}");
        assert!(body.frame().await.is_none(), "{media}");
    }
}

#[tokio::test]
async fn forwards_trailers_and_keeps_the_connection() {
    let server = ScriptedServer::responding(
        b"HTTP/1.1 200 OK\r\ntrailer: x-sum\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nx-sum: 7\r\n\r\n",
    )
    .await;
    let client = server.client();
    for _ in 0..2 {
        let collected = client.send(post("a")).await.unwrap().into_body().collect().await.unwrap();
        assert_eq!(collected.trailers().unwrap()["x-sum"], "7");
    }
    // A reader that stops at the trailers has read everything.
    let mut body = client.send(post("a")).await.unwrap().into_body();
    while !body.frame().await.unwrap().unwrap().is_trailers() {}
    drop(body);
    exchange(&client, "a").await.unwrap();
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn streams_each_chunk_as_it_arrives() {
    let server = ScriptedServer::start(|mut peer| async move {
        peer.request().await;
        peer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await;
        for _ in 0..3 {
            peer.write(b"2\r\n:\n\r\n").await;
            // The next chunk is written only after the acknowledgment of this one.
            peer.acknowledged().await;
        }
        peer.write(b"0\r\n\r\n").await;
        peer.request().await;
        peer.write(OK).await;
    })
    .await;
    let client = server.client();
    let mut body = client.send(post("a")).await.unwrap().into_body();
    for _ in 0..3 {
        assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), ":\n");
        server.acknowledge();
    }
    assert!(body.frame().await.is_none());
    exchange(&client, "b").await.unwrap();
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn rejects_invalid_responses() {
    let long = format!("HTTP/1.1 200 OK\r\nx: {}\r\ncontent-length: 0\r\n\r\n", "y".repeat(70_000));
    let many = format!("HTTP/1.1 200 OK\r\n{}content-length: 0\r\n\r\n", "x: y\r\n".repeat(200));
    for answer in [
        "SSH-2.0-OpenSSH_9.2.1-patched\r\n".to_owned(),
        "HTTP/1.1 200 OK\r\nno colon\r\n\r\n".to_owned(),
        "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab".to_owned(),
        "HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n".to_owned(),
        long,
        many,
    ] {
        let server = ScriptedServer::start({
            let answer = answer.clone();
            move |mut peer| {
                let answer = answer.clone();
                async move {
                    peer.request().await;
                    peer.write(answer.as_bytes()).await;
                    peer.closed().await;
                }
            }
        })
        .await;
        let error = exchange(&server.client(), "a").await.expect_err(&answer[..20]);
        assert_eq!((error.kind(), error.sent()), ("protocol", true), "{error:?}");
    }
}

//! One request on a connection of its own.

use bytes::Bytes;
use http::header::HOST;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::client::conn::http1::handshake;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};

use crate::Fault;

/// The largest answer, in bytes.
const LARGEST: usize = 1 << 20;

/// Asks the server at `address` for `path`.
pub(super) async fn fetch(
    method: Method,
    address: &str,
    path: &str,
) -> Result<Response<Bytes>, Fault> {
    let stream = TcpStream::connect(address).await?;
    let (mut sender, connection) = handshake(TokioIo::new(stream)).await?;
    tokio::spawn(async move { _ = connection.await });
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(HOST, address)
        .body(Empty::<Bytes>::new())?;
    let (parts, body) = sender.send_request(request).await?.into_parts();
    let body = Limited::new(body, LARGEST).collect().await?.to_bytes();
    Ok(Response::from_parts(parts, body))
}

/// A port that nobody listens on.
pub(super) async fn free_port() -> Result<u16, Fault> {
    Ok(TcpListener::bind("127.0.0.1:0").await?.local_addr()?.port())
}

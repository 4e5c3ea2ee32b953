//! A single HTTP request on its own connection.

use bytes::Bytes;
use http::header::HOST;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::client::conn::http1::handshake;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};

use crate::BoxError;

/// Maximum response size in bytes.
const LARGEST: usize = 1 << 20;

/// Sends a request for `path` to the server at `address`.
pub(super) async fn fetch(
    method: Method,
    address: &str,
    path: &str,
) -> Result<Response<Bytes>, BoxError> {
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

/// Returns an unused loopback port.
pub(super) async fn free_port() -> Result<u16, BoxError> {
    Ok(TcpListener::bind("127.0.0.1:0").await?.local_addr()?.port())
}

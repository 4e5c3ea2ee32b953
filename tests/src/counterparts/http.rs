//! A minimal HTTP client for tests: one connection per request, no redirects, complete responses. Over TLS it trusts only
//! the certificates of this test program.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::uri::Scheme;
use http::{HeaderMap, Method, Request, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::{Certificates, TestError};

/// Response timeout; exceeding it fails the test.
const WAIT_TIMEOUT: Duration = Duration::from_secs(20);

/// A response.
#[derive(Debug, Clone)]
pub struct Reply {
    /// Status.
    pub status: StatusCode,
    /// Headers.
    pub headers: HeaderMap,
    /// Complete body.
    pub body: Bytes,
}

impl Reply {
    /// Returns the JSON-RPC response: the body, or the last event of a stream that has data.
    ///
    /// # Errors
    /// Returns an error if the body contains none.
    pub fn message(&self) -> Result<Value, TestError> {
        let text = std::str::from_utf8(&self.body)?;
        let is_stream = self
            .headers
            .get(header::CONTENT_TYPE)
            .is_some_and(|it| it.as_bytes().starts_with(b"text/ev"));
        let json = if is_stream {
            let mut data =
                text.lines().filter_map(|line| line.strip_prefix("data:")).map(str::trim);
            data.rfind(|data| !data.is_empty()).unwrap_or_default()
        } else {
            text
        };
        serde_json::from_str(json)
            .map_err(|error| format!("{}: {error} in {text:?}", self.status).into())
    }
}

/// Sends a `GET` request.
///
/// # Errors
/// Returns an error if no complete response arrives in time.
pub async fn get(url: &str) -> Result<Reply, TestError> {
    exchange(Method::GET, url, &HeaderMap::new(), Bytes::new()).await
}

/// Posts a JSON message as an MCP client does.
///
/// # Errors
/// Returns an error if no complete response arrives in time.
pub async fn post(url: &str, extra: &HeaderMap, message: &Value) -> Result<Reply, TestError> {
    let mut headers = extra.clone();
    headers.insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
    headers.insert(
        header::ACCEPT,
        header::HeaderValue::from_static("application/json, text/event-stream"),
    );
    exchange(Method::POST, url, &headers, Bytes::from(message.to_string())).await
}

/// Posts a form (`application/x-www-form-urlencoded`).
///
/// # Errors
/// Returns an error if no complete response arrives in time.
pub async fn post_form(url: &str, form: &str) -> Result<Reply, TestError> {
    let mut headers = HeaderMap::new();
    let media = header::HeaderValue::from_static("application/x-www-form-urlencoded");
    headers.insert(header::CONTENT_TYPE, media);
    exchange(Method::POST, url, &headers, Bytes::from(form.to_owned())).await
}

/// Sends the request unchanged.
pub(crate) async fn exchange(
    method: Method,
    url: &str,
    headers: &HeaderMap,
    body: Bytes,
) -> Result<Reply, TestError> {
    let uri: Uri = url.parse()?;
    let authority = uri.authority().ok_or("the URL names no host")?.clone();
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let mut request =
        Request::builder().method(method).uri(path).header(header::HOST, authority.as_str());
    for (name, value) in headers {
        request = request.header(name, value);
    }
    let request = request.body(Full::new(body))?;
    let answer = async {
        let stream = TcpStream::connect(authority.as_str()).await?;
        if uri.scheme() != Some(&Scheme::HTTPS) {
            return send(stream, request).await;
        }
        let name = ServerName::try_from(authority.host().to_owned())?;
        send(connector()?.connect(name, stream).await?, request).await
    };
    timeout(WAIT_TIMEOUT, answer)
        .await
        .map_err(|_| format!("no answer from {url} within {WAIT_TIMEOUT:?}"))?
}

async fn send(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<Full<Bytes>>,
) -> Result<Reply, TestError> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let driver = tokio::spawn(connection);
    let (parts, body) = sender.send_request(request).await?.into_parts();
    let body = body.collect().await?.to_bytes();
    driver.abort();
    Ok(Reply { status: parts.status, headers: parts.headers, body })
}

fn connector() -> Result<TlsConnector, TestError> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(&Certificates::shared()?.pem()?)?)?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let config = config.with_root_certificates(roots).with_no_client_auth();
    Ok(Arc::new(config).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(media_type: &'static str, body: &'static str) -> Reply {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, header::HeaderValue::from_static(media_type));
        Reply { status: StatusCode::OK, headers, body: Bytes::from_static(body.as_bytes()) }
    }

    #[test]
    fn returns_last_data_of_stream_as_message() {
        let reply = reply(
            "text/event-stream",
            "id: 0\ndata: \n\ndata: {\"id\":1}\n\ndata:{\"id\":2}\n\n: bye\n\n",
        );
        assert_eq!(reply.message().unwrap()["id"], 2);
    }

    #[test]
    fn error_quotes_page_in_place_of_message() {
        let fault = reply("application/json", "<html>").message().unwrap_err().to_string();
        assert!(fault.contains("<html>"), "{fault}");
    }
}

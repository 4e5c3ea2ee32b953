//! Single HTTP exchanges.

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue};
use http::{Method, Request, StatusCode};
use serde_json::Value;
use url::Url;
use vmcp_core::{Body, BoxError, HttpClient, collect_limited};

/// Maximum size of a response in bytes. Metadata is far smaller.
const MAX_RESPONSE_SIZE: usize = 256 * 1024;

/// Maximum length of quoted server text in characters.
const MAX_QUOTED_CHARS: usize = 120;

/// Complete response.
#[derive(Debug)]
pub(crate) struct HttpResponse {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl HttpResponse {
    /// Parses the body as a JSON object.
    pub(crate) fn object(&self) -> Option<serde_json::Map<String, Value>> {
        match serde_json::from_slice(&self.body) {
            Ok(Value::Object(object)) => Some(object),
            _ => None,
        }
    }
}

/// Sends a request: a POST if there is a message.
pub(crate) async fn send(
    http: &HttpClient,
    url: &Url,
    accept: &'static str,
    message: Option<&Value>,
) -> Result<HttpResponse, String> {
    let body = message.map_or_else(Body::empty, |it| Bytes::from(it.to_string()).into());
    let mut request = Request::new(body);
    *request.uri_mut() = url.as_str().parse().map_err(|_| "not a valid URL".to_owned())?;
    let headers = request.headers_mut();
    headers.insert(ACCEPT, HeaderValue::from_static(accept));
    headers.insert("mcp-protocol-version", HeaderValue::from_static("2025-11-25"));
    if message.is_some() {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        *request.method_mut() = Method::POST;
    }
    let (head, body) = http.send(request).await.map_err(|error| error_chain(&error))?.into_parts();
    let body = collect_limited(body, MAX_RESPONSE_SIZE).await.map_err(|error| error.to_string())?;
    Ok(HttpResponse { status: head.status, headers: head.headers, body })
}

/// Formats an error with its causes.
fn error_chain(error: &BoxError) -> String {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(deeper) = cause {
        let text = deeper.to_string();
        // Errors of the operating system end with a redundant number.
        let plain = text.split(" (os error").next().unwrap_or_default().to_lowercase();
        if !words.to_lowercase().contains(&plain) {
            words = format!("{words}: {text}");
        }
        cause = deeper.source();
    }
    words
}

/// Truncates text of the server for display.
pub(crate) fn truncate(text: &str) -> String {
    let short: String = text.chars().take(MAX_QUOTED_CHARS).collect();
    if short.len() < text.len() { format!("{short}…") } else { short }
}

/// Returns whether the URL refers to this machine.
pub(crate) fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(url::Host::Domain(name)) => name == "localhost",
        Some(url::Host::Ipv4(v4)) => v4.is_loopback(),
        Some(url::Host::Ipv6(v6)) => v6.is_loopback(),
        None => false,
    }
}

/// Returns whether tokens may be sent to the URL: https, or loopback (OAuth 2.1 section 1.5).
pub(crate) fn is_safe(url: &Url) -> bool {
    url.scheme() == "https" || (url.scheme() == "http" && is_loopback(url))
}

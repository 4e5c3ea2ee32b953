//! A streamed response.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Method, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use serde_json::Value;
use tokio::time::timeout;

use super::line::{WAIT_TIMEOUT, connect, request, with_media};
use crate::counterparts::TestError;

/// Events of an open stream.
#[derive(Debug)]
pub struct Events {
    body: Incoming,
    read: BytesMut,
    last_id: Option<String>,
    /// Keeps the connection open.
    _sender: SendRequest<Full<Bytes>>,
}

impl Events {
    /// Opens a stream on its own connection.
    ///
    /// # Errors
    /// Returns an error with the response if it is not an event stream.
    pub async fn open(
        url: &str,
        method: Method,
        headers: &HeaderMap,
        body: String,
    ) -> Result<Self, TestError> {
        let headers = with_media(headers, &method);
        let request = request(url, method, "/mcp", &headers, body.into())?;
        let mut sender = connect(url).await?;
        let response = timeout(WAIT_TIMEOUT, sender.send_request(request)).await??;
        let (parts, body) = response.into_parts();
        let media = parts.headers.get(header::CONTENT_TYPE);
        if media.is_none_or(|media| !media.as_bytes().starts_with(b"text/event-stream")) {
            let body = timeout(WAIT_TIMEOUT, body.collect()).await??.to_bytes();
            let body = String::from_utf8_lossy(&body).into_owned();
            return Err(format!("no stream but {}: {body}", parts.status).into());
        }
        Ok(Self { body, read: BytesMut::new(), last_id: None, _sender: sender })
    }

    /// Returns the next message, or `None` at the end of the stream.
    ///
    /// # Errors
    /// Returns an error on a timeout, or if the connection breaks.
    pub async fn next(&mut self) -> Result<Option<Value>, TestError> {
        self.next_within(WAIT_TIMEOUT).await
    }

    /// Returns the next message if it arrives in this time, or `None` at the end of the stream.
    ///
    /// # Errors
    /// Returns an error on a timeout, or if the connection breaks.
    pub async fn next_within(&mut self, patience: Duration) -> Result<Option<Value>, TestError> {
        let message = timeout(patience, self.read_on()).await;
        message.map_err(|_| format!("nothing on the stream within {patience:?}"))?
    }

    /// Returns the id of the last event.
    #[must_use]
    pub fn last_id(&self) -> Option<&str> {
        self.last_id.as_deref()
    }

    async fn read_on(&mut self) -> Result<Option<Value>, TestError> {
        loop {
            while let Some(end) = self.read.windows(2).position(|pair| pair == b"\n\n") {
                let event = self.read.split_to(end + 2);
                let event = std::str::from_utf8(&event)?;
                let field = |name| event.lines().find_map(|line| line.strip_prefix(name));
                if let Some(id) = field("id: ") {
                    self.last_id = Some(id.to_owned());
                }
                if let Some(data) = field("data: ").filter(|data| !data.is_empty()) {
                    return Ok(Some(serde_json::from_str(data)?));
                }
            }
            match self.body.frame().await {
                Some(frame) => {
                    if let Ok(data) = frame?.into_data() {
                        self.read.extend_from_slice(&data);
                    }
                }
                None => return Ok(None),
            }
        }
    }
}

//! One GET with a deadline and a cap.

use std::future::poll_fn;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, HeaderMap, HeaderValue};
use http::{Request, Response, StatusCode, Uri};
use tower_service::Service;
use vmcp_core::{Body, BodyError, BoxError};
use vmcp_jwt::{KeysError, MAX_SET};

/// How long one request may take, its whole answer included.
const DEADLINE: Duration = Duration::from_secs(5);

/// A client that tasks take clones of.
pub(crate) struct Client<C>(Mutex<C>);

impl<C: Clone> Client<C> {
    pub(crate) fn new(client: C) -> Self {
        Self(Mutex::new(client))
    }

    /// The answer's headers and its body, if its status is 200.
    pub(crate) async fn get<R>(&self, uri: &Uri) -> Result<(HeaderMap, Bytes), KeysError>
    where
        C: Service<Request<Body>, Response = Response<R>>,
        C::Error: Into<BoxError>,
        R: http_body::Body<Data = Bytes>,
        R::Error: Into<BoxError>,
    {
        let client = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let answer = tokio::time::timeout(DEADLINE, get(client, uri)).await;
        answer.unwrap_or(Err(KeysError::TooSlow))
    }
}

async fn get<C, R>(mut client: C, uri: &Uri) -> Result<(HeaderMap, Bytes), KeysError>
where
    C: Service<Request<Body>, Response = Response<R>>,
    C::Error: Into<BoxError>,
    R: http_body::Body<Data = Bytes>,
    R::Error: Into<BoxError>,
{
    let unreachable = |error: C::Error| {
        let error: BoxError = error.into();
        tracing::debug!(host = uri.host(), %error, "an issuer cannot be reached");
        KeysError::Unreachable
    };
    let mut request = Request::new(Body::empty());
    request.uri_mut().clone_from(uri);
    request.headers_mut().insert(ACCEPT, HeaderValue::from_static("application/json"));
    poll_fn(|cx| client.poll_ready(cx)).await.map_err(unreachable)?;
    let response = client.call(request).await.map_err(unreachable)?;
    let (head, body) = response.into_parts();
    if head.status != StatusCode::OK {
        return Err(KeysError::Status(head.status.as_u16()));
    }
    let body = vmcp_core::read(body, MAX_SET).await.map_err(|error| match error {
        BodyError::TooLarge { .. } => KeysError::TooLarge,
        BodyError::Broken(_) => KeysError::Unreachable,
    })?;
    Ok((head.headers, body))
}

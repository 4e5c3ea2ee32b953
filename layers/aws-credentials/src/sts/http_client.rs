//! The SDK's idea of an HTTP client, over a tower service.

use std::fmt;
use std::future::poll_fn;
use std::sync::{Mutex, PoisonError};

use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, SharedHttpClient, SharedHttpConnector, http_client_fn,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_types::body::SdkBody;
use bytes::Bytes;
use http::{Request, Response};
use tower_service::Service;
use vmcp_core::{Body, BoxError, read};

use super::quiet::Heard;

/// How much of an answer is read. Those of STS have about 2 KiB.
const LONGEST_ANSWER: usize = 64 << 10;

/// The tower service behind the SDK's trait. The lock makes it shareable; it is held for a clone.
struct Connector<C>(Mutex<C>);

pub(super) fn client<C, R>(over: C) -> SharedHttpClient
where
    C: Service<Request<Body>, Response = Response<R>> + Clone + Send + 'static,
    C::Error: Into<BoxError>,
    C::Future: Send,
    R: http_body::Body<Data = Bytes> + Send + 'static,
    R::Error: Into<BoxError>,
{
    let connector = SharedHttpConnector::new(Connector(Mutex::new(over)));
    http_client_fn(move |_, _| connector.clone())
}

impl<C, R> HttpConnector for Connector<C>
where
    C: Service<Request<Body>, Response = Response<R>> + Clone + Send + 'static,
    C::Error: Into<BoxError>,
    C::Future: Send,
    R: http_body::Body<Data = Bytes> + Send + 'static,
    R::Error: Into<BoxError>,
{
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let client = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        HttpConnectorFuture::new(async move {
            let request = request.try_into_http1x().map_err(|error| user(error.into()))?;
            let (parts, body) = request.into_parts();
            let body = body.bytes().map(Bytes::copy_from_slice);
            let body = Body::from(body.ok_or_else(|| user("a body that is a stream".into()))?);
            let sending = Heard::new(send(client, Request::from_parts(parts, body)));
            let response = sending.await.map_err(ConnectorError::io)?;
            HttpResponse::try_from(response).map_err(|error| user(error.into()))
        })
    }
}

async fn send<C, R>(mut client: C, request: Request<Body>) -> Result<Response<SdkBody>, BoxError>
where
    C: Service<Request<Body>, Response = Response<R>>,
    C::Error: Into<BoxError>,
    R: http_body::Body<Data = Bytes>,
    R::Error: Into<BoxError>,
{
    poll_fn(|cx| client.poll_ready(cx)).await.map_err(Into::into)?;
    let (parts, body) = client.call(request).await.map_err(Into::into)?.into_parts();
    let body = read(body, LONGEST_ANSWER).await?;
    Ok(Response::from_parts(parts, SdkBody::from(body)))
}

fn user(error: BoxError) -> ConnectorError {
    ConnectorError::user(error)
}

impl<C> fmt::Debug for Connector<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connector")
    }
}

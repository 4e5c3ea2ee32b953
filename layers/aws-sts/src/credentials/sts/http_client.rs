//! Adapter from the gateway's HTTP client to the HTTP client trait of the AWS SDK.

use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, SharedHttpClient, SharedHttpConnector, http_client_fn,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_types::body::SdkBody;
use bytes::Bytes;
use http::{Request, Response};
use vmcp_core::{Body, BoxError, HttpClient, collect_limited};

use super::suppress_tracing::RestoreTracing;

/// Maximum response size. STS responses have about 2 KiB.
const MAX_RESPONSE_SIZE: usize = 64 << 10;

/// SDK connector that sends requests with an [`HttpClient`].
#[derive(Debug)]
struct Connector(HttpClient);

pub(super) fn client(over: HttpClient) -> SharedHttpClient {
    let connector = SharedHttpConnector::new(Connector(over));
    http_client_fn(move |_, _| connector.clone())
}

impl HttpConnector for Connector {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let client = self.0.clone();
        HttpConnectorFuture::new(async move {
            let request = request.try_into_http1x().map_err(|error| user(error.into()))?;
            let (parts, body) = request.into_parts();
            let body = body.bytes().map(Bytes::copy_from_slice);
            let body = Body::from(body.ok_or_else(|| user("a body that is a stream".into()))?);
            let sending = RestoreTracing::new(send(client, Request::from_parts(parts, body)));
            let response = sending.await.map_err(ConnectorError::io)?;
            HttpResponse::try_from(response).map_err(|error| user(error.into()))
        })
    }
}

async fn send(client: HttpClient, request: Request<Body>) -> Result<Response<SdkBody>, BoxError> {
    let (parts, body) = client.send(request).await?.into_parts();
    let body = collect_limited(body, MAX_RESPONSE_SIZE).await?;
    Ok(Response::from_parts(parts, SdkBody::from(body)))
}

fn user(error: BoxError) -> ConnectorError {
    ConnectorError::user(error)
}

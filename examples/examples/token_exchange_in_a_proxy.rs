//! `vmcp-authn` and `vmcp-token-exchange` in a bare hyper reverse proxy: the backend receives a token that a token
//! endpoint (RFC 8693) issued in exchange, never the caller's own. Nothing here is specific to MCP.
//!
//! Token endpoint and backend are in this file too, and print what they get.
//!
//! ```text
//! $ cargo run -p vmcp-examples --example token_exchange_in_a_proxy -- 127.0.0.1:8080
//! ann=…
//! eve=…
//! listening on 127.0.0.1:8080
//! token endpoint: ann's token for one for files
//! backend: GET /report with Bearer files-of-ann
//! backend: GET /other with Bearer files-of-ann
//! token endpoint: eve's token for one for files
//!
//! $ curl -i http://127.0.0.1:8080/report
//! HTTP/1.1 401 Unauthorized
//!
//! $ curl http://127.0.0.1:8080/report -H "Authorization: Bearer $ann"
//! here you are
//!
//! $ curl http://127.0.0.1:8080/other -H "Authorization: Bearer $ann"
//! here you are
//!
//! $ curl -i http://127.0.0.1:8080/report -H "Authorization: Bearer $eve"
//! HTTP/1.1 403 Forbidden
//! ```

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::routing::post;
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use http::uri::{Authority, Scheme};
use http::{HeaderMap, HeaderName, Method, Request, Response, StatusCode, Uri};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tower::{Layer, Service, ServiceExt, service_fn};
use vmcp_authn::{AuthenticationLayer, BearerAuthenticator, JwtVerifier};
use vmcp_core::{
    Body, BoxError, Caller, Clock, CredentialError, CredentialErrorKind, Identity, cause_ref,
};
use vmcp_examples::Issuer;
use vmcp_token_exchange::{
    CachedExchange, EndpointSettings, OAuthClient, TokenEndpoint, TokenExchangeLayer, TokenUrl,
};

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    let issuer = Arc::new(Issuer::new("https://proxy.example.com")?);
    println!("ann={}\neve={}", issuer.token("ann", &[])?, issuer.token("eve", &[])?);
    let authenticate =
        AuthenticationLayer::new(BearerAuthenticator::new(JwtVerifier::new(issuer.verifier())));
    let behind = stand_ins(issuer).await?;

    let settings = EndpointSettings::new(TokenUrl::new(&format!("http://{behind}/token"))?)
        .client(OAuthClient::post("proxy", &"proxy's own secret".into())?)
        .audience("files");
    let client = Client::builder(TokioExecutor::new()).build_http::<Body>();
    let endpoint = TokenEndpoint::new(client, settings, Clock::system());
    // Without `CachedExchange`, each request would call the token endpoint.
    let backend = TokenExchangeLayer::new(CachedExchange::new(endpoint, Clock::system()))
        .layer(Client::builder(TokioExecutor::new()).build_http::<Incoming>());
    let proxy = service_fn(move |request| {
        let forwarded = forward(backend.clone(), request, behind.clone());
        async move { Ok::<_, Infallible>(forwarded.await.unwrap_or_else(|error| refuse(&error))) }
    });
    let service = TowerToHyperService::new(authenticate.layer(proxy));

    let listener = TcpListener::bind(address).await?;
    println!("listening on {}", listener.local_addr()?);
    loop {
        let (stream, _) = listener.accept().await?;
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .serve_connection(TokioIo::new(stream), service.clone());
        tokio::spawn(connection);
    }
}

async fn forward<C>(
    client: C,
    mut request: Request<Incoming>,
    server: Authority,
) -> Result<Response<Body>, BoxError>
where
    C: Service<Request<Incoming>, Response = Response<Incoming>, Error = BoxError>,
{
    let mut target = request.uri().clone().into_parts();
    (target.scheme, target.authority) = (Some(Scheme::HTTP), Some(server));
    *request.uri_mut() = Uri::from_parts(target)?;
    request.headers_mut().remove(HOST);
    // The authenticated caller is the subject of the exchange.
    if let Some(identity) = request.extensions_mut().remove::<Identity>() {
        request.extensions_mut().insert(Caller::User(identity));
    }
    Ok(client.oneshot(request).await?.map(Body::wrap))
}

/// Maps an error of the layer to a response. The cause tells if the caller or the operator can correct it.
fn refuse(error: &BoxError) -> Response<Body> {
    let status = match cause_ref::<CredentialError>(error.as_ref()).map(|error| &error.kind) {
        None => StatusCode::BAD_GATEWAY,
        Some(CredentialErrorKind::Unavailable { .. }) => StatusCode::SERVICE_UNAVAILABLE,
        Some(_) => StatusCode::FORBIDDEN,
    };
    let mut response = Response::new(Body::from(Bytes::from(format!("{error}\n"))));
    *response.status_mut() = status;
    response
}

/// Starts a token endpoint, which accepts the issuer's tokens except Eve's, and a backend.
async fn stand_ins(issuer: Arc<Issuer>) -> Result<Authority, BoxError> {
    let exchange = async move |form: Bytes| {
        let form: HashMap<_, _> = form_urlencoded::parse(&form).collect();
        let field = |name: &str| form.get(name).map(|value| &**value).unwrap_or_default();
        let checked = issuer.verifier().verify(field("subject_token")).await;
        let subject = checked.ok().and_then(|it| it.claims.text("sub").map(str::to_owned));
        let subject = subject.unwrap_or_default();
        println!("token endpoint: {subject}'s token for one for {}", field("audience"));
        let known = field("client_secret") == "proxy's own secret" && subject == "ann";
        let (status, answer) = if known {
            let token = format!(r#"{{"access_token":"{}-of-{subject}""#, field("audience"));
            let kind = r#""issued_token_type":"urn:ietf:params:oauth:token-type:access_token""#;
            (StatusCode::OK, format!(r#"{token},{kind},"token_type":"Bearer","expires_in":600}}"#))
        } else {
            (StatusCode::BAD_REQUEST, r#"{"error":"invalid_grant"}"#.to_owned())
        };
        (status, [(CONTENT_TYPE, "application/json")] as [(HeaderName, &str); 1], answer)
    };
    let backend = async |method: Method, uri: Uri, headers: HeaderMap| {
        let shown = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        println!("backend: {method} {} with {}", uri.path(), shown.unwrap_or("nothing"));
        "here you are\n"
    };
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let behind = listener.local_addr()?.to_string().parse()?;
    let router = Router::new().route("/token", post(exchange)).fallback(backend);
    tokio::spawn(async { axum::serve(listener, router).await });
    Ok(behind)
}

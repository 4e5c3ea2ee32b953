use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, LOCATION};
use http::{HeaderMap, Method, Response, Uri};
use http_body_util::{BodyExt, Full};
use tokio::time::Instant;
use tower::ServiceExt;
use tower_test::mock::{self, Handle};
use vmcp_core::BoxError;

use super::*;
use crate::token_endpoint::{TokenType, TokenUrl};

type Peer = Handle<Request<Body>, Response<Full<Bytes>>>;
type Form = BTreeMap<String, String>;

const TOKEN: &str = r#"{"access_token":"new","token_type":"Bearer","expires_in":60}"#;

fn settings() -> EndpointSettings {
    EndpointSettings::new(TokenUrl::new("https://idp.example/token?tenant=1").unwrap())
}

const EXCHANGE: Grant<'_> = Grant::Exchange { subject_token: "in+bound/=" };

fn respond(status: u16, kind: &str, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let builder = Response::builder().status(status).header(CONTENT_TYPE, kind);
    builder.body(Full::new(body.into())).unwrap()
}

/// Returns the request that `settings` produce for a grant.
async fn received(settings: EndpointSettings, grant: Grant<'_>) -> (Method, Uri, HeaderMap, Form) {
    let (client, mut peer): (_, Peer) = mock::pair();
    let endpoint = TokenEndpoint::new(client, settings, Clock::system());
    let asking = endpoint.request_token(&grant);
    let arrives = async {
        let (request, reply) = peer.next_request().await.unwrap();
        reply.send_response(respond(200, "application/json", TOKEN));
        request
    };
    let (outcome, request) = tokio::join!(asking, arrives);
    assert_eq!(outcome.unwrap().value(), "Bearer new");
    let (parts, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let pairs: Vec<_> = form_urlencoded::parse(&body).into_owned().collect();
    let form: Form = pairs.iter().cloned().collect();
    assert_eq!(form.len(), pairs.len(), "a parameter stands twice");
    (parts.method, parts.uri, parts.headers, form)
}

async fn outcome(reply: Response<Full<Bytes>>) -> Result<BearerToken, ExchangeError> {
    let (client, mut peer): (_, Peer) = mock::pair();
    let endpoint = TokenEndpoint::new(client, settings(), Clock::system());
    let arrives = async {
        let (_, sender) = peer.next_request().await.unwrap();
        sender.send_response(reply);
    };
    let (outcome, ()) = tokio::join!(endpoint.request_token(&EXCHANGE), arrives);
    // There is exactly one request, whatever the response.
    drop(endpoint);
    assert!(peer.next_request().await.is_none());
    outcome
}

fn form(pairs: &[(&str, &str)]) -> Form {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[tokio::test]
async fn sends_only_configured_parameters() {
    let plain = [
        ("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"),
        ("subject_token", "in+bound/="),
        ("subject_token_type", "urn:ietf:params:oauth:token-type:access_token"),
        ("requested_token_type", "urn:ietf:params:oauth:token-type:access_token"),
    ];
    let (method, uri, headers, sent) = received(settings(), EXCHANGE).await;
    assert_eq!(
        (method, uri.to_string().as_str()),
        (Method::POST, "https://idp.example/token?tenant=1")
    );
    assert_eq!(headers[CONTENT_TYPE], "application/x-www-form-urlencoded");
    assert_eq!(headers[ACCEPT], "application/json");
    assert_eq!((headers.len(), sent), (2, form(&plain)));

    let all = settings()
        .audience("files & more")
        .scopes(["read", "write"])
        .unwrap()
        .resource("https://files.example/mcp")
        .unwrap()
        .subject_token_type(TokenType::IdToken);
    let mut expected = form(&plain);
    expected.extend(form(&[
        ("subject_token_type", "urn:ietf:params:oauth:token-type:id_token"),
        ("audience", "files & more"),
        ("scope", "read write"),
        ("resource", "https://files.example/mcp"),
    ]));
    assert_eq!(received(all, EXCHANGE).await.3, expected);
}

#[tokio::test]
async fn client_authenticates_in_one_way_only() {
    let secret = "s:1".to_owned().into();
    let basic = settings().client(OAuthClient::basic("gate", &secret).unwrap());
    let (_, _, headers, sent) = received(basic, EXCHANGE).await;
    // gate:s%3A1
    assert_eq!(headers[AUTHORIZATION], "Basic Z2F0ZTpzJTNBMQ==");
    assert!(headers[AUTHORIZATION].is_sensitive());
    assert!(!sent.contains_key("client_id") && !sent.contains_key("client_secret"));

    let post = settings().client(OAuthClient::post("gate", &secret).unwrap());
    let (_, _, headers, sent) = received(post, EXCHANGE).await;
    assert_eq!((sent["client_id"].as_str(), sent["client_secret"].as_str()), ("gate", "s:1"));
    assert!(!headers.contains_key(AUTHORIZATION));

    let public = settings().client(OAuthClient::public("gate").unwrap());
    let (_, _, headers, sent) = received(public, EXCHANGE).await;
    assert_eq!(sent["client_id"], "gate");
    assert!(!sent.contains_key("client_secret") && !headers.contains_key(AUTHORIZATION));
}

#[tokio::test]
async fn client_credentials_require_secret() {
    let endpoint = |settings| {
        let (client, _peer): (_, Peer) = mock::pair();
        TokenEndpoint::new(client, settings, Clock::system())
    };
    assert!(!endpoint(settings()).has_secret());
    let public = OAuthClient::public("gate").unwrap();
    assert!(!endpoint(settings().client(public)).has_secret());

    let client = OAuthClient::basic("gate", &"s".to_owned().into()).unwrap();
    let own = settings().client(client).audience("files").scopes(["read"]).unwrap();
    assert!(endpoint(own.clone()).has_secret());
    let (_, _, headers, sent) = received(own, Grant::ClientCredentials).await;
    let expected = [("grant_type", "client_credentials"), ("audience", "files"), ("scope", "read")];
    assert_eq!(sent, form(&expected));
    assert!(headers.contains_key(AUTHORIZATION));
}

#[tokio::test]
async fn does_not_follow_redirects() {
    let mut reply = respond(307, "application/json", "{}");
    reply.headers_mut().insert(LOCATION, "http://169.254.169.254/".parse().unwrap());
    let fault = outcome(reply).await.unwrap_err();
    assert!(matches!(fault, ExchangeError::Unavailable(EndpointError::Redirect)), "{fault}");
}

#[tokio::test]
async fn rejects_responses_over_one_mebibyte() {
    let large = format!(
        r#"{{"access_token":"a","token_type":"Bearer","x":"{}"}}"#,
        "x".repeat(MAX_RESPONSE_SIZE)
    );
    let fault = outcome(respond(200, "application/json", large)).await.unwrap_err();
    assert!(matches!(fault, ExchangeError::Unavailable(EndpointError::TooLarge)), "{fault}");
}

#[tokio::test(start_paused = true)]
async fn silent_endpoint_times_out() {
    let began = Instant::now();
    let (client, mut peer): (_, Peer) = mock::pair();
    let endpoint = TokenEndpoint::new(client, settings(), Clock::system());
    let silent = async {
        let arrived = peer.next_request().await;
        std::future::pending::<()>().await;
        drop(arrived);
    };
    let fault = tokio::select! {
        outcome = endpoint.request_token(&EXCHANGE) => outcome.unwrap_err(),
        () = silent => panic!("it was answered"),
    };
    assert!(matches!(fault, ExchangeError::Unavailable(EndpointError::TimedOut)), "{fault}");
    assert_eq!(began.elapsed(), Duration::from_secs(10));
}

#[tokio::test(start_paused = true)]
async fn slow_body_times_out() {
    let began = Instant::now();
    let client = tower::service_fn(|_: Request<Body>| async {
        let (mut sender, body) = http_body_util::channel::Channel::<Bytes>::new(1);
        tokio::spawn(async move {
            while sender.send_data(Bytes::from_static(b" ")).await.is_ok() {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        });
        Ok::<_, BoxError>(Response::new(body))
    });
    let limited = settings().timeout(Duration::from_secs(3));
    let endpoint = TokenEndpoint::new(client, limited, Clock::system());
    let fault = endpoint.request_token(&EXCHANGE).await.unwrap_err();
    assert!(matches!(fault, ExchangeError::Unavailable(EndpointError::TimedOut)), "{fault}");
    assert_eq!(began.elapsed(), Duration::from_secs(3));
}

#[tokio::test]
async fn connection_error_appears_in_log_only() {
    let client = tower::service_fn(|_: Request<Body>| async {
        Err::<Response<Full<Bytes>>, BoxError>("refused by 10.0.0.7".into())
    });
    let endpoint = TokenEndpoint::new(client.boxed_clone(), settings(), Clock::system());
    let fault = endpoint.request_token(&EXCHANGE).await.unwrap_err();
    assert!(!fault.to_string().contains("10.0.0.7"));
    let cause = std::error::Error::source(&fault).unwrap();
    assert!(cause.to_string().contains("10.0.0.7"));
}

#[test]
fn never_reveals_secrets() {
    let secret = "canary-3f9a".to_owned().into();
    for client in
        [OAuthClient::basic("gate", &secret).unwrap(), OAuthClient::post("gate", &secret).unwrap()]
    {
        let (mock, _peer): (_, Peer) = mock::pair();
        let settings = settings().client(client);
        let shown = format!("{:?}", TokenEndpoint::new(mock, settings, Clock::system()));
        assert!(shown.contains("gate") && !shown.contains("canary"), "{shown}");
        // The secret does not appear in its Basic encoding either.
        assert!(!shown.contains("Y2FuYXJ5"), "{shown}");
    }
    assert_eq!(format!("{EXCHANGE:?}"), "Exchange");
}

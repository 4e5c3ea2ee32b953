use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::Response;
use proptest::prelude::*;
use serde_json::{Value, json};
use tower::util::BoxCloneSyncService;
use vmcp_core::BoxError;

use super::*;

const ISSUER: &str = "https://id.example";
const AUDIENCE: &str = "https://mcp.example/mcp";
const NOW: u64 = 1_785_240_000;

fn rules() -> ValidationOptions {
    ValidationOptions::new(ISSUER, AUDIENCE)
}

fn clock() -> Clock {
    Clock::manual(SystemTime::UNIX_EPOCH + Duration::from_secs(NOW))
}

type Client = BoxCloneSyncService<Request<Body>, Response<Body>, BoxError>;

/// Received `Authorization` header and form.
type Received = Arc<Mutex<Vec<(Option<String>, String)>>>;

/// Returns a client with a fixed response, and the requests that it receives.
fn endpoint(status: u16, response: impl Into<Bytes>) -> (Client, Received) {
    let (result, response) = (Received::default(), response.into());
    let kept = Arc::clone(&result);
    let client = tower::service_fn(move |request: Request<Body>| {
        let (result, response) = (Arc::clone(&kept), response.clone());
        async move {
            let (head, body) = request.into_parts();
            let sent = head.headers.get(AUTHORIZATION).map(|it| it.to_str().unwrap().to_owned());
            let form = vmcp_core::collect_limited(body, 1 << 20).await.unwrap();
            result.lock().unwrap().push((sent, String::from_utf8(form.to_vec()).unwrap()));
            let mut response = Response::new(Body::from(response));
            *response.status_mut() = StatusCode::from_u16(status).unwrap();
            Ok::<_, BoxError>(response)
        }
    });
    (BoxCloneSyncService::new(client), result)
}

fn introspection(client: Client) -> IntrospectionClient {
    let secret = SecretString::from("s:e c%r\u{e9}t");
    IntrospectionClient::new("https://id.example/introspect", client, rules())
        .unwrap()
        .clock(clock())
        .credentials("my client", &secret)
}

async fn answered(response: &Value) -> Result<IntrospectedToken, IntrospectionError> {
    let (client, _) = endpoint(200, response.to_string());
    introspection(client).introspect("opaque").await
}

fn active(more: &Value) -> Value {
    let mut response = json!({"active": true, "sub": "alice", "aud": AUDIENCE});
    response.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    response
}

fn is_outage(response: &Result<IntrospectedToken, IntrospectionError>) -> bool {
    matches!(response, Err(IntrospectionError::Endpoint(_)))
}

fn is_invalid(response: &Result<IntrospectedToken, IntrospectionError>) -> bool {
    matches!(response, Err(IntrospectionError::Inactive | IntrospectionError::Token(_)))
}

#[tokio::test]
async fn encodes_credentials_and_token() {
    let (client, result) = endpoint(200, active(&json!({})).to_string());
    assert!(introspection(client).introspect("a&b=c d").await.is_ok());
    let basic = format!("Basic {}", STANDARD.encode("my+client:s%3Ae+c%25r%C3%A9t"));
    let form = "token=a%26b%3Dc+d&token_type_hint=access_token".to_owned();
    assert_eq!(*result.lock().unwrap(), [(Some(basic), form)]);
}

#[tokio::test]
async fn maps_every_member_to_claim() {
    let more = json!({"exp": NOW + 60, "groups": ["a"], "act": {"sub": "b"}, "tsid": "stolen"});
    let IntrospectedToken { claims, expires_at } = answered(&active(&more)).await.unwrap();
    assert_eq!((claims.text("iss"), claims.text("sub")), (Some(ISSUER), Some("alice")));
    assert_eq!(claims.object()["groups"], json!(["a"]));
    assert!(!claims.has("active") && claims.has("tsid"));
    assert_eq!(expires_at, Some(clock().now() + Duration::from_mins(1) + vmcp_jwt::LEEWAY));
}

#[tokio::test]
async fn only_true_is_active() {
    assert!(is_invalid(&answered(&json!({"active": false})).await));
    for lie in [json!("true"), json!(1), Value::Null, json!([true])] {
        let response = answered(&active(&json!({"active": lie}))).await;
        assert!(is_invalid(&response), "{response:?}");
    }
    assert!(is_outage(&answered(&json!({"sub": "a"})).await));
}

#[tokio::test]
async fn rejects_claims_that_break_options() {
    for wrong in [
        json!({"aud": "https://other"}),
        json!({"aud": null}),
        json!({"iss": "https://other"}),
        json!({"sub": ""}),
        json!({"sub": 5}),
        json!({"exp": NOW - 3600}),
        json!({"nbf": NOW + 3600}),
        json!({"cnf": {"jkt": "x"}}),
        json!({"token_type": "DPoP"}),
        json!({"token_type": "refresh_token"}),
        json!({"token_type": ["Bearer"]}),
        json!({"token_use": "refresh_token", "token_type": "Bearer"}),
        json!({"token_use": "refresh"}),
        json!({"token_use": "id"}),
        json!({"token_use": true}),
        json!({"typ": "Refresh"}),
        json!({"typ": "Offline"}),
        json!({"typ": "ID"}),
    ] {
        let response = answered(&active(&wrong)).await;
        assert!(is_invalid(&response), "{wrong}: {response:?}");
    }
    for access in [
        json!({"iss": ISSUER, "token_type": "bearer"}),
        json!({"token_use": "access_token", "token_type": "Bearer"}),
        json!({"token_use": "access"}),
        json!({"typ": "Bearer", "token_type": "Bearer"}),
        json!({"token_type": "access_token"}),
        json!({"token_type": null}),
    ] {
        let response = answered(&active(&access)).await;
        assert!(response.is_ok(), "{access}: {response:?}");
    }
}

#[tokio::test]
async fn invalid_responses_are_endpoint_errors() {
    let good = active(&json!({})).to_string();
    let large = active(&json!({"x": "x".repeat(70 * 1024)})).to_string();
    let twice = good.replacen('{', "{\"active\":true,", 1);
    for (status, response) in [
        (200, "<html>Welcome</html>".to_owned()),
        (200, large),
        (200, twice),
        (200, String::new()),
        (401, good.clone()),
        (302, good.clone()),
        (500, good),
    ] {
        let (client, _) = endpoint(status, response);
        let response = introspection(client).introspect("opaque").await;
        assert!(is_outage(&response), "{status}: {response:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn response_times_out_after_five_seconds() {
    let (sender, body) = http_body_util::channel::Channel::<Bytes, BoxError>::new(1);
    let body = Arc::new(Mutex::new(Some(body)));
    let client = tower::service_fn(move |_: Request<Body>| {
        let body = body.lock().unwrap().take().unwrap();
        async move { Ok::<_, BoxError>(Response::new(Body::wrap(body))) }
    });
    let slow = IntrospectionClient::new("https://id.example/", client, rules());
    let began = tokio::time::Instant::now();
    let response = slow.unwrap().introspect("opaque").await;
    assert!(
        matches!(response, Err(IntrospectionError::Endpoint(EndpointError::TooSlow))),
        "{response:?}"
    );
    assert_eq!(began.elapsed().as_secs(), 5);
    drop(sender);
}

#[test]
fn rejects_invalid_endpoint_urls() {
    let (client, _) = endpoint(200, "");
    for url in ["/introspect", "ftp://id.example/", "https://u:p@id.example/", "https://x/#y"] {
        let refused = IntrospectionClient::new(url, client.clone(), rules());
        assert_eq!(refused.unwrap_err(), EndpointUrlError::Url, "{url}");
    }
}

#[test]
fn debug_output_contains_no_secrets() {
    let (client, _) = endpoint(200, "");
    let introspection = introspection(client).credentials("id", &SecretString::from("canary"));
    let printed = format!("{introspection:?} {:?}", introspection.request("canary"));
    assert!(!printed.contains("canary"), "{printed}");
    assert!(!printed.contains(&STANDARD.encode("id:canary")), "{printed}");
}

proptest! {
    #[test]
    fn parses_arbitrary_responses(response in proptest::collection::vec(any::<u8>(), 0..200)) {
        let (client, _) = endpoint(200, "");
        prop_assert!(introspection(client).parse_response(&response).is_err());
    }
}

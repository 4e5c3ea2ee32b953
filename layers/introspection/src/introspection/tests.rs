use std::sync::{Arc, Mutex};

use http::Response;
use proptest::prelude::*;
use serde_json::{Value, json};
use tower::util::BoxCloneSyncService;
use vmcp_core::BoxError;

use super::*;

const ISSUER: &str = "https://id.example";
const AUDIENCE: &str = "https://mcp.example/mcp";
const NOW: u64 = 1_785_240_000;

fn rules() -> Rules {
    Rules::new(ISSUER, AUDIENCE)
}

fn clock() -> Clock {
    Clock::manual(SystemTime::UNIX_EPOCH + Duration::from_secs(NOW))
}

type Client = BoxCloneSyncService<Request<Body>, Response<Body>, BoxError>;

/// What was asked: the `Authorization` header and the form.
type Asked = Arc<Mutex<Vec<(Option<String>, String)>>>;

/// An endpoint that always answers the same.
fn endpoint(status: u16, answer: impl Into<Bytes>) -> (Client, Asked) {
    let (asked, answer) = (Asked::default(), answer.into());
    let kept = Arc::clone(&asked);
    let client = tower::service_fn(move |request: Request<Body>| {
        let (asked, answer) = (Arc::clone(&kept), answer.clone());
        async move {
            let (head, body) = request.into_parts();
            let sent = head.headers.get(AUTHORIZATION).map(|it| it.to_str().unwrap().to_owned());
            let form = vmcp_core::read(body, 1 << 20).await.unwrap();
            asked.lock().unwrap().push((sent, String::from_utf8(form.to_vec()).unwrap()));
            let mut response = Response::new(Body::from(answer));
            *response.status_mut() = StatusCode::from_u16(status).unwrap();
            Ok::<_, BoxError>(response)
        }
    });
    (BoxCloneSyncService::new(client), asked)
}

fn introspection(client: Client) -> Introspection {
    let secret = SecretString::from("s:e c%r\u{e9}t");
    Introspection::new("https://id.example/introspect", client, rules())
        .unwrap()
        .clock(clock())
        .credentials("my client", &secret)
}

async fn answered(answer: &Value) -> Result<Introspected, IntrospectionError> {
    let (client, _) = endpoint(200, answer.to_string());
    introspection(client).introspect("opaque").await
}

fn active(more: &Value) -> Value {
    let mut answer = json!({"active": true, "sub": "alice", "aud": AUDIENCE});
    answer.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    answer
}

fn is_outage(answer: &Result<Introspected, IntrospectionError>) -> bool {
    matches!(answer, Err(IntrospectionError::Outage(_)))
}

fn is_invalid(answer: &Result<Introspected, IntrospectionError>) -> bool {
    matches!(answer, Err(IntrospectionError::Inactive | IntrospectionError::Token(_)))
}

#[tokio::test]
async fn asks_with_encoded_credentials_and_an_encoded_token() {
    let (client, asked) = endpoint(200, active(&json!({})).to_string());
    assert!(introspection(client).introspect("a&b=c d").await.is_ok());
    let basic = format!("Basic {}", STANDARD.encode("my+client:s%3Ae+c%25r%C3%A9t"));
    let form = "token=a%26b%3Dc+d&token_type_hint=access_token".to_owned();
    assert_eq!(*asked.lock().unwrap(), [(Some(basic), form)]);
}

#[tokio::test]
async fn every_member_becomes_a_claim() {
    let more = json!({"exp": NOW + 60, "groups": ["a"], "act": {"sub": "b"}, "tsid": "stolen"});
    let Introspected { claims, expires_at } = answered(&active(&more)).await.unwrap();
    assert_eq!((claims.text("iss"), claims.text("sub")), (Some(ISSUER), Some("alice")));
    assert_eq!(claims.object()["groups"], json!(["a"]));
    assert!(!claims.has("active") && claims.has("tsid"));
    assert_eq!(expires_at, Some(clock().now() + Duration::from_secs(60) + vmcp_jwt::LEEWAY));
}

#[tokio::test]
async fn only_true_is_active() {
    assert!(is_invalid(&answered(&json!({"active": false})).await));
    for lie in [json!("true"), json!(1), Value::Null, json!([true])] {
        let answer = answered(&active(&json!({"active": lie}))).await;
        assert!(is_invalid(&answer), "{answer:?}");
    }
    assert!(is_outage(&answered(&json!({"sub": "a"})).await));
}

#[tokio::test]
async fn claims_that_are_not_for_us_are_refused() {
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
        let answer = answered(&active(&wrong)).await;
        assert!(is_invalid(&answer), "{wrong}: {answer:?}");
    }
    for access in [
        json!({"iss": ISSUER, "token_type": "bearer"}),
        json!({"token_use": "access_token", "token_type": "Bearer"}),
        json!({"token_use": "access"}),
        json!({"typ": "Bearer", "token_type": "Bearer"}),
        json!({"token_type": "access_token"}),
        json!({"token_type": null}),
    ] {
        let answer = answered(&active(&access)).await;
        assert!(answer.is_ok(), "{access}: {answer:?}");
    }
}

#[tokio::test]
async fn an_endpoint_that_answers_nonsense_leaves_it_open_who_calls() {
    let good = active(&json!({})).to_string();
    let large = active(&json!({"x": "x".repeat(70 * 1024)})).to_string();
    let twice = good.replacen('{', "{\"active\":true,", 1);
    for (status, answer) in [
        (200, "<html>Welcome</html>".to_owned()),
        (200, large),
        (200, twice),
        (200, String::new()),
        (401, good.clone()),
        (302, good.clone()),
        (500, good),
    ] {
        let (client, _) = endpoint(status, answer);
        let answer = introspection(client).introspect("opaque").await;
        assert!(is_outage(&answer), "{status}: {answer:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_endpoint_has_five_seconds_for_the_whole_answer() {
    let (sender, body) = http_body_util::channel::Channel::<Bytes, BoxError>::new(1);
    let body = Arc::new(Mutex::new(Some(body)));
    let client = tower::service_fn(move |_: Request<Body>| {
        let body = body.lock().unwrap().take().unwrap();
        async move { Ok::<_, BoxError>(Response::new(Body::wrap(body))) }
    });
    let slow = Introspection::new("https://id.example/", client, rules());
    let began = tokio::time::Instant::now();
    let answer = slow.unwrap().introspect("opaque").await;
    assert!(matches!(answer, Err(IntrospectionError::Outage(Outage::TooSlow))), "{answer:?}");
    assert_eq!(began.elapsed().as_secs(), 5);
    drop(sender);
}

#[test]
fn refuses_an_endpoint_that_cannot_be_asked() {
    let (client, _) = endpoint(200, "");
    for url in ["/introspect", "ftp://id.example/", "https://u:p@id.example/", "https://x/#y"] {
        let refused = Introspection::new(url, client.clone(), rules());
        assert_eq!(refused.unwrap_err(), EndpointError::Url, "{url}");
    }
}

#[test]
fn no_secret_is_in_its_debug_form() {
    let (client, _) = endpoint(200, "");
    let introspection = introspection(client).credentials("id", &SecretString::from("canary"));
    let printed = format!("{introspection:?} {:?}", introspection.request("canary"));
    assert!(!printed.contains("canary"), "{printed}");
    assert!(!printed.contains(&STANDARD.encode("id:canary")), "{printed}");
}

proptest! {
    #[test]
    fn no_answer_breaks_the_reader(answer in proptest::collection::vec(any::<u8>(), 0..200)) {
        let (client, _) = endpoint(200, "");
        prop_assert!(introspection(client).read(&answer).is_err());
    }
}

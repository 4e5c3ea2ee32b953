use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::SystemTime;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use http::StatusCode;
use http_body_util::{BodyExt, Full};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};
use tokio_test::{assert_pending, assert_ready_ok};
use tower::{Layer, ServiceExt};
use tower_test::mock;
use vmcp_core::{
    Clock, UpstreamError, UpstreamFuture, UpstreamKind, UpstreamToken, UpstreamTokens, cause_ref,
};

use super::*;
use crate::{
    AssumeError, CredentialCache, Region, RoleArn, RoleMapping, RoleMappings, RoleMatch, Subject,
};

type Sent = Request<Full<Bytes>>;
type TestResponse = Response<Full<Bytes>>;
type Backends = mock::Handle<Sent, TestResponse>;

/// 2015-08-30, 12:36:00 UTC.
const WHEN: u64 = 1_440_938_160;
const CANARY: &str = "canary-token";

fn arn(name: &str) -> RoleArn {
    RoleArn::try_from(&*format!("arn:aws:iam::123456789012:role/{name}")).unwrap()
}

fn roles() -> RoleMappings {
    let mapping = RoleMapping {
        role: arn("admin"),
        matches: RoleMatch::Matcher("'admins' in claims.groups".into()),
        priority: None,
    };
    RoleMappings::new(Some(arn("reader")), vec![mapping], "groups").unwrap()
}

fn clock() -> Clock {
    Clock::manual(SystemTime::UNIX_EPOCH + Duration::from_secs(WHEN))
}

/// Returns a fake STS with credentials that name their role session, and its call counter.
fn sts() -> (impl AssumeRole + Clone, Arc<AtomicUsize>) {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let assume = move |role_session: Arc<RoleSession>, _: SecretString| {
        let call = counted.fetch_add(1, Ordering::SeqCst);
        let role = role_session.role().as_str().rsplit('/').next().unwrap().to_owned();
        let id = format!("{role}.{}.{call}", role_session.session().as_str());
        let until = SystemTime::UNIX_EPOCH + Duration::from_secs(WHEN + 3600);
        let made = Credentials::new(
            &id,
            &"canary-secret".into(),
            &format!("session-{id}").as_str().into(),
            until,
        );
        std::future::ready(Ok::<_, AssumeError>(made.unwrap()))
    };
    (assume, calls)
}

fn layer<A: AssumeRole>(assume: A) -> AwsStsLayer<A> {
    AwsStsLayer::new(Region::try_from("eu-central-1").unwrap(), roles(), assume).clock(clock())
}

/// Returns a JWT with these claims.
fn jwt(claims: &Value) -> String {
    format!("e30.{}.{CANARY}", BASE64_URL_SAFE_NO_PAD.encode(claims.to_string()))
}

fn identity(subject: &str, claims: Value) -> Identity {
    let token = jwt(&claims).into();
    let Value::Object(claims) = claims else { panic!("claims are an object") };
    Identity::builder("https://issuer", subject).claims(claims).token(token).build()
}

fn ada() -> Identity {
    identity("ada", json!({"sub": "ada", "groups": ["admins"]}))
}

fn request(caller: Option<Caller>) -> Sent {
    let mut request = Request::post("https://service.example.com/mcp?x=1")
        .header("authorization", "Bearer canary-inbound")
        .header("proxy-authorization", "Basic canary-inbound")
        .header("content-type", "application/json")
        .header("mcp-session-id", "7")
        .header("x-amz-security-token", "canary-smuggled")
        .header("accept", "application/json")
        .body(Full::new(Bytes::from_static(b"{}")))
        .unwrap();
    request.extensions_mut().insert(Backend::new("aws"));
    if let Some(caller) = caller {
        request.extensions_mut().insert(caller);
    }
    request
}

fn by(identity: Identity) -> Sent {
    request(Some(Caller::User(identity)))
}

fn key_id(headers: &HeaderMap) -> String {
    let header = headers["authorization"].to_str().unwrap();
    let rest = header.strip_prefix("AWS4-HMAC-SHA256 Credential=").unwrap();
    rest.split('/').next().unwrap().to_owned()
}

/// Sends `request` through the layer to a service that responds with `answer`; returns the result and the sent requests.
async fn exchange<A: AssumeRole>(
    layer: &AwsStsLayer<A>,
    request: Sent,
    mut answer: impl FnMut(usize) -> TestResponse + Send + 'static,
) -> (Result<Response<Bytes>, BoxError>, Vec<Sent>) {
    let (inner, mut handle): (_, Backends) = mock::pair();
    let serving = tokio::spawn(async move {
        let mut sent = Vec::new();
        while let Some((request, send)) = handle.next_request().await {
            send.send_response(answer(sent.len()));
            sent.push(request);
        }
        sent
    });
    let answer = match layer.layer(inner).oneshot(request).await {
        Ok(response) => {
            let (parts, body) = response.into_parts();
            Ok(Response::from_parts(parts, body.collect().await.unwrap().to_bytes()))
        }
        Err(error) => Err(error),
    };
    (answer, serving.await.unwrap())
}

fn fine(_: usize) -> TestResponse {
    Response::new(Full::new(Bytes::from_static(b"fine")))
}

fn fault(error: &BoxError) -> CredentialErrorKind {
    let error = cause_ref::<CredentialError>(error.as_ref()).unwrap();
    assert_eq!(error.backend.name(), "aws");
    error.kind.clone()
}

#[tokio::test]
async fn signs_request_and_removes_client_credentials() {
    let (assume, _) = sts();
    let (answer, sent) = exchange(&layer(assume), by(ada()), fine).await;
    assert_eq!(answer.unwrap().body(), "fine");
    let [sent] = &*sent else { panic!("one request") };
    let headers = sent.headers();
    assert_eq!(key_id(headers), "admin.ada.0");
    assert_eq!(headers["x-amz-date"], "20150830T123600Z");
    assert_eq!(headers["x-amz-security-token"], "session-admin.ada.0");
    assert_eq!(headers["host"], "service.example.com");
    assert_eq!(
        headers["x-amz-content-sha256"],
        "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
    );
    let authorization = headers["authorization"].to_str().unwrap();
    let covered = "SignedHeaders=content-type;host;mcp-session-id;x-amz-content-sha256;x-amz-date;x-amz-security-token,";
    assert!(authorization.contains(covered), "{authorization}");
    assert!(authorization.contains("/20150830/eu-central-1/aws-mcp/aws4_request"));
    assert!(headers["authorization"].is_sensitive());
    assert!(headers["x-amz-security-token"].is_sensitive());
    let shown = format!("{sent:?}");
    assert!(!shown.contains("canary"), "{shown}");
}

#[tokio::test]
async fn signs_get_and_delete() {
    for method in ["GET", "DELETE"] {
        let (assume, _) = sts();
        let mut request = by(ada());
        *request.method_mut() = method.parse().unwrap();
        *request.body_mut() = Full::default();
        let (_, sent) = exchange(&layer(assume), request, fine).await;
        assert_eq!(key_id(sent[0].headers()), "admin.ada.0");
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(sent[0].headers()["x-amz-content-sha256"], empty);
    }
}

#[tokio::test]
async fn gateway_requests_are_unsigned() {
    let (assume, calls) = sts();
    let (answer, sent) = exchange(&layer(assume), request(Some(Caller::Gateway)), fine).await;
    assert_eq!(answer.unwrap().status(), 200);
    assert!(!sent[0].headers().contains_key("authorization"));
    assert!(!sent[0].headers().contains_key("proxy-authorization"));
    assert_eq!(calls.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn fails_without_caller_or_token() {
    let nameless = by(Identity::anonymous());
    let tokenless = by(Identity::new("https://issuer", "ada"));
    for request in [request(None), nameless, tokenless] {
        let (assume, calls) = sts();
        let (answer, sent) = exchange(&layer(assume), request, fine).await;
        assert_eq!(fault(&answer.unwrap_err()), CredentialErrorKind::NoCaller);
        assert!(sent.is_empty());
        assert_eq!(calls.load(Ordering::SeqCst), 0);
    }
}

#[tokio::test]
async fn callers_never_share_signatures() {
    let (assume, calls) = sts();
    let layer = layer(CredentialCache::new(assume, 64, clock()));
    let callers = [
        (ada(), "admin.ada.0"),
        (identity("bob", json!({"sub": "bob", "groups": []})), "reader.bob.1"),
        (identity("eve", json!({"sub": "ada", "groups": ["admins"]})), "admin.ada.2"),
        (Identity::builder("https://other", "ada").token(CANARY.into()).build(), "reader.ada.3"),
    ];
    for _ in 0..3 {
        for (caller, expected) in &callers {
            let (_, sent) = exchange(&layer, by(caller.clone()), fine).await;
            assert_eq!(key_id(sent[0].headers()), *expected);
        }
    }
    assert_eq!(calls.load(Ordering::SeqCst), 4);
}

#[tokio::test]
async fn refreshed_token_keeps_credentials() {
    let (assume, calls) = sts();
    let layer = layer(CredentialCache::new(assume, 64, clock()));
    for token in ["one", "two", "three"] {
        let caller = identity("ada", json!({"sub": "ada", "jti": token}));
        exchange(&layer, by(caller), fine).await.0.unwrap();
    }
    assert_eq!(calls.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn different_claims_never_share_credentials() {
    let base = json!({"sub": "ada", "iss": "https://issuer", "aud": "one", "jti": "1", "exp": 10});
    let tags = |value: &str| json!({"principal_tags": {"team": [value]}});
    let others = [
        json!({}),
        json!({"aud": "two"}),
        json!({"aud": ["one", "two"]}),
        json!({"azp": "app"}),
        json!({"amr": ["pwd"]}),
        json!({"amr": ["pwd", "mfa"]}),
        json!({"https://aws.amazon.com/tags": tags("a")}),
        json!({"https://aws.amazon.com/tags": tags("b")}),
        json!({"https://aws.amazon.com/source_identity": "ada"}),
        json!({"repository": "own/secrets"}),
        json!({"iss": "https://other"}),
    ];
    let token = |other: &Value, jti: &str| {
        let mut claims = base.clone();
        claims.as_object_mut().unwrap().extend(other.as_object().unwrap().clone());
        claims["jti"] = json!(jti);
        claims["exp"] = json!(jti.len());
        claims
    };
    // Each of the cache's 16 shards has room for all of them.
    let capacity = 16 * others.len();
    let (assume, calls) = sts();
    let own = layer(CredentialCache::new(assume, capacity, clock()));
    // Refreshed tokens of the same holder share credentials.
    for jti in ["1", "22", "333"] {
        for other in &others {
            let caller = identity("ada", token(other, jti));
            exchange(&own, by(caller), fine).await.0.unwrap();
        }
        assert_eq!(calls.load(Ordering::SeqCst), others.len());
    }
    let (assume, calls) = sts();
    let theirs = layer(CredentialCache::new(assume, capacity, clock()))
        .subject(Subject::Upstream("corp".into()));
    for jti in ["1", "22", "333"] {
        for other in &others {
            let presented: &'static str = jwt(&token(other, jti)).leak();
            let caller = Identity::builder("https://issuer", "ada").token("own".into());
            let caller = caller.upstream(Arc::new(Upstream(Ok(presented)))).build();
            exchange(&theirs, by(caller), fine).await.0.unwrap();
        }
        assert_eq!(calls.load(Ordering::SeqCst), others.len());
    }
}

#[tokio::test]
async fn new_claims_change_role_immediately() {
    let (assume, _) = sts();
    let layer = layer(CredentialCache::new(assume, 64, clock()));
    let with = |token: &str, groups: Value| {
        identity("ada", json!({"sub": "ada", "jti": token, "groups": groups}))
    };
    let (_, sent) = exchange(&layer, by(with("one", json!(["admins"]))), fine).await;
    assert_eq!(key_id(sent[0].headers()), "admin.ada.0");
    let (_, sent) = exchange(&layer, by(with("two", json!([]))), fine).await;
    assert_eq!(key_id(sent[0].headers()), "reader.ada.1");
}

struct Upstream(Result<&'static str, UpstreamError>);

impl UpstreamTokens for Upstream {
    fn token<'a>(&'a self, provider: &'a str, kind: UpstreamKind) -> UpstreamFuture<'a> {
        assert_eq!((provider, kind), ("corp", UpstreamKind::Access));
        let token = self.0.map(|value| UpstreamToken { value: value.into(), expires_at: None });
        Box::pin(std::future::ready(token))
    }
}

async fn upstream(
    token: Result<&'static str, UpstreamError>,
) -> (Result<Response<Bytes>, BoxError>, Vec<Sent>) {
    let Value::Object(claims) = json!({"sub": "local-ada", "groups": []}) else { panic!() };
    let caller = Identity::builder("https://issuer", "ada")
        .claims(claims)
        .token("own".into())
        .upstream(Arc::new(Upstream(token)))
        .build();
    let (assume, _) = sts();
    exchange(&layer(assume).subject(Subject::Upstream("corp".into())), by(caller), fine).await
}

#[tokio::test]
async fn claims_of_presented_token_select_role() {
    // {"iss":"https://corp","sub":"corp-ada","groups":["admins"]}
    let token =
        "e30.eyJpc3MiOiJodHRwczovL2NvcnAiLCJzdWIiOiJjb3JwLWFkYSIsImdyb3VwcyI6WyJhZG1pbnMiXX0.x";
    let (_, sent) = upstream(Ok(token)).await;
    assert_eq!(key_id(sent[0].headers()), "admin.corp-ada.0");
}

#[tokio::test]
async fn opaque_upstream_token_gets_fallback_role() {
    for opaque in ["opaque", "a.b.c", "e30.!!.x", "e30.W10.x"] {
        let (_, sent) = upstream(Ok(opaque)).await;
        assert_eq!(key_id(sent[0].headers()), "reader.ada.0", "{opaque}");
    }
}

/// The claims come from introspection; the opaque token, which is all that STS receives, has none.
#[tokio::test]
async fn opaque_token_ignores_introspected_claims() {
    let Value::Object(claims) = json!({"sub": "ada", "groups": ["admins"]}) else { panic!() };
    for opaque in ["opaque", "a.b.c"] {
        let caller = Identity::builder("https://issuer", "ada").claims(claims.clone());
        let (assume, _) = sts();
        let (_, sent) =
            exchange(&layer(assume), by(caller.token(opaque.into()).build()), fine).await;
        assert_eq!(key_id(sent[0].headers()), "reader.ada.0", "{opaque}");
    }
}

#[tokio::test]
async fn provider_accounts_never_share_credentials() {
    let token = |claims: Value| -> &'static str {
        format!("e30.{}.x", BASE64_URL_SAFE_NO_PAD.encode(claims.to_string())).leak()
    };
    let named = |issuer: &str, subject: &str, jti: u8| {
        token(json!({"iss": issuer, "sub": subject, "name": "one", "jti": jti}))
    };
    let (assume, calls) = sts();
    let layer = layer(CredentialCache::new(assume, 64, clock()))
        .subject(Subject::Upstream("corp".into()))
        .session_name_claim("name");
    for (presented, asked) in [
        (named("https://corp", "1", 1), 1),
        (named("https://corp", "1", 2), 1),
        (named("https://corp", "2", 1), 2),
        (named("https://other", "1", 1), 3),
        // These tokens do not identify their holder, so none shares credentials with another.
        (token(json!({"name": "one", "sub": "1"})), 4),
        (token(json!({"name": "one", "sub": "1", "jti": 2})), 5),
        ("opaque", 6),
        ("opaque too", 7),
        ("opaque", 7),
    ] {
        let caller = Identity::builder("https://issuer", "ada").token("own".into());
        let caller = caller.upstream(Arc::new(Upstream(Ok(presented)))).build();
        exchange(&layer, by(caller), fine).await.0.unwrap();
        assert_eq!(calls.load(Ordering::SeqCst), asked, "{presented}");
    }
}

#[tokio::test]
async fn missing_upstream_token_names_provider() {
    let (answer, sent) = upstream(Err(UpstreamError::NotLinked)).await;
    let provider = "corp".into();
    assert_eq!(fault(&answer.unwrap_err()), CredentialErrorKind::NoUpstreamToken { provider });
    assert!(sent.is_empty());
    let (answer, _) = upstream(Err(UpstreamError::Unavailable)).await;
    assert!(matches!(fault(&answer.unwrap_err()), CredentialErrorKind::Unavailable { .. }));
    let (assume, _) = sts();
    let layer = layer(assume).subject(Subject::Upstream("corp".into()));
    let (answer, _) = exchange(&layer, by(ada()), fine).await;
    assert!(matches!(fault(&answer.unwrap_err()), CredentialErrorKind::NoUpstreamToken { .. }));
}

#[tokio::test]
async fn rejects_session_without_name() {
    for claims in
        [json!({"groups": []}), json!({"sub": ["a"]}), json!({"sub": ""}), json!({"sub": 1.5})]
    {
        let (assume, _) = sts();
        let (answer, sent) = exchange(&layer(assume), by(identity("ada", claims)), fine).await;
        assert!(matches!(fault(&answer.unwrap_err()), CredentialErrorKind::Rejected { .. }));
        assert!(sent.is_empty());
    }
    let (assume, _) = sts();
    let layer = layer(assume).session_name_claim("uid");
    let caller = identity("ada", json!({"uid": 4711}));
    let (_, sent) = exchange(&layer, by(caller), fine).await;
    assert_eq!(key_id(sent[0].headers()), "reader.4711.0");
}

#[tokio::test]
async fn rejects_caller_without_role() {
    let (assume, _) = sts();
    let mapping =
        RoleMapping { role: arn("x"), matches: RoleMatch::Claim("nobody".into()), priority: None };
    let roles = RoleMappings::new(None, vec![mapping], "groups").unwrap();
    let layer = AwsStsLayer::new(Region::try_from("eu-central-1").unwrap(), roles, assume);
    let (answer, sent) = exchange(&layer, by(ada()), fine).await;
    let reason = "no role is mapped to the caller's claims".into();
    assert_eq!(fault(&answer.unwrap_err()), CredentialErrorKind::Rejected { reason });
    assert!(sent.is_empty());
}

#[tokio::test]
async fn sts_errors_become_fixed_codes() {
    let rows = [
        (
            AssumeError::Rejected { code: "AccessDenied".into() },
            CredentialErrorKind::Rejected { reason: "AccessDenied".into() },
        ),
        (
            AssumeError::Unavailable { reason: "STS failed" },
            CredentialErrorKind::Unavailable { reason: "STS failed" },
        ),
    ];
    for (error, expected) in rows {
        let failing = move |_: Arc<RoleSession>, _: SecretString| {
            std::future::ready(Err::<Credentials, _>(error.clone()))
        };
        let (answer, sent) = exchange(&layer(failing), by(ada()), fine).await;
        let error = answer.unwrap_err();
        assert!(!format!("{error} {error:?}").contains("canary"), "{error:?}");
        assert_eq!(fault(&error), expected);
        assert!(sent.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn credentials_time_out() {
    let silent = |_: Arc<RoleSession>, _: SecretString| {
        std::future::pending::<Result<Credentials, AssumeError>>()
    };
    let began = tokio::time::Instant::now();
    let layer = layer(silent).timeout(Duration::from_secs(4));
    let (answer, sent) = exchange(&layer, by(ada()), fine).await;
    assert!(matches!(fault(&answer.unwrap_err()), CredentialErrorKind::Unavailable { .. }));
    assert_eq!((began.elapsed().as_secs(), sent.len()), (4, 0));
}

#[tokio::test]
async fn rejects_expired_credentials() {
    let old = |_: Arc<RoleSession>, _: SecretString| {
        let until = SystemTime::UNIX_EPOCH + Duration::from_secs(WHEN);
        let made = Credentials::new("A", &"s".into(), &"t".into(), until).unwrap();
        std::future::ready(Ok::<_, AssumeError>(made))
    };
    let (answer, sent) = exchange(&layer(old), by(ada()), fine).await;
    assert!(matches!(fault(&answer.unwrap_err()), CredentialErrorKind::Unavailable { .. }));
    assert!(sent.is_empty());
}

fn forbidden(body: &'static str) -> TestResponse {
    let mut answer = Response::new(Full::new(Bytes::from_static(body.as_bytes())));
    *answer.status_mut() = StatusCode::FORBIDDEN;
    answer
}

#[tokio::test]
async fn retries_once_with_renewed_credentials() {
    let bodies = [
        "<Error><Code>ExpiredToken</Code></Error>",
        "{\"__type\":\"com.amazonaws#ExpiredTokenException\"}",
        "{\"code\":\"InvalidClientTokenId\"}",
        "{\"__type\":\"UnrecognizedClientException\"}",
    ];
    for body in bodies {
        let (assume, calls) = sts();
        let answer = move |place: usize| if place == 0 { forbidden(body) } else { fine(place) };
        let (answer, sent) = exchange(&layer(assume), by(ada()), answer).await;
        assert_eq!(answer.unwrap().body(), "fine");
        let ids: Vec<_> = sent.iter().map(|sent| key_id(sent.headers())).collect();
        assert_eq!(ids, ["admin.ada.0", "admin.ada.1"]);
        assert_ne!(sent[0].headers()["authorization"], sent[1].headers()["authorization"]);
        assert_eq!(sent[1].headers().get_all("x-amz-security-token").iter().count(), 1);
        assert_eq!(calls.load(Ordering::SeqCst), 2);
    }
}

#[tokio::test]
async fn retry_has_its_own_signature_date() {
    let (assume, _) = sts();
    let time = clock();
    let layer = layer(assume).clock(time.clone());
    let answer = move |place: usize| {
        time.advance(Duration::from_secs(61));
        if place == 0 { forbidden("ExpiredToken") } else { fine(place) }
    };
    let (_, sent) = exchange(&layer, by(ada()), answer).await;
    let dates: Vec<_> = sent.iter().map(|sent| &sent.headers()["x-amz-date"]).collect();
    assert_eq!(dates, ["20150830T123600Z", "20150830T123701Z"]);
}

#[tokio::test]
async fn forwards_final_rejections() {
    let (assume, calls) = sts();
    let denied = "{\"code\":\"AccessDeniedException\"}";
    let (answer, sent) = exchange(&layer(assume), by(ada()), move |_| forbidden(denied)).await;
    let answer = answer.unwrap();
    assert_eq!(
        (answer.status(), answer.body().as_ref()),
        (StatusCode::FORBIDDEN, denied.as_bytes())
    );
    assert_eq!((sent.len(), calls.load(Ordering::SeqCst)), (1, 1));

    let (assume, _) = sts();
    let expired = "ExpiredToken";
    let (answer, sent) = exchange(&layer(assume), by(ada()), move |_| forbidden(expired)).await;
    assert_eq!(answer.unwrap().body(), expired);
    assert_eq!(sent.len(), 2, "one retry");

    // The cache keeps credentials below its minimum age, so a retry would send the same credentials again.
    let (assume, calls) = sts();
    let layer = layer(CredentialCache::new(assume, 16, clock()));
    let (answer, sent) = exchange(&layer, by(ada()), move |_| forbidden(expired)).await;
    assert_eq!(answer.unwrap().body(), expired);
    assert_eq!((sent.len(), calls.load(Ordering::SeqCst)), (1, 1));
}

#[tokio::test]
async fn error_type_header_avoids_buffering() {
    let named = |name: &'static str| {
        move |place: usize| {
            let mut answer = forbidden("x");
            if place == 0 {
                answer.headers_mut().insert("x-amzn-errortype", name.parse().unwrap());
            }
            answer
        }
    };
    for (name, requests) in [
        ("ExpiredTokenException:http://internal.amazon.com/coral/", 2),
        ("AccessDeniedException:http://x/ExpiredToken", 1),
    ] {
        let (assume, _) = sts();
        let (answer, sent) = exchange(&layer(assume), by(ada()), named(name)).await;
        assert_eq!((answer.unwrap().body().as_ref(), sent.len()), (&b"x"[..], requests), "{name}");
    }
    let long: &'static str = "ExpiredToken".repeat(2000).leak();
    let (assume, _) = sts();
    let (answer, sent) = exchange(&layer(assume), by(ada()), move |_| forbidden(long)).await;
    assert_eq!((answer.unwrap().body().len(), sent.len()), (24_000, 1));
}

#[tokio::test]
async fn signs_bodies_up_to_ten_mebibytes() {
    let of = |length: usize| {
        let mut request = by(ada());
        *request.body_mut() = Full::new(Bytes::from(vec![b' '; length]));
        request
    };
    let (assume, calls) = sts();
    let layer = layer(assume);
    let (answer, _) = exchange(&layer, of(10 << 20), fine).await;
    assert!(answer.is_ok());
    let (answer, sent) = exchange(&layer, of((10 << 20) + 1), fine).await;
    let error = answer.unwrap_err();
    assert!(matches!(
        cause_ref::<SigningError>(error.as_ref()),
        Some(SigningError::TooLarge { limit: 10_485_760 })
    ));
    // The fault is `Request`: the cause is the request, not the backend.
    let fault = cause_ref::<CredentialError>(error.as_ref()).map(|error| error.kind.clone());
    assert_eq!(
        fault,
        Some(CredentialErrorKind::Request { reason: "its body is larger than 10 MiB" })
    );
    assert!(sent.is_empty());
    assert_eq!(calls.load(Ordering::SeqCst), 1, "not asked for it");
}

#[tokio::test]
async fn forwards_inner_readiness() {
    let (assume, _) = sts();
    let (mut service, mut handle) = mock::spawn_with(|inner: mock::Mock<Sent, TestResponse>| {
        layer(assume.clone()).layer(inner)
    });
    handle.allow(0);
    assert_pending!(service.poll_ready());
    handle.allow(1);
    assert_ready_ok!(service.poll_ready());
    let answering = service.call(by(ada()));
    let serving = async {
        let (_, send) = handle.next_request().await.unwrap();
        send.send_response(fine(0));
    };
    let (answer, ()) = tokio::join!(answering, serving);
    assert_eq!(answer.unwrap().status(), 200);
}

#[tokio::test]
async fn debug_output_contains_no_secrets() {
    let (assume, _) = sts();
    let layer = layer(CredentialCache::new(assume, 16, clock()));
    let service = layer
        .clone()
        .layer(tower::service_fn(|_: Sent| std::future::ready(Ok::<_, BoxError>(fine(0)))));
    service.clone().oneshot(by(ada())).await.unwrap();
    let credentials =
        Credentials::new("A", &"canary-secret".into(), &"canary-token".into(), SystemTime::now());
    let shown = format!("{layer:?} {service:?} {credentials:?} {:?}", roles());
    assert!(!shown.contains("canary"), "{shown}");
    assert!(shown.contains("admin"), "{shown}");
}

/// Upstream tokens with the value `old`, and the given result for a renewal.
struct Renewing(Result<&'static str, UpstreamError>);

impl UpstreamTokens for Renewing {
    fn token<'a>(&'a self, _: &'a str, _: UpstreamKind) -> UpstreamFuture<'a> {
        let token = UpstreamToken { value: "old".into(), expires_at: None };
        Box::pin(std::future::ready(Ok(token)))
    }

    fn refresh<'a>(
        &'a self,
        provider: &'a str,
        kind: UpstreamKind,
        refused: &'a SecretString,
    ) -> UpstreamFuture<'a> {
        assert_eq!(
            (provider, kind, refused.expose_secret()),
            ("corp", UpstreamKind::Access, "old")
        );
        let held = self.0.map(|value| UpstreamToken { value: value.into(), expires_at: None });
        Box::pin(std::future::ready(held))
    }
}

#[tokio::test]
async fn refreshes_rejected_upstream_token_once() {
    let code = |code: &str| CredentialErrorKind::Rejected { reason: code.into() };
    let absent = CredentialErrorKind::NoUpstreamToken { provider: "corp".into() };
    for (held, refusal, calls, outcome) in [
        (Ok("new"), "InvalidIdentityToken", 2, None),
        (Ok("new"), "ExpiredTokenException", 2, None),
        (Ok("old"), "ExpiredTokenException", 2, Some(code("ExpiredTokenException"))),
        (Ok("new"), "AccessDenied", 1, Some(code("AccessDenied"))),
        (
            Err(UpstreamError::Unavailable),
            "InvalidIdentityToken",
            1,
            Some(code("InvalidIdentityToken")),
        ),
        (Err(UpstreamError::NotLinked), "InvalidIdentityToken", 1, Some(absent)),
    ] {
        let asked = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&asked);
        let assume = move |_: Arc<RoleSession>, token: SecretString| {
            counted.fetch_add(1, Ordering::SeqCst);
            let error = AssumeError::Rejected { code: refusal.into() };
            let until = SystemTime::UNIX_EPOCH + Duration::from_secs(WHEN + 3600);
            let made = Credentials::new("id", &CANARY.into(), &CANARY.into(), until).unwrap();
            let refused = token.expose_secret() == "old";
            std::future::ready(if refused { Err(error) } else { Ok(made) })
        };
        let keeper: Arc<dyn UpstreamTokens> = Arc::new(Renewing(held));
        let caller = Identity::builder("https://issuer", "ada").upstream(keeper).build();
        let layer = layer(assume).subject(Subject::Upstream("corp".into()));
        let (answer, sent) = exchange(&layer, by(caller), fine).await;
        assert_eq!(asked.load(Ordering::SeqCst), calls, "{refusal} {held:?}");
        assert_eq!(sent.len(), usize::from(outcome.is_none()));
        assert_eq!(answer.err().map(|error| fault(&error)), outcome, "{refusal} {held:?}");
    }
}

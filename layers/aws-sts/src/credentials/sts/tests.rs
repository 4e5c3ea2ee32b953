use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use tower::service_fn;
use tower_service::Service;
use vmcp_core::{Body, BoxError};
use vmcp_test_support::LogCapture;

use super::*;
use crate::{RoleArn, SessionDuration, SessionName};

const IN_2030: u64 = 1_893_456_000;
const CANARY: &str = "canary.web.identity";
const GOOD: &str = "<AssumeRoleWithWebIdentityResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\">\
<AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>ASIAEXAMPLE</AccessKeyId>\
<SecretAccessKey>canary-secret</SecretAccessKey><SessionToken>canary-session</SessionToken>\
<Expiration>2030-01-01T00:00:00Z</Expiration></Credentials></AssumeRoleWithWebIdentityResult>\
</AssumeRoleWithWebIdentityResponse>";

type RecordedRequests = Arc<Mutex<Vec<(http::request::Parts, HashMap<String, String>)>>>;

fn region(name: &str) -> Region {
    Region::try_from(name).unwrap()
}

fn role_session() -> Arc<RoleSession> {
    let role = RoleArn::try_from("arn:aws:iam::123456789012:role/reader").unwrap();
    let session = SessionName::from_text("ada").unwrap();
    Arc::new(RoleSession::new(role, session, SessionDuration::default(), &["i", "s"]))
}

fn fake_client(
    seen: &RecordedRequests,
    status: u16,
    answer: &'static str,
) -> impl Service<Request<Body>, Response = Response<Full<Bytes>>, Error = BoxError, Future: Send>
+ Clone
+ Send
+ 'static {
    let seen = Arc::clone(seen);
    service_fn(move |request: Request<Body>| {
        let seen = Arc::clone(&seen);
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await?.to_bytes();
            let form = form(&body);
            seen.lock().unwrap().push((parts, form));
            let response = Response::builder().status(status).header("content-type", "text/xml");
            Ok::<_, BoxError>(response.body(Full::new(Bytes::from_static(answer.as_bytes())))?)
        }
    })
}

fn form(body: &[u8]) -> HashMap<String, String> {
    let text = String::from_utf8(body.to_vec()).unwrap();
    let pairs = text.split('&').map(|pair| {
        let (name, value) = pair.split_once('=').unwrap();
        (name.to_owned(), value.replace("%3A", ":").replace("%2F", "/"))
    });
    pairs.collect()
}

async fn assume(sts: &Sts, token: &str) -> Result<Arc<Credentials>, AssumeError> {
    sts.assume(&role_session(), &token.into()).await
}

#[tokio::test]
async fn sends_unsigned_request_with_role_session() {
    let seen = RecordedRequests::default();
    let sts = Sts::new(&region("eu-central-1"), fake_client(&seen, 200, GOOD));
    let credentials = assume(&sts, CANARY).await.unwrap();
    assert_eq!(credentials.access_key_id(), "ASIAEXAMPLE");
    let expected = SystemTime::UNIX_EPOCH + Duration::from_secs(IN_2030);
    assert_eq!(credentials.expires_at(), expected);

    let (parts, form) = seen.lock().unwrap().pop().unwrap();
    assert_eq!(parts.uri, "https://sts.eu-central-1.amazonaws.com/");
    assert!(!parts.headers.contains_key("authorization"));
    let expected = [
        ("Action", "AssumeRoleWithWebIdentity"),
        ("Version", "2011-06-15"),
        ("RoleArn", "arn:aws:iam::123456789012:role/reader"),
        ("RoleSessionName", "ada"),
        ("WebIdentityToken", CANARY),
        ("DurationSeconds", "3600"),
    ];
    let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(form, HashMap::from(expected));
}

#[tokio::test]
async fn uses_endpoint_of_region() {
    for (name, host) in [
        ("us-east-1", "sts.us-east-1.amazonaws.com"),
        ("cn-north-1", "sts.cn-north-1.amazonaws.com.cn"),
        ("us-gov-west-1", "sts.us-gov-west-1.amazonaws.com"),
    ] {
        let seen = RecordedRequests::default();
        assume(&Sts::new(&region(name), fake_client(&seen, 200, GOOD)), CANARY).await.unwrap();
        let (parts, _) = seen.lock().unwrap().pop().unwrap();
        assert_eq!((parts.uri.scheme_str(), parts.uri.host()), (Some("https"), Some(host)));
    }
    let seen = RecordedRequests::default();
    let endpoint = Uri::from_static("http://127.0.0.1:4566");
    let sts = Sts::with_endpoint(&endpoint, &region("us-east-1"), fake_client(&seen, 200, GOOD));
    assume(&sts, CANARY).await.unwrap();
    assert_eq!(seen.lock().unwrap().pop().unwrap().0.uri, "http://127.0.0.1:4566/");
}

#[tokio::test]
async fn maps_sts_errors_to_fixed_texts() {
    macro_rules! error {
        ($code:literal) => {
            concat!(
                "<ErrorResponse><Error><Type>Sender</Type><Code>",
                $code,
                "</Code><Message>canary</Message></Error><RequestId>1</RequestId></ErrorResponse>"
            )
        };
    }
    let rejected = |code: &str| AssumeError::Rejected { code: code.into() };
    let unavailable = |reason| AssumeError::Unavailable { reason };
    let rows = [
        (400, error!("ExpiredTokenException"), rejected("ExpiredTokenException")),
        (400, error!("InvalidIdentityToken"), rejected("InvalidIdentityToken")),
        (403, error!("IDPRejectedClaim"), rejected("IDPRejectedClaim")),
        (403, error!("AccessDenied"), rejected("AccessDenied")),
        (403, error!("RegionDisabledException"), rejected("RegionDisabledException")),
        (403, error!("canary"), rejected("STS gave an unknown reason")),
        (403, "<html>canary</html>", rejected("STS gave an unknown reason")),
        (
            400,
            error!("IDPCommunicationError"),
            unavailable("STS does not reach the identity provider"),
        ),
        (400, error!("Throttling"), unavailable("STS is asked too often")),
        (429, "", unavailable("STS is asked too often")),
        (500, error!("InternalFailure"), unavailable("STS failed")),
        (503, "<html>canary</html>", unavailable("STS failed")),
        (302, "", unavailable("STS failed")),
        (200, "<html>canary</html>", unavailable("STS gave an answer that cannot be read")),
        (200, "{\"canary\":1}", unavailable("STS gave an answer that cannot be read")),
        (200, "", unavailable("STS gave an answer that cannot be read")),
    ];
    for (status, response, expected) in rows {
        let seen = RecordedRequests::default();
        let sts = Sts::new(&region("us-east-1"), fake_client(&seen, status, response));
        let error = assume(&sts, CANARY).await.unwrap_err();
        assert!(!format!("{error} {error:?}").contains("canary"), "{error:?}");
        assert_eq!(error, expected, "{status} {response}");
        assert_eq!(seen.lock().unwrap().len(), 1, "asked once");
    }
}

#[tokio::test]
async fn rejects_response_without_usable_credentials() {
    let unusable = [
        GOOD.replace("ASIAEXAMPLE", ""),
        GOOD.replace("canary-secret", "a b"),
        GOOD.replace("canary-session", "a&#10;b"),
        GOOD.replace("<Expiration>2030-01-01T00:00:00Z</Expiration>", ""),
        GOOD.replace("2030-01-01T00:00:00Z", "tomorrow"),
        "<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult/></AssumeRoleWithWebIdentityResponse>"
            .to_owned(),
    ];
    for response in unusable {
        let response: &'static str = response.leak();
        let sts = Sts::new(
            &region("us-east-1"),
            fake_client(&RecordedRequests::default(), 200, response),
        );
        let error = assume(&sts, CANARY).await.unwrap_err();
        assert!(matches!(error, AssumeError::Unavailable { .. }), "{response}: {error:?}");
    }
}

#[tokio::test]
async fn rejects_oversized_responses() {
    let response: &'static str = format!("{GOOD}{}", " ".repeat(64 << 10)).leak();
    let sts =
        Sts::new(&region("us-east-1"), fake_client(&RecordedRequests::default(), 200, response));
    let expected = AssumeError::Unavailable { reason: "STS cannot be reached" };
    assert_eq!(assume(&sts, CANARY).await.unwrap_err(), expected);
}

#[tokio::test(start_paused = true)]
async fn times_out_without_response() {
    let silent = service_fn(|_: Request<Body>| {
        std::future::pending::<Result<Response<Full<Bytes>>, BoxError>>()
    });
    let sts = Sts::new(&region("us-east-1"), silent).timeout(Duration::from_secs(3));
    let began = tokio::time::Instant::now();
    let expected = AssumeError::Unavailable { reason: "STS did not answer in time" };
    assert_eq!(assume(&sts, CANARY).await.unwrap_err(), expected);
    assert_eq!(began.elapsed().as_secs(), 3);
}

#[tokio::test]
async fn client_errors_are_unavailable() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let broken = service_fn(move |_: Request<Body>| {
        counted.fetch_add(1, Ordering::Relaxed);
        std::future::ready(Err::<Response<Full<Bytes>>, BoxError>("canary".into()))
    });
    let error = assume(&Sts::new(&region("us-east-1"), broken), CANARY).await.unwrap_err();
    assert_eq!(error, AssumeError::Unavailable { reason: "STS cannot be reached" });
    assert_eq!(calls.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn rejects_tokens_of_invalid_length() {
    for token in ["abc".to_owned(), "a".repeat(20_001)] {
        let seen = RecordedRequests::default();
        let sts = Sts::new(&region("us-east-1"), fake_client(&seen, 200, GOOD));
        assert!(matches!(assume(&sts, &token).await, Err(AssumeError::Rejected { .. })));
        assert!(seen.lock().unwrap().is_empty());
    }
}

#[tokio::test]
async fn secrets_never_reach_trace_log() {
    let log = LogCapture::current_thread();
    let seen = RecordedRequests::default();
    let inner = fake_client(&seen, 200, GOOD);
    let talkative = service_fn(move |request: Request<Body>| {
        tracing::info!("the client is heard");
        inner.clone().call(request)
    });
    let sts = Sts::new(&region("us-east-1"), talkative);
    let credentials = assume(&sts, CANARY).await.unwrap();
    tracing::info!(?credentials, ?sts, "done");
    let log = log.text();
    assert!(log.contains("the client is heard") && log.contains("done"), "{log}");
    assert!(!log.contains("canary"), "{log}");
}

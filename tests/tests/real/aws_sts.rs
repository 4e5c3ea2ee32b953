//! Request signing with credentials of an STS, against independent implementations.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use serde_json::Value;
use tower::{Layer, Service, ServiceExt, service_fn};
use vmcp_aws_sts::{
    AwsStsLayer, CredentialCache, Region, RoleArn, RoleMapping, RoleMappings, RoleMatch, Sts,
};
use vmcp_core::{Body, BoxError, Caller, Clock, Identity};
use vmcp_egress::{ClientSettings, Egress, FetchPolicy, Fetcher};
use vmcp_tests::counterparts::{self, AccessKeys, SignedService, skipped};

/// Credentials issued by STS in the order of the calls, each with its session name.
type IssuedKeys = Arc<Mutex<Vec<(String, AccessKeys)>>>;

const REGION: &str = "eu-central-1";

/// Returns a client that records the responses of STS.
fn noting(
    given: &IssuedKeys,
) -> impl Service<Request<Body>, Response = Response<Body>, Error = BoxError, Future: Send>
+ Clone
+ Send
+ 'static {
    let fetcher = Fetcher::new(Egress::default(), FetchPolicy::configured()).unwrap();
    let given = Arc::clone(given);
    service_fn(move |request: Request<Body>| {
        let (fetcher, given) = (fetcher.clone(), Arc::clone(&given));
        async move {
            let (parts, body) = fetcher.oneshot(request).await?.into_parts();
            let bytes = body.collect().await?.to_bytes();
            let text = String::from_utf8(bytes.to_vec())?;
            let of = |tag: &str| {
                let (_, rest) = text.split_once(&format!("<{tag}>"))?;
                Some(rest.split_once("</")?.0.to_owned())
            };
            if let (Some(id), Some(secret), Some(token), Some(arn)) =
                (of("AccessKeyId"), of("SecretAccessKey"), of("SessionToken"), of("Arn"))
            {
                let keys = BTreeMap::from([(id, [secret, token])]);
                given.lock().unwrap().push((arn, keys));
            }
            Ok::<_, BoxError>(Response::from_parts(parts, Body::from(bytes)))
        }
    })
}

fn arn(name: &str) -> RoleArn {
    RoleArn::try_from(&*format!("arn:aws:iam::123456789012:role/{name}")).unwrap()
}

fn layer(sts: &counterparts::Sts, given: &IssuedKeys) -> AwsStsLayer<CredentialCache<Sts>> {
    let region = Region::try_from(REGION).unwrap();
    let admins = RoleMapping {
        role: arn("admin"),
        matches: RoleMatch::Matcher("'admins' in claims.groups".to_owned()),
        priority: None,
    };
    let roles = RoleMappings::new(Some(arn("reader")), vec![admins], "groups").unwrap();
    let sts = Sts::with_endpoint(&sts.url().parse().unwrap(), &region, noting(given));
    AwsStsLayer::new(region, roles, CredentialCache::new(sts, 100, Clock::system()))
}

fn caller(name: &str, groups: &[&str]) -> Caller {
    let Value::Object(claims) = serde_json::json!({ "sub": name, "groups": groups }) else {
        panic!("claims are an object")
    };
    // STS receives this token, and the role follows from its claims.
    let payload = BASE64_URL_SAFE_NO_PAD.encode(Value::from(claims.clone()).to_string());
    let token = format!("e30.{payload}.c").into();
    Caller::User(Identity::builder("https://idp.example", name).claims(claims).token(token).build())
}

async fn send<S>(service: &S, method: &str, url: &str, body: &str, caller: Caller) -> (u16, Value)
where
    S: Service<Request<Full<Bytes>>, Response = Response<Body>, Error = BoxError> + Clone,
{
    let mut request = Request::builder()
        .method(method)
        .uri(url)
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", "2025-11-25")
        .header("authorization", "Bearer inbound")
        .body(Full::new(Bytes::copy_from_slice(body.as_bytes())))
        .unwrap();
    request.extensions_mut().insert(caller);
    let response = service.clone().oneshot(request).await.unwrap();
    let status = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&bytes).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn independent_verifier_accepts_signature_with_sts_credentials() {
    if skipped() {
        return;
    }
    let sts = counterparts::Sts::start().await.unwrap();
    let service = SignedService::start(REGION, "aws-mcp").await.unwrap();
    let given = IssuedKeys::default();
    let client = Egress::default()
        .client(&service.url().parse().unwrap(), ClientSettings::allowing_private_addresses())
        .unwrap();
    let signing = layer(&sts, &given).layer(client);
    let signing = signing.map_response(|response| response.map(Body::wrap));
    let url = service.url();

    // The service does not know the first credentials yet.
    let (status, answer) = send(&signing, "POST", &url, "{}", caller("ada", &["admins"])).await;
    assert_eq!((status, &answer["code"]), (403, &"InvalidClientTokenId".into()));
    let (session, mut keys) = given.lock().unwrap().pop().unwrap();
    assert!(session.ends_with(":assumed-role/admin/ada"), "{session}");
    service.knows(&keys).unwrap();
    let ada = keys.keys().next().unwrap().clone();

    let rows = [
        ("POST", "mcp", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}"),
        ("POST", "runtimes/arn%3Aaws%3Ax%2Fy/invocations?qualifier=A&b=%20c&a=1", "{\"x\":\"ä\"}"),
        ("GET", "mcp", ""),
        ("DELETE", "mcp?x=", ""),
        ("GET", "a//b/../c/./d~e_f-g.h", ""),
    ];
    for (method, path, body) in rows {
        let (status, answer) =
            send(&signing, method, &format!("{url}{path}"), body, caller("ada", &["admins"])).await;
        assert_eq!(status, 200, "{method} {path}: {answer}");
        assert_eq!((&answer["key"], &answer["body"]), (&ada.as_str().into(), &body.into()));
        let covered = answer["covered"].as_array().unwrap();
        assert!(covered.contains(&"mcp-protocol-version".into()), "{answer}");
    }

    // Another user gets another role and other credentials.
    send(&signing, "GET", &url, "", caller("auth0|bob", &[])).await;
    let (session, bobs) = given.lock().unwrap().pop().unwrap();
    assert!(session.contains(":assumed-role/reader/auth0-bob-"), "{session}");
    keys.extend(bobs.clone());
    service.knows(&keys).unwrap();
    let (status, answer) = send(&signing, "GET", &url, "", caller("auth0|bob", &[])).await;
    assert_eq!((status, answer["key"].as_str()), (200, bobs.keys().next().map(String::as_str)));
    let (_, answer) = send(&signing, "GET", &url, "", caller("ada", &["admins"])).await;
    assert_eq!(answer["key"], ada.as_str());
    assert!(given.lock().unwrap().is_empty(), "nobody asked STS again");
}

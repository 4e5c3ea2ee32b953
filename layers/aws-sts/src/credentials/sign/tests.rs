//! Tests of signatures. botocore 1.44.5 (`botocore.auth.SigV4Auth`) computed the expected values.

use std::time::Duration;

use http::Request;

use super::*;

const WHEN: u64 = 1_440_938_160;

fn sign_with(
    mut request: Request<&'static str>,
    token: &str,
    region: &str,
    service: &str,
) -> Result<(Parts, String), SigningError> {
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(WHEN);
    let secret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY".into();
    let credentials = Credentials::new("AKIDEXAMPLE", &secret, &token.into(), now).unwrap();
    let region = Region::try_from(region).unwrap();
    let service = ServiceName::try_from(service).unwrap();
    let body = std::mem::take(request.body_mut());
    let (mut parts, ()) = request.map(|_| ()).into_parts();
    credentials.sign(&mut parts, body.as_bytes(), (&region, &service), now)?;
    let authorization = parts.headers[AUTHORIZATION].to_str().unwrap().to_owned();
    Ok((parts, authorization))
}

#[test]
fn signs_get_like_botocore() {
    let request = Request::get("https://example.amazonaws.com/").body("").unwrap();
    let (parts, authorization) = sign_with(request, "token", "us-east-1", "aws-mcp").unwrap();
    assert_eq!(
        authorization,
        "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/aws-mcp/aws4_request, \
         SignedHeaders=host;x-amz-content-sha256;x-amz-date;x-amz-security-token, \
         Signature=2663a398ff3b1542b35d31a2e23243e5c6f97368d7de870864fa95b04fabdd2b"
    );
    assert_eq!(parts.headers["x-amz-date"], "20150830T123600Z");
}

#[test]
fn signs_encoded_path_and_query_like_botocore() {
    let target = "https://bedrock-agentcore.us-east-1.amazonaws.com/runtimes/\
        arn%3Aaws%3Abedrock-agentcore%3Aus-east-1%3A123456789012%3Aruntime%2Fx/invocations\
        ?qualifier=DEFAULT&a=b%20c";
    let request = Request::post(target)
        .header("content-type", "application/json")
        .header("mcp-session-id", "7")
        .header("accept", "not covered")
        .header("user-agent", "not covered")
        .body("{\"jsonrpc\":\"2.0\"}")
        .unwrap();
    let (parts, authorization) =
        sign_with(request, "token", "us-east-1", "bedrock-agentcore").unwrap();
    let signature = "5d364602cd72b2914db277349584f934449d1123811386911094f2fcae45d5f4";
    assert!(authorization.ends_with(signature), "{authorization}");
    assert_eq!(parts.uri, target, "the request stays as it is");
}

#[test]
fn signs_unusual_requests_like_botocore() {
    let request = Request::delete("http://127.0.0.1:4566/a/../b//c/./d?B=2&A=1&A=0")
        .header("mcp-protocol-version", " 2026-07-28   x ")
        .body("")
        .unwrap();
    let (_, authorization) = sign_with(request, "to/ken+=", "eu-central-1", "aws-mcp").unwrap();
    let signature = "033f8869ceae1e52a1300927f4ecf11d4db4e3da674e1b1ad6edd2f84a4f4122";
    assert!(authorization.ends_with(signature), "{authorization}");
}

#[test]
fn replaces_signature_headers_of_request() {
    let signed = |headers: &[(&str, &str)]| {
        let mut request = Request::get("https://example.amazonaws.com/");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body("").unwrap();
        let (parts, authorization) = sign_with(request, "token", "us-east-1", "aws-mcp").unwrap();
        assert_eq!(parts.headers.get_all("x-amz-date").iter().count(), 1);
        authorization
    };
    let forged = [
        ("authorization", "AWS4-HMAC-SHA256 Credential=other"),
        ("x-amz-date", "19700101T000000Z"),
        ("x-amz-security-token", "other"),
        ("x-amz-content-sha256", "UNSIGNED-PAYLOAD"),
    ];
    assert_eq!(signed(&forged), signed(&[]));
}

#[test]
fn signs_host_as_sent() {
    for (target, from_header, expected) in [
        ("https://Example.com:443/", None, "example.com"),
        ("http://example.com:80/", None, "example.com"),
        ("http://example.com:443/", None, "example.com:443"),
        ("https://user:secret@example.com:8443/", None, "example.com:8443"),
        ("https://[::1]:8443/", None, "[::1]:8443"),
        ("https://example.com/", Some("other.example.com"), "example.com"),
        ("/mcp", Some("example.com:8080"), "example.com:8080"),
    ] {
        let mut request = Request::get(target);
        if let Some(from_header) = from_header {
            request = request.header("host", from_header);
        }
        let (parts, _) =
            sign_with(request.body("").unwrap(), "token", "us-east-1", "aws-mcp").unwrap();
        assert_eq!(parts.headers["host"], expected, "{target}");
        assert_eq!(parts.headers.get_all("host").iter().count(), 1);
    }
}

#[test]
fn rejects_request_without_host() {
    let request = Request::get("/mcp").body("").unwrap();
    let error = sign_with(request, "token", "us-east-1", "aws-mcp").unwrap_err();
    assert!(matches!(error, SigningError::NoHost));
}

#[test]
fn skips_non_text_headers() {
    let odd = HeaderValue::from_bytes(b"\xff").unwrap();
    let request = Request::get("https://example.com/").header("mcp-name", odd).body("").unwrap();
    let (_, authorization) = sign_with(request, "token", "us-east-1", "aws-mcp").unwrap();
    assert!(!authorization.contains("mcp-name"), "{authorization}");
}

use http::HeaderValue;
use proptest::prelude::*;

use super::*;

const URN: &str = "urn:ietf:params:oauth:token-type:access_token";

fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_000)
}

fn parse(status: u16, kind: &str, body: &str) -> Result<BearerToken, ExchangeError> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_str(kind).unwrap());
    parse_response(StatusCode::from_u16(status).unwrap(), &headers, body.as_bytes(), now())
}

fn json(status: u16, body: &str) -> Result<BearerToken, ExchangeError> {
    parse(status, "application/json", body)
}

fn code(outcome: Result<BearerToken, ExchangeError>) -> String {
    match outcome.unwrap_err() {
        ExchangeError::Rejected { code } => code.into(),
        ExchangeError::Unavailable(error) => panic!("{error}"),
    }
}

fn endpoint_error(outcome: Result<BearerToken, ExchangeError>) -> EndpointError {
    match outcome.unwrap_err() {
        ExchangeError::Unavailable(error) => error,
        ExchangeError::Rejected { code } => panic!("{code}"),
    }
}

fn expiry(expires_in: &str) -> Option<u64> {
    let body = format!(
        r#"{{"access_token":"t","token_type":"Bearer","issued_token_type":"{URN}","expires_in":{expires_in}}}"#
    );
    let at = json(200, &body).unwrap().expires_at()?;
    Some(at.duration_since(now()).unwrap().as_secs())
}

#[test]
fn accepts_bearer_type_in_any_case() {
    for kind in ["Bearer", "bearer", "BEARER"] {
        let body = format!(r#"{{"access_token":"abc","token_type":"{kind}","x":[1]}}"#);
        let token = parse(200, "Application/JSON; charset=utf-8", &body).unwrap();
        assert_eq!(token.value(), "Bearer abc");
        assert!(token.value().is_sensitive());
    }
}

#[test]
fn rejects_other_token_types() {
    for kind in [r#""mac""#, r#""N_A""#, r#""DPoP""#, r#""""#, "null"] {
        let body = format!(r#"{{"access_token":"abc","token_type":{kind}}}"#);
        assert!(matches!(endpoint_error(json(200, &body)), EndpointError::WrongType), "{kind}");
    }
    for issued in ["id_token", "refresh_token", "saml2"] {
        let body = format!(
            r#"{{"access_token":"abc","token_type":"Bearer","issued_token_type":"urn:ietf:params:oauth:token-type:{issued}"}}"#
        );
        assert!(matches!(endpoint_error(json(200, &body)), EndpointError::WrongType), "{issued}");
    }
    assert!(matches!(
        endpoint_error(json(200, r#"{"access_token":"abc"}"#)),
        EndpointError::WrongType
    ));
}

#[test]
fn rejects_responses_without_usable_token() {
    for token in [r#""""#, "null", r#""a\r\nX-Admin: 1""#, r#""a b""#, r#""a\u0000""#, r#""ü""#] {
        let body = format!(r#"{{"access_token":{token},"token_type":"Bearer"}}"#);
        assert!(matches!(endpoint_error(json(200, &body)), EndpointError::NoToken), "{token}");
    }
    let long = format!(r#"{{"access_token":"{}","token_type":"Bearer"}}"#, "a".repeat(16_385));
    assert!(matches!(endpoint_error(json(200, &long)), EndpointError::NoToken));
    for body in ["", "[]", "null", "{", r#"{"access_token":5}"#] {
        assert!(matches!(endpoint_error(json(200, body)), EndpointError::Malformed), "{body}");
    }
}

#[test]
fn rejects_duplicate_members() {
    let body = r#"{"access_token":"a","access_token":"b","token_type":"Bearer"}"#;
    assert!(matches!(endpoint_error(json(200, body)), EndpointError::Malformed));
}

#[test]
fn rejects_html_pages() {
    let page = "<html><body>access_token</body></html>";
    assert!(matches!(endpoint_error(parse(200, "text/html", page)), EndpointError::NotJson));
    let token = r#"{"access_token":"a","token_type":"Bearer"}"#;
    assert!(matches!(endpoint_error(parse(200, "text/plain", token)), EndpointError::NotJson));
    assert!(matches!(endpoint_error(parse(400, "text/html", page)), EndpointError::Status(_)));
}

#[test]
fn parses_expiry_as_number_or_string() {
    assert_eq!(expiry("3600"), Some(3600));
    assert_eq!(expiry(r#""3600""#), Some(3600));
    assert_eq!(expiry("3599.9"), Some(3599));
    assert_eq!(expiry("0"), Some(0));
    assert_eq!(expiry("-1"), Some(0));
    assert_eq!(expiry(r#""-1e400""#), Some(0));
    for nothing in ["null", r#""soon""#, r#""NaN""#, "[3600]", "true", "{}"] {
        assert_eq!(expiry(nothing), None, "{nothing}");
    }
    assert!(expiry("1e300").unwrap() >= 86_400);
    assert!(expiry("18446744073709551615").unwrap() >= 86_400);
}

#[test]
fn error_contains_code_but_no_description() {
    for known in [
        "invalid_grant",
        "invalid_request",
        "unauthorized_client",
        "invalid_target",
        "invalid_scope",
        "invalid_client",
        "interaction_required",
    ] {
        let body = format!(r#"{{"error":"{known}","error_description":"canary"}}"#);
        assert_eq!(code(json(400, &body)), known);
        // Some servers return errors with status 200.
        assert_eq!(code(json(200, &body)), known);
    }
}

#[test]
fn hides_invalid_error_codes() {
    for odd in ["canary-3f9a", "eyJhbGci.canary", r"\u001b[31mcanary", "", "Canary canary"] {
        let body = format!(r#"{{"error":"{odd}"}}"#);
        assert!(!code(json(400, &body)).contains("canary"), "{odd}");
    }
    let long = format!(r#"{{"error":"{}"}}"#, "a".repeat(41));
    assert!(code(json(401, &long)).contains(' '));
}

#[test]
fn server_errors_are_unavailable() {
    for status in [404, 429, 500, 502, 503] {
        assert!(matches!(
            endpoint_error(json(status, r#"{"error":"invalid_grant"}"#)),
            EndpointError::Status(_)
        ));
    }
    for error in ["temporarily_unavailable", "server_error"] {
        let body = format!(r#"{{"error":"{error}"}}"#);
        assert!(matches!(endpoint_error(json(400, &body)), EndpointError::ServerError));
    }
    assert!(matches!(endpoint_error(json(400, "{}")), EndpointError::Status(_)));
    assert!(matches!(endpoint_error(json(401, r#"{"error":7}"#)), EndpointError::Status(_)));
    for status in [301, 302, 307, 308] {
        assert!(matches!(endpoint_error(json(status, "{}")), EndpointError::Redirect));
    }
}

proptest! {
    #[test]
    fn every_accepted_token_fits_in_header(
        status in 200_u16..599,
        token in any::<String>(),
        kind in "(?i)bearer|mac|.*",
        expires_in in any::<f64>(),
    ) {
        let body = serde_json::json!({
            "access_token": token, "token_type": kind, "expires_in": expires_in,
        });
        if let Ok(exchanged) = json(status, &body.to_string()) {
            prop_assert_eq!(status, 200);
            prop_assert_eq!(exchanged.value().to_str().unwrap(), format!("Bearer {token}"));
        }
    }

    #[test]
    fn arbitrary_bytes_are_never_a_token(body in any::<Vec<u8>>()) {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        prop_assert!(parse_response(StatusCode::OK, &headers, &body, now()).is_err());
    }
}

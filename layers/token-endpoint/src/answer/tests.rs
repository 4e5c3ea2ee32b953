use http::HeaderValue;
use proptest::prelude::*;

use super::*;

const URN: &str = "urn:ietf:params:oauth:token-type:access_token";

fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_000)
}

fn answer(status: u16, kind: &str, body: &str) -> Result<Bearer, ExchangeFault> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_str(kind).unwrap());
    read(StatusCode::from_u16(status).unwrap(), &headers, body.as_bytes(), now())
}

fn json(status: u16, body: &str) -> Result<Bearer, ExchangeFault> {
    answer(status, "application/json", body)
}

fn code(outcome: Result<Bearer, ExchangeFault>) -> String {
    match outcome.unwrap_err() {
        ExchangeFault::Refused { code } => code.into(),
        ExchangeFault::Unavailable(outage) => panic!("{outage}"),
    }
}

fn outage(outcome: Result<Bearer, ExchangeFault>) -> Outage {
    match outcome.unwrap_err() {
        ExchangeFault::Unavailable(outage) => outage,
        ExchangeFault::Refused { code } => panic!("{code}"),
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
fn a_bearer_token_is_taken_however_its_type_is_written() {
    for kind in ["Bearer", "bearer", "BEARER"] {
        let body = format!(r#"{{"access_token":"abc","token_type":"{kind}","x":[1]}}"#);
        let token = answer(200, "Application/JSON; charset=utf-8", &body).unwrap();
        assert_eq!(token.value(), "Bearer abc");
        assert!(token.value().is_sensitive());
    }
}

#[test]
fn refuses_tokens_of_another_type() {
    for kind in [r#""mac""#, r#""N_A""#, r#""DPoP""#, r#""""#, "null"] {
        let body = format!(r#"{{"access_token":"abc","token_type":{kind}}}"#);
        assert!(matches!(outage(json(200, &body)), Outage::WrongType), "{kind}");
    }
    for issued in ["id_token", "refresh_token", "saml2"] {
        let body = format!(
            r#"{{"access_token":"abc","token_type":"Bearer","issued_token_type":"urn:ietf:params:oauth:token-type:{issued}"}}"#
        );
        assert!(matches!(outage(json(200, &body)), Outage::WrongType), "{issued}");
    }
    assert!(matches!(outage(json(200, r#"{"access_token":"abc"}"#)), Outage::WrongType));
}

#[test]
fn refuses_an_answer_without_a_usable_token() {
    for token in [r#""""#, "null", r#""a\r\nX-Admin: 1""#, r#""a b""#, r#""a\u0000""#, r#""ü""#] {
        let body = format!(r#"{{"access_token":{token},"token_type":"Bearer"}}"#);
        assert!(matches!(outage(json(200, &body)), Outage::NoToken), "{token}");
    }
    let long = format!(r#"{{"access_token":"{}","token_type":"Bearer"}}"#, "a".repeat(16_385));
    assert!(matches!(outage(json(200, &long)), Outage::NoToken));
    for body in ["", "[]", "null", "{", r#"{"access_token":5}"#] {
        assert!(matches!(outage(json(200, body)), Outage::Malformed), "{body}");
    }
}

#[test]
fn refuses_an_answer_that_says_something_twice() {
    let body = r#"{"access_token":"a","access_token":"b","token_type":"Bearer"}"#;
    assert!(matches!(outage(json(200, body)), Outage::Malformed));
}

#[test]
fn a_page_is_no_answer() {
    let page = "<html><body>access_token</body></html>";
    assert!(matches!(outage(answer(200, "text/html", page)), Outage::NotJson));
    let token = r#"{"access_token":"a","token_type":"Bearer"}"#;
    assert!(matches!(outage(answer(200, "text/plain", token)), Outage::NotJson));
    assert!(matches!(outage(answer(400, "text/html", page)), Outage::Status(_)));
}

#[test]
fn an_expiry_is_a_number_in_either_form() {
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
fn a_refusal_has_its_code_and_never_its_description() {
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
        // Some answer so with status 200.
        assert_eq!(code(json(200, &body)), known);
    }
}

#[test]
fn a_code_that_is_none_is_not_passed_on() {
    for odd in ["canary-3f9a", "eyJhbGci.canary", r"\u001b[31mcanary", "", "Canary canary"] {
        let body = format!(r#"{{"error":"{odd}"}}"#);
        assert!(!code(json(400, &body)).contains("canary"), "{odd}");
    }
    let long = format!(r#"{{"error":"{}"}}"#, "a".repeat(41));
    assert!(code(json(401, &long)).contains(' '));
}

#[test]
fn a_server_that_has_trouble_is_unavailable() {
    for status in [404, 429, 500, 502, 503] {
        assert!(matches!(outage(json(status, r#"{"error":"invalid_grant"}"#)), Outage::Status(_)));
    }
    for error in ["temporarily_unavailable", "server_error"] {
        let body = format!(r#"{{"error":"{error}"}}"#);
        assert!(matches!(outage(json(400, &body)), Outage::Faulty));
    }
    assert!(matches!(outage(json(400, "{}")), Outage::Status(_)));
    assert!(matches!(outage(json(401, r#"{"error":7}"#)), Outage::Status(_)));
    for status in [301, 302, 307, 308] {
        assert!(matches!(outage(json(status, "{}")), Outage::Redirects));
    }
}

proptest! {
    #[test]
    fn whatever_comes_a_token_is_one_that_a_header_carries(
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
    fn bytes_that_are_no_answer_are_never_a_token(body in any::<Vec<u8>>()) {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        prop_assert!(read(StatusCode::OK, &headers, &body, now()).is_err());
    }
}

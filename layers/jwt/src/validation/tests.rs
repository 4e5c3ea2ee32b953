use serde_json::{Value, json};

use super::*;
use crate::testing::{AUDIENCE, ISSUER, NOW, claims_with, now};

fn claims_of(claims: &Value) -> Claims {
    claims.as_object().unwrap().clone().into()
}

fn validate(name: &str, value: Value) -> Result<Option<SystemTime>, TokenError> {
    let claims = claims_with(name, value);
    ValidationOptions::new(ISSUER, AUDIENCE).validate(&claims_of(&claims), now())
}

#[test]
fn compares_issuer_by_code_point() {
    assert!(validate("iss", json!(ISSUER)).is_ok());
    for other in [
        json!("https://id.example/t1/"),
        json!("https://ID.example/t1"),
        json!("https://id.example/t2"),
        json!([ISSUER]),
        Value::Null,
    ] {
        assert_eq!(validate("iss", other.clone()), Err(TokenError::Issuer), "{other}");
    }
}

#[test]
fn accepts_audience_string_or_list() {
    for is_audience in [json!(AUDIENCE), json!([AUDIENCE]), json!(["https://other", AUDIENCE])] {
        assert!(validate("aud", is_audience.clone()).is_ok(), "{is_audience}");
    }
    for other in [
        json!("https://mcp.example/mcp/"),
        json!("https://mcp.example"),
        json!([]),
        json!(["https://other"]),
        json!([AUDIENCE, 5]),
        json!({"a": AUDIENCE}),
        Value::Null,
    ] {
        assert_eq!(validate("aud", other.clone()), Err(TokenError::Audience), "{other}");
    }
}

#[test]
fn rejects_invalid_subjects() {
    for other in [json!(""), json!(5), json!("a\0b"), json!(["a"]), Value::Null] {
        assert_eq!(validate("sub", other.clone()), Err(TokenError::Subject), "{other}");
    }
}

#[test]
fn token_expires_after_leeway() {
    let leeway = LEEWAY.as_secs();
    let at = |second: u64| Some(SystemTime::UNIX_EPOCH + Duration::from_secs(second));
    assert_eq!(validate("exp", json!(NOW + 10)), Ok(at(NOW + 10 + leeway)));
    assert_eq!(validate("exp", json!(NOW - leeway + 1)), Ok(at(NOW + 1)));
    assert_eq!(validate("exp", json!(NOW - leeway)), Err(TokenError::Expired));
    assert_eq!(validate("exp", Value::Null), Ok(None));
    let strict = ValidationOptions::new(ISSUER, AUDIENCE).leeway(Duration::ZERO);
    let claims = claims_with("exp", json!(NOW - 1));
    assert_eq!(strict.validate(&claims_of(&claims), now()), Err(TokenError::Expired));
}

#[test]
fn rejects_dates_that_are_not_numbers() {
    #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
    let fraction = NOW as f64 + 10.5;
    assert!(validate("exp", json!(fraction)).is_ok());
    for other in [json!("1785243600"), json!(-1), json!(1e300), json!(MAX_DATE + 1), json!([])] {
        assert_eq!(validate("exp", other.clone()), Err(TokenError::Expiry), "{other}");
    }
    assert_eq!(validate("nbf", json!("0")), Err(TokenError::NotYetValid));
    assert_eq!(validate("iat", json!("0")), Err(TokenError::IssuedInFuture));
}

#[test]
fn rejects_tokens_from_the_future() {
    let leeway = LEEWAY.as_secs();
    assert!(validate("nbf", json!(NOW + leeway)).is_ok());
    assert_eq!(validate("nbf", json!(NOW + leeway + 1)), Err(TokenError::NotYetValid));
    assert!(validate("iat", json!(NOW + MAX_ISSUED_AHEAD.as_secs())).is_ok());
    assert_eq!(
        validate("iat", json!(NOW + MAX_ISSUED_AHEAD.as_secs() + 1)),
        Err(TokenError::IssuedInFuture)
    );
}

#[test]
fn rejects_other_kinds_of_tokens() {
    for name in ["nonce", "at_hash", "events"] {
        assert_eq!(validate(name, json!("x")), Err(TokenError::Type), "{name}");
    }
    for name in ["token_use", "typ"] {
        for other in ["id", "ID", "refresh", "Refresh", "Offline", "refresh_token", "Logout", ""] {
            assert_eq!(validate(name, json!(other)), Err(TokenError::Type), "{name} {other}");
        }
        assert_eq!(validate(name, json!(["access"])), Err(TokenError::Type), "{name}");
        for access in ["access", "access_token", "Bearer", "at+jwt", "JWT"] {
            assert!(validate(name, json!(access)).is_ok(), "{name} {access}");
        }
    }
    assert_eq!(validate("cnf", json!({"jkt": "x"})), Err(TokenError::Bound));
    let is_id_token = claims_with("nonce", json!("x"));
    let options = ValidationOptions::new(ISSUER, AUDIENCE).accept_id_tokens();
    assert!(options.validate(&claims_of(&is_id_token), now()).is_ok());
    assert!(options.validate(&claims_of(&claims_with("token_use", json!("id"))), now()).is_ok());
    let refresh = claims_of(&claims_with("token_use", json!("refresh")));
    assert_eq!(options.validate(&refresh, now()), Err(TokenError::Type));
}

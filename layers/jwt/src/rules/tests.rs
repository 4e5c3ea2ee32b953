use serde_json::{Value, json};

use super::*;
use crate::testing::{AUDIENCE, ISSUER, NOW, claims_with, now};

fn said(claims: &Value) -> Claims {
    claims.as_object().unwrap().clone().into()
}

fn check(name: &str, value: Value) -> Result<Option<SystemTime>, TokenFault> {
    let claims = claims_with(name, value);
    Rules::new(ISSUER, AUDIENCE).check(&said(&claims), now())
}

#[test]
fn the_issuer_is_compared_by_code_point() {
    assert!(check("iss", json!(ISSUER)).is_ok());
    for other in [
        json!("https://id.example/t1/"),
        json!("https://ID.example/t1"),
        json!("https://id.example/t2"),
        json!([ISSUER]),
        Value::Null,
    ] {
        assert_eq!(check("iss", other.clone()), Err(TokenFault::Issuer), "{other}");
    }
}

#[test]
fn the_audience_is_this_server_or_a_list_with_it() {
    for ours in [json!(AUDIENCE), json!([AUDIENCE]), json!(["https://other", AUDIENCE])] {
        assert!(check("aud", ours.clone()).is_ok(), "{ours}");
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
        assert_eq!(check("aud", other.clone()), Err(TokenFault::Audience), "{other}");
    }
}

#[test]
fn the_subject_is_a_name() {
    for other in [json!(""), json!(5), json!("a\0b"), json!(["a"]), Value::Null] {
        assert_eq!(check("sub", other.clone()), Err(TokenFault::Subject), "{other}");
    }
}

#[test]
fn a_token_is_good_until_its_expiry_and_the_leeway() {
    let leeway = LEEWAY.as_secs();
    let at = |second: u64| Some(SystemTime::UNIX_EPOCH + Duration::from_secs(second));
    assert_eq!(check("exp", json!(NOW + 10)), Ok(at(NOW + 10 + leeway)));
    assert_eq!(check("exp", json!(NOW - leeway + 1)), Ok(at(NOW + 1)));
    assert_eq!(check("exp", json!(NOW - leeway)), Err(TokenFault::Expired));
    assert_eq!(check("exp", Value::Null), Ok(None));
    let strict = Rules::new(ISSUER, AUDIENCE).leeway(Duration::ZERO);
    let claims = claims_with("exp", json!(NOW - 1));
    assert_eq!(strict.check(&said(&claims), now()), Err(TokenFault::Expired));
}

#[test]
fn a_date_is_a_number() {
    #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
    let fraction = NOW as f64 + 10.5;
    assert!(check("exp", json!(fraction)).is_ok());
    for other in [json!("1785243600"), json!(-1), json!(1e300), json!(LAST_DATE + 1), json!([])] {
        assert_eq!(check("exp", other.clone()), Err(TokenFault::Expiry), "{other}");
    }
    assert_eq!(check("nbf", json!("0")), Err(TokenFault::NotYetValid));
    assert_eq!(check("iat", json!("0")), Err(TokenFault::IssuedInFuture));
}

#[test]
fn a_token_of_the_future_is_not_good_yet() {
    let leeway = LEEWAY.as_secs();
    assert!(check("nbf", json!(NOW + leeway)).is_ok());
    assert_eq!(check("nbf", json!(NOW + leeway + 1)), Err(TokenFault::NotYetValid));
    assert!(check("iat", json!(NOW + FUTURE.as_secs())).is_ok());
    assert_eq!(check("iat", json!(NOW + FUTURE.as_secs() + 1)), Err(TokenFault::IssuedInFuture));
}

#[test]
fn what_is_no_access_token_is_refused() {
    for name in ["nonce", "at_hash", "events"] {
        assert_eq!(check(name, json!("x")), Err(TokenFault::Type), "{name}");
    }
    for name in ["token_use", "typ"] {
        for other in ["id", "ID", "refresh", "Refresh", "Offline", "refresh_token", "Logout", ""] {
            assert_eq!(check(name, json!(other)), Err(TokenFault::Type), "{name} {other}");
        }
        assert_eq!(check(name, json!(["access"])), Err(TokenFault::Type), "{name}");
        for access in ["access", "access_token", "Bearer", "at+jwt", "JWT"] {
            assert!(check(name, json!(access)).is_ok(), "{name} {access}");
        }
    }
    assert_eq!(check("cnf", json!({"jkt": "x"})), Err(TokenFault::Bound));
    let id_token = claims_with("nonce", json!("x"));
    let rules = Rules::new(ISSUER, AUDIENCE).accept_id_tokens();
    assert!(rules.check(&said(&id_token), now()).is_ok());
    assert!(rules.check(&said(&claims_with("token_use", json!("id"))), now()).is_ok());
    let refresh = said(&claims_with("token_use", json!("refresh")));
    assert_eq!(rules.check(&refresh, now()), Err(TokenFault::Type));
}

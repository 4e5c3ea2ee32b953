use proptest::prelude::*;
use secrecy::ExposeSecret;
use serde_json::json;

use super::*;
use crate::Path;
use crate::provider_http::response;
use crate::testing::now;

fn standard_of(value: &Value) -> Result<TokenResponse, ProviderError> {
    parse(&response(200, "application/json", &value.to_string()), None, now())
}

fn cause(outcome: Result<TokenResponse, ProviderError>) -> EndpointError {
    match outcome.map(|_| ()) {
        Err(ProviderError::Unavailable { endpoint: EndpointKind::Token, cause }) => cause,
        other => panic!("{other:?}"),
    }
}

fn token_with(name: &str, value: Value) -> Value {
    let mut answer = json!({"access_token": "at", "token_type": "bearer"});
    answer[name] = value;
    answer
}

#[test]
fn parses_standard_response() {
    let granted = standard_of(&json!({
        "access_token": "at", "token_type": "BEARER", "expires_in": 60, "refresh_token": "rt",
        "scope": "a b", "id_token": "x.y.z",
    }))
    .unwrap();
    assert_eq!(granted.access.expose_secret(), "at");
    assert_eq!(granted.refresh.unwrap().expose_secret(), "rt");
    assert_eq!(granted.id.unwrap().expose_secret(), "x.y.z");
    assert_eq!(granted.expires_at, Some(now() + Duration::from_mins(1)));
    assert_eq!(granted.scopes.unwrap().joined().as_deref(), Some("a b"));
}

#[test]
fn ignores_invalid_lifetimes() {
    let life = |value: Value| standard_of(&token_with("expires_in", value)).unwrap().expires_at;
    assert_eq!(life(json!("3600")), Some(now() + Duration::from_hours(1)));
    assert_eq!(life(json!(1.9)), Some(now() + Duration::from_secs(1)));
    for nothing in [json!(0), json!(-5), json!("soon"), json!(null), json!(1e30), json!("NaN")] {
        assert_eq!(life(nothing.clone()), None, "{nothing}");
    }
}

#[test]
fn rejects_unusable_tokens() {
    let without = |name: &str| {
        let mut answer = token_with("x", json!(1));
        answer.as_object_mut().unwrap().remove(name);
        cause(standard_of(&answer))
    };
    assert_eq!(without("access_token"), EndpointError::NoToken);
    assert_eq!(without("token_type"), EndpointError::WrongTokenType);
    for kind in ["mac", "N_A", "DPoP", ""] {
        assert_eq!(
            cause(standard_of(&token_with("token_type", json!(kind)))),
            EndpointError::WrongTokenType
        );
    }
    for token in ["", "a b", "a\n", "\u{fc}", &"a".repeat(16 * 1024 + 1)] {
        let refused = cause(standard_of(&token_with("access_token", json!(token))));
        assert_eq!(refused, EndpointError::NoToken);
    }
    for (name, odd) in
        [("refresh_token", json!(1)), ("refresh_token", json!("a b")), ("id_token", json!({}))]
    {
        assert_eq!(cause(standard_of(&token_with(name, odd))), EndpointError::Malformed);
    }
}

#[test]
fn rejects_malformed_responses() {
    let of = |status, kind, body: &str| cause(parse(&response(status, kind, body), None, now()));
    assert_eq!(of(200, "text/html", "<h1>hi</h1>"), EndpointError::NotJson);
    assert_eq!(of(200, "application/json", "{"), EndpointError::Malformed);
    assert_eq!(
        of(200, "application/json", r#"{"access_token":"a","access_token":"b"}"#),
        EndpointError::Malformed
    );
    assert_eq!(
        of(500, "application/json", r#"{"error":"invalid_grant"}"#),
        EndpointError::Status(500)
    );
    assert_eq!(of(400, "text/html", "no"), EndpointError::Status(400));
    assert_eq!(
        of(400, "application/json", r#"{"error":"temporarily_unavailable"}"#),
        EndpointError::ServerError
    );
}

#[test]
fn error_contains_only_the_code() {
    let refused = |status, body: &str| {
        let response = response(status, "application/json", body);
        parse(&response, None, now()).map(|_| ()).unwrap_err()
    };
    let code =
        |code: &str| ProviderError::Rejected { endpoint: EndpointKind::Token, code: code.into() };
    let body = r#"{"error":"invalid_grant","error_description":"canary"}"#;
    assert_eq!(refused(400, body), code("invalid_grant"));
    // As GitHub does.
    assert_eq!(refused(200, r#"{"error":"bad_refresh_token"}"#), code("bad_refresh_token"));
    for odd in ["sk-Canary", "", "a b", &"a".repeat(41)] {
        let body = json!({ "error": odd }).to_string();
        assert_eq!(refused(401, &body), code("unrecognized error code"));
    }
}

#[test]
fn mapping_finds_nonstandard_members() {
    let mapping = TokenMapping {
        access_token: Path::new("authed_user.access_token").unwrap(),
        expires_in: Path::new("authed_user.life").unwrap(),
        refresh_token: Path::new("authed_user.refresh.0").unwrap(),
        scope: Path::new("authed_user.scopes").unwrap(),
    };
    let body = json!({"ok": true, "access_token": "bot", "authed_user": {
        "access_token": "user", "life": "10", "refresh": ["rt"], "scopes": ["a", "b c", "d"],
    }});
    let granted =
        parse(&response(200, "application/json", &body.to_string()), Some(&mapping), now())
            .unwrap();
    assert_eq!(granted.access.expose_secret(), "user");
    assert_eq!(granted.refresh.unwrap().expose_secret(), "rt");
    assert_eq!(granted.expires_at, Some(now() + Duration::from_secs(10)));
    assert_eq!(granted.scopes.unwrap().joined().as_deref(), Some("a d"));
    let plain = response(200, "text/plain", &body.to_string());
    assert!(parse(&plain, Some(&mapping), now()).is_ok(), "whatever it calls its JSON");
    assert_eq!(
        cause(parse(&response(200, "text/html", "<h1>"), Some(&mapping), now())),
        EndpointError::NotJson
    );
    let refused = response(200, "application/json", r#"{"ok":false,"error":"invalid_code"}"#);
    let error = parse(&refused, Some(&mapping), now()).map(|_| ()).unwrap_err();
    assert_eq!(
        error,
        ProviderError::Rejected { endpoint: EndpointKind::Token, code: "invalid_code".into() }
    );
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
        prop::collection::vec(".{0,4}".prop_map(Value::from), 0..4).prop_map(Value::from),
    ]
}

proptest! {
    #[test]
    fn granted_tokens_fit_headers_and_storage(
        access in value(), refresh in value(), life in value(), scope in value(), id in value(),
    ) {
        let answer = json!({
            "access_token": access, "token_type": "Bearer", "refresh_token": refresh,
            "expires_in": life, "scope": scope, "id_token": id,
        });
        if let Ok(granted) = standard_of(&answer) {
            let tokens = crate::Tokens {
                access: granted.access,
                refresh: granted.refresh,
                id: granted.id,
                expires_at: granted.expires_at,
                scopes: granted.scopes.unwrap_or_default(),
                issuer: "https://id.example".into(),
                subject: "alice".into(),
                client_id: "gateway".into(),
            };
            prop_assert!(crate::form::bearer(&tokens.access).is_some());
            let stored = serde_json::to_string(&crate::Plaintext(&tokens)).unwrap();
            let back = serde_json::from_str::<crate::Plaintext<crate::Tokens>>(&stored).unwrap().0;
            prop_assert_eq!(serde_json::to_string(&crate::Plaintext(&back)).unwrap(), stored);
        }
    }

    #[test]
    fn accepts_or_rejects_any_bytes(
        status in 200u16..600,
        body in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let response = response(status, "application/json", &String::from_utf8_lossy(&body));
        prop_assert!(parse(&response, None, now()).is_err());
    }
}

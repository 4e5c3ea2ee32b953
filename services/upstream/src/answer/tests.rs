use secrecy::ExposeSecret;
use serde_json::json;

use super::*;
use crate::Path;
use crate::testing::now;
use crate::web::reply;

fn standard_of(value: &Value) -> Result<Granted, Fault> {
    read(&reply(200, "application/json", &value.to_string()), None, now())
}

fn outage(outcome: Result<Granted, Fault>) -> Outage {
    match outcome.map(|_| ()) {
        Err(Fault::Unavailable { place: Place::Token, outage }) => outage,
        other => panic!("{other:?}"),
    }
}

fn token_with(name: &str, value: Value) -> Value {
    let mut answer = json!({"access_token": "at", "token_type": "bearer"});
    answer[name] = value;
    answer
}

#[test]
fn reads_a_standard_answer() {
    let granted = standard_of(&json!({
        "access_token": "at", "token_type": "BEARER", "expires_in": 60, "refresh_token": "rt",
        "scope": "a b", "id_token": "x.y.z",
    }))
    .unwrap();
    assert_eq!(granted.access.expose_secret(), "at");
    assert_eq!(granted.refresh.unwrap().expose_secret(), "rt");
    assert_eq!(granted.id.unwrap().expose_secret(), "x.y.z");
    assert_eq!(granted.expires_at, Some(now() + Duration::from_secs(60)));
    assert_eq!(granted.scopes.unwrap().joined().as_deref(), Some("a b"));
}

#[test]
fn a_lifetime_is_a_number_or_says_nothing() {
    let life = |value: Value| standard_of(&token_with("expires_in", value)).unwrap().expires_at;
    assert_eq!(life(json!("3600")), Some(now() + Duration::from_secs(3600)));
    assert_eq!(life(json!(1.9)), Some(now() + Duration::from_secs(1)));
    for nothing in [json!(0), json!(-5), json!("soon"), json!(null), json!(1e30), json!("NaN")] {
        assert_eq!(life(nothing.clone()), None, "{nothing}");
    }
}

#[test]
fn refuses_tokens_that_are_none() {
    let without = |name: &str| {
        let mut answer = token_with("x", json!(1));
        answer.as_object_mut().unwrap().remove(name);
        outage(standard_of(&answer))
    };
    assert_eq!(without("access_token"), Outage::NoToken);
    assert_eq!(without("token_type"), Outage::WrongType);
    for kind in ["mac", "N_A", "DPoP", ""] {
        assert_eq!(outage(standard_of(&token_with("token_type", json!(kind)))), Outage::WrongType);
    }
    for token in ["", "a b", "a\n", "\u{fc}", &"a".repeat(16 * 1024 + 1)] {
        let refused = outage(standard_of(&token_with("access_token", json!(token))));
        assert_eq!(refused, Outage::NoToken);
    }
    for (name, odd) in
        [("refresh_token", json!(1)), ("refresh_token", json!("a b")), ("id_token", json!({}))]
    {
        assert_eq!(outage(standard_of(&token_with(name, odd))), Outage::Malformed);
    }
}

#[test]
fn refuses_answers_that_are_none() {
    let of = |status, kind, body: &str| outage(read(&reply(status, kind, body), None, now()));
    assert_eq!(of(200, "text/html", "<h1>hi</h1>"), Outage::NotJson);
    assert_eq!(of(200, "application/json", "{"), Outage::Malformed);
    assert_eq!(
        of(200, "application/json", r#"{"access_token":"a","access_token":"b"}"#),
        Outage::Malformed
    );
    assert_eq!(of(500, "application/json", r#"{"error":"invalid_grant"}"#), Outage::Status(500));
    assert_eq!(of(400, "text/html", "no"), Outage::Status(400));
    assert_eq!(
        of(400, "application/json", r#"{"error":"temporarily_unavailable"}"#),
        Outage::Faulty
    );
}

#[test]
fn an_error_is_its_code_and_nothing_else() {
    let refused = |status, body: &str| {
        let reply = reply(status, "application/json", body);
        read(&reply, None, now()).map(|_| ()).unwrap_err()
    };
    let code = |code: &str| Fault::Refused { place: Place::Token, code: code.into() };
    let body = r#"{"error":"invalid_grant","error_description":"canary"}"#;
    assert_eq!(refused(400, body), code("invalid_grant"));
    // As GitHub does.
    assert_eq!(refused(200, r#"{"error":"bad_refresh_token"}"#), code("bad_refresh_token"));
    for odd in ["sk-Canary", "", "a b", &"a".repeat(41)] {
        let body = json!({ "error": odd }).to_string();
        assert_eq!(refused(401, &body), code("no reason that can be shown"));
    }
}

#[test]
fn a_mapping_finds_the_members_of_an_odd_answer() {
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
        read(&reply(200, "application/json", &body.to_string()), Some(&mapping), now()).unwrap();
    assert_eq!(granted.access.expose_secret(), "user");
    assert_eq!(granted.refresh.unwrap().expose_secret(), "rt");
    assert_eq!(granted.expires_at, Some(now() + Duration::from_secs(10)));
    assert_eq!(granted.scopes.unwrap().joined().as_deref(), Some("a d"));
    let refused = reply(200, "application/json", r#"{"ok":false,"error":"invalid_code"}"#);
    let fault = read(&refused, Some(&mapping), now()).map(|_| ()).unwrap_err();
    assert_eq!(fault, Fault::Refused { place: Place::Token, code: "invalid_code".into() });
}

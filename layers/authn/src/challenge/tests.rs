use http::header::CONTENT_TYPE;
use proptest::prelude::*;

use super::*;
use crate::ResourceRules;

fn challenges() -> Challenges {
    let rules = ResourceRules::default();
    let scopes = ["mcp:list", "mcp:call"];
    let resource = ProtectedResource::new("https://mcp.example/mcp", "https://i", &scopes, rules);
    Challenges { realm: None, resource: Some(resource.unwrap()), required: vec!["mcp:list".into()] }
}

const METADATA: &str =
    "resource_metadata=\"https://mcp.example/.well-known/oauth-protected-resource/mcp\"";

/// Status, challenge and body.
fn answered(refusal: &Refusal) -> (u16, Option<String>, String) {
    let response: Response<Bytes> = challenges().answer(refusal);
    let challenge = response.headers().get(WWW_AUTHENTICATE);
    let challenge = challenge.map(|header| header.to_str().unwrap().to_owned());
    let status = response.status().as_u16();
    assert_eq!(response.headers()[CONTENT_TYPE], "application/json");
    (status, challenge, String::from_utf8(response.into_body().to_vec()).unwrap())
}

#[test]
fn who_brings_nothing_is_told_where_to_get_a_token_and_of_no_error() {
    let (status, challenge, body) = answered(&Refusal::NoCredentials);
    assert_eq!(status, 401);
    assert_eq!(challenge.unwrap(), format!("Bearer {METADATA}, scope=\"mcp:list mcp:call\""));
    assert_eq!(
        body,
        r#"{"error":"invalid_request","error_description":"the Authorization header is missing"}"#
    );
}

#[test]
fn a_bad_token_is_named_as_such() {
    let (status, challenge, body) = answered(&Refusal::InvalidToken("expired".into()));
    assert_eq!(status, 401);
    assert_eq!(
        challenge.unwrap(),
        format!(
            "Bearer {METADATA}, scope=\"mcp:list mcp:call\", error=\"invalid_token\", \
             error_description=\"expired\""
        )
    );
    assert_eq!(body, r#"{"error":"invalid_token","error_description":"expired"}"#);
}

#[test]
fn all_scopes_that_are_needed_are_named() {
    let needed = vec!["mcp:list".into(), "mcp:call".into()];
    let (status, challenge, _) = answered(&Refusal::InsufficientScope(needed));
    assert_eq!(status, 403);
    assert_eq!(
        challenge.unwrap(),
        format!(
            "Bearer {METADATA}, scope=\"mcp:list mcp:call\", error=\"insufficient_scope\", \
             error_description=\"the token needs the scopes mcp:list mcp:call\""
        )
    );
    let step_up = Challenge::InsufficientScope(vec!["admin".into(), "mcp:list".into()]);
    let header = challenges().of(&step_up, "more").unwrap();
    assert!(header.to_str().unwrap().contains("scope=\"mcp:list admin\""), "{header:?}");
}

#[test]
fn an_outage_is_no_challenge() {
    let response: Response<Bytes> = challenges().answer(&Refusal::unavailable());
    assert_eq!(response.status(), 503);
    assert_eq!(response.headers()[RETRY_AFTER], "5");
    assert!(!response.headers().contains_key(WWW_AUTHENTICATE));
}

#[test]
fn without_a_resource_a_challenge_is_as_short_as_can_be() {
    let header = |realm: Option<&str>| {
        let bare = Challenges { realm: realm.map(Box::from), ..Challenges::default() };
        let response: Response<Bytes> = bare.answer(&Refusal::NoCredentials);
        response.headers()[WWW_AUTHENTICATE].clone()
    };
    assert_eq!(header(None), "Bearer");
    assert_eq!(header(Some("a \"b\"\\c")), r#"Bearer realm="a \"b\"\\c""#);
}

#[test]
fn a_description_cannot_break_out_of_the_header() {
    let sneaky = Refusal::InvalidToken("x\", scope=\"admin\r\nSet-Cookie: a=b\u{2028}".into());
    let (_, challenge, _) = answered(&sneaky);
    let challenge = challenge.unwrap();
    assert!(challenge.contains(r#"x\", scope=\"admin  Set-Cookie: a=b ""#), "{challenge}");
}

proptest! {
    #[test]
    fn every_refusal_has_a_legal_challenge(why in ".{0,60}", scope in ".{0,20}") {
        let (_, challenge, body) = answered(&Refusal::InvalidRequest(why.into()));
        prop_assert!(challenge.is_some());
        prop_assert!(serde_json::from_str::<serde_json::Value>(&body).is_ok());
        let (_, challenge, _) = answered(&Refusal::InsufficientScope(vec![scope.into()]));
        prop_assert!(challenge.is_some());
    }
}

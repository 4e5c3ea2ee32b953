use http::header::CONTENT_TYPE;
use proptest::prelude::*;

use super::*;
use crate::ResourceOptions;

fn challenges() -> ChallengeParams {
    let rules = ResourceOptions::default();
    let scopes = ["mcp:list", "mcp:call"];
    let resource = ProtectedResource::new("https://mcp.example/mcp", "https://i", &scopes, rules);
    ChallengeParams {
        realm: None,
        resource: Some(resource.unwrap()),
        required: vec!["mcp:list".into()],
    }
}

const METADATA: &str =
    "resource_metadata=\"https://mcp.example/.well-known/oauth-protected-resource/mcp\"";

/// Returns status, challenge and body.
fn response_parts(auth_error: &AuthError) -> (u16, Option<String>, String) {
    let response: Response<Bytes> = challenges().response(auth_error);
    let challenge = response.headers().get(WWW_AUTHENTICATE);
    let challenge = challenge.map(|header| header.to_str().unwrap().to_owned());
    let status = response.status().as_u16();
    assert_eq!(response.headers()[CONTENT_TYPE], "application/json");
    (status, challenge, String::from_utf8(response.into_body().to_vec()).unwrap())
}

#[test]
fn missing_credentials_get_challenge_without_error() {
    let (status, challenge, body) = response_parts(&AuthError::NoCredentials);
    assert_eq!(status, 401);
    assert_eq!(challenge.unwrap(), format!("Bearer {METADATA}, scope=\"mcp:list mcp:call\""));
    assert_eq!(
        body,
        r#"{"error":"invalid_request","error_description":"the Authorization header is missing"}"#
    );
}

#[test]
fn invalid_token_gets_invalid_token_challenge() {
    let (status, challenge, body) = response_parts(&AuthError::InvalidToken("expired".into()));
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
fn challenge_names_all_required_scopes() {
    let needed = vec!["mcp:list".into(), "mcp:call".into()];
    let (status, challenge, _) = response_parts(&AuthError::InsufficientScope(needed));
    assert_eq!(status, 403);
    assert_eq!(
        challenge.unwrap(),
        format!(
            "Bearer {METADATA}, scope=\"mcp:list mcp:call\", error=\"insufficient_scope\", \
             error_description=\"the token requires the scopes mcp:list mcp:call\""
        )
    );
    let step_up = Challenge::InsufficientScope(vec!["admin".into(), "mcp:list".into()]);
    let header = challenges().header_for(&step_up, "more").unwrap();
    assert!(header.to_str().unwrap().contains("scope=\"mcp:list admin\""), "{header:?}");
}

#[test]
fn outage_has_no_challenge() {
    let response: Response<Bytes> = challenges().response(&AuthError::unavailable());
    assert_eq!(response.status(), 503);
    assert_eq!(response.headers()[RETRY_AFTER], "5");
    assert!(!response.headers().contains_key(WWW_AUTHENTICATE));
}

#[test]
fn challenge_without_resource_is_minimal() {
    let header = |realm: Option<&str>| {
        let bare = ChallengeParams { realm: realm.map(Box::from), ..ChallengeParams::default() };
        let response: Response<Bytes> = bare.response(&AuthError::NoCredentials);
        response.headers()[WWW_AUTHENTICATE].clone()
    };
    assert_eq!(header(None), "Bearer");
    assert_eq!(header(Some("a \"b\"\\c")), r#"Bearer realm="a \"b\"\\c""#);
}

#[test]
fn description_is_escaped_in_header() {
    let sneaky = AuthError::InvalidToken("x\", scope=\"admin\r\nSet-Cookie: a=b\u{2028}".into());
    let (_, challenge, _) = response_parts(&sneaky);
    let challenge = challenge.unwrap();
    assert!(challenge.contains(r#"x\", scope=\"admin  Set-Cookie: a=b ""#), "{challenge}");
}

proptest! {
    #[test]
    fn every_error_has_valid_challenge(reason in ".{0,60}", scope in ".{0,20}") {
        let (_, challenge, body) = response_parts(&AuthError::InvalidRequest(reason.into()));
        prop_assert!(challenge.is_some());
        prop_assert!(serde_json::from_str::<serde_json::Value>(&body).is_ok());
        let (_, challenge, _) = response_parts(&AuthError::InsufficientScope(vec![scope.into()]));
        prop_assert!(challenge.is_some());
    }
}

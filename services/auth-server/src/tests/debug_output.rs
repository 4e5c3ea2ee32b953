//! Tests that the `Debug` form of records omits secrets and personal data, at any depth.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::{Duration, SystemTime};

use serde_json::json;
use vmcp_auth_store::*;
use vmcp_upstream::Plaintext;

use crate::AccessToken;
use crate::params::Params;
use crate::testing::{APP, NOW, RESOURCE, TestEnv, param};

const MARK: &str = "canary";
/// Marker as an identifier of 16 and of 32 bytes.
const MARKS: (&[u8; 16], &[u8; 32]) = (b"canarycanarycana", b"canarycanarycanarycanarycanaryca");

/// Each record is written out in full, so that a new field fails to compile here.
fn request() -> AuthorizationRequest {
    AuthorizationRequest {
        client: ClientId::new("client").unwrap(),
        redirect_uri: APP.into(),
        state: Some(MARK.into()),
        challenge: CodeChallenge::from_bytes(*MARKS.1),
        scopes: vec!["openid".into()],
        resource: Some(RESOURCE.into()),
        nonce: Some(MARK.into()),
        refresh: true,
        fresh: vmcp_auth_store::ReauthOptions::default(),
    }
}

fn profile() -> Profile {
    let email = Some(format!("{MARK}@example.com"));
    Profile { name: Some(MARK.into()), email, email_verified: Some(true) }
}

fn issuer() -> ProviderIssuer {
    ProviderIssuer::new("https://corp.example").unwrap()
}

fn subject() -> Subject {
    let name = SubjectName::new(format!("{MARK}@example.com")).unwrap();
    Subject { provider: ProviderName::new("corp").unwrap(), issuer: issuer(), name }
}

fn login(stage: Stage) -> Login {
    Login {
        aim: LoginPurpose::Authorize(request()),
        session: SessionId::from_bytes(*MARKS.0),
        browser: Digest::from_bytes(*MARKS.1),
        stage,
        user: Some(UserId::new("alice").unwrap()),
        profile: profile(),
        authenticated: None,
        created: Timestamp::from_millis(NOW * 1000),
        origin: None,
    }
}

fn seed() -> AuthorizationCodeData {
    AuthorizationCodeData {
        client: ClientId::new("client").unwrap(),
        redirect_uri: APP.into(),
        challenge: CodeChallenge::from_bytes(*MARKS.1),
        scopes: vec!["openid".into()],
        resource: Some(RESOURCE.into()),
        nonce: Some(MARK.into()),
        refresh: true,
        session: SessionId::from_bytes(*MARKS.0),
        user: UserId::new("alice").unwrap(),
        profile: profile(),
        authenticated: Timestamp::from_millis(NOW * 1000),
    }
}

fn grant() -> Grant {
    let at = Timestamp::from_millis(NOW * 1000);
    let digest = Digest::from_bytes(*MARKS.1);
    Grant {
        id: GrantId::from_bytes(*MARKS.0),
        client: ClientId::new("client").unwrap(),
        user: UserId::new("alice").unwrap(),
        profile: profile(),
        session: SessionId::from_bytes(*MARKS.0),
        scopes: vec!["openid".into()],
        audience: vec![RESOURCE.into()],
        authenticated: at,
        access_lifespan: Duration::from_hours(1),
        ends: at,
        refresh: Some(RefreshTokens {
            idle: Duration::from_hours(1),
            idle_end: at,
            generation: 1,
            current: digest,
            previous: Some(PreviousRefreshToken { digest, rotated: at }),
        }),
    }
}

fn session() -> Session {
    let at = Timestamp::from_millis(NOW * 1000);
    let row = UpstreamTokenRecord {
        version: 1,
        issuer: issuer(),
        sealed: Ciphertext::from_bytes(*MARKS.1),
        expires: Some(at),
        scopes: vec!["read".into()],
        written: at,
    };
    let head = SessionHead {
        id: SessionId::from_bytes(*MARKS.0),
        user: UserId::new("alice").unwrap(),
        client: ClientId::new("client").unwrap(),
    };
    let rows = BTreeMap::from([(ProviderName::new("corp").unwrap(), row)]);
    let grant = Some(GrantId::from_bytes(*MARKS.0));
    Session { head, grant, created: at, expires: at, rows }
}

/// Checks for the marker as text and as numbers.
fn assert_hides_marker(records: &[&dyn Debug]) {
    let numbers = format!("{:?}", MARK.as_bytes());
    let texts = [SessionId::from_bytes(*MARKS.0).to_text(), Digest::from_bytes(*MARKS.1).to_text()];
    for record in records {
        let shown = format!("{record:?} {record:#?}");
        assert!(!shown.contains(MARK), "{shown}");
        assert!(!shown.contains(numbers.trim_matches(['[', ']'])), "{shown}");
        assert!(!texts.iter().any(|text| shown.contains(text)), "{shown}");
    }
}

#[test]
fn store_records_hide_secrets_in_debug() {
    let sealed = || Ciphertext::from_bytes(*MARKS.1);
    let provider = ProviderName::new("corp").unwrap();
    let user = User {
        id: UserId::new("alice").unwrap(),
        profile: profile(),
        created: Timestamp::from_millis(NOW * 1000),
    };
    let revocation = Revocation {
        grant: Some(GrantId::from_bytes(*MARKS.0)),
        session: SessionId::from_bytes(*MARKS.0),
        at: Timestamp::from_millis(NOW * 1000),
    };
    assert_hides_marker(&[
        &login(Stage::AwaitConsent { csrf: Digest::from_bytes(*MARKS.1) }),
        &login(Stage::AwaitUpstream { provider, leg: sealed() }),
        &request(),
        &seed(),
        &CodeRedemption { outcome: RedeemOutcome::Redeemed(Box::new(seed())), client: None },
        &GrantLookup { grant: Some(grant()), client: None },
        &RotationOutcome::Rotated(Box::new(grant())),
        &PresentedRefreshToken { digest: Digest::from_bytes(*MARKS.1), generation: 1 },
        &session(),
        &UpstreamTokenLock::Acquired(session().rows.into_values().next()),
        &LockOwner::from_bytes(*MARKS.0),
        &subject(),
        &profile(),
        &user,
        &revocation,
        &ClientAuth::ClientSecretPost(Digest::from_bytes(*MARKS.1)),
    ]);
}

#[test]
fn provider_data_is_hidden_in_debug() {
    let upstream = json!({
        "verifier": MARK, "nonce": MARK, "issuer_id": "https://id.example", "issuer": "https://id.example", "issuer_in_answer": true,
        "client_id": "us", "scopes": ["openid"], "begun": NOW,
    });
    let upstream: Plaintext<vmcp_upstream::AuthorizationState> =
        serde_json::from_value(upstream).unwrap();
    let tokens = vmcp_upstream::Tokens {
        access: MARK.into(),
        refresh: Some(MARK.into()),
        id: Some(MARK.into()),
        expires_at: None,
        scopes: vmcp_upstream::Scopes::default(),
        issuer: "https://id.example".into(),
        subject: MARK.into(),
        client_id: "us".into(),
    };
    let answer =
        vmcp_upstream::AuthorizationResponse { outcome: Ok(MARK.into()), iss: Some(MARK.into()) };
    let login = vmcp_upstream::Login {
        subject: MARK.into(),
        name: Some(MARK.into()),
        email: Some(MARK.into()),
        email_verified: Some(true),
        authenticated: None,
        is_synthetic: false,
        tokens: tokens.clone(),
    };
    assert_hides_marker(&[&upstream, &upstream.0, &tokens, &Plaintext(&tokens), &answer, &login]);
}

#[tokio::test]
async fn server_state_is_hidden_in_debug() {
    let serde_json::Value::Object(claims) = json!({"email": MARK, "name": MARK}) else { return };
    let own = AccessToken {
        subject: "alice".into(),
        claims: claims.into(),
        expires_at: SystemTime::UNIX_EPOCH,
        session: SessionId::from_bytes(*MARKS.0),
    };
    let params = Params::parse(b"code=canary&state=canary").unwrap();
    assert_hides_marker(&[&own, &params]);

    // The in-process store has records of logins at every stage and of their results.
    let env = TestEnv::new();
    let client = env.client().await;
    let state = [("state", MARK), ("nonce", MARK)];
    let authorize = TestEnv::authorize(&client, &state);
    let browser = &mut crate::testing::UserAgent::default();
    browser.get(&env, &authorize).await;
    let corp = env.consent(browser, &authorize).await;
    let waiting = param(&url::Url::parse(&corp).unwrap(), "state").unwrap();
    env.log_in_at(browser, &authorize).await;
    let issued = env.tokens(&client).await;
    let shown = format!("{:?}", env.store);
    assert!(
        shown.contains("Login {")
            && shown.contains("AuthorizationCodeData {")
            && shown.contains("Grant {")
    );
    for secret in [MARK, "Alice", "alice@example.com", &waiting, &issued.access, &issued.refresh] {
        assert!(!shown.contains(secret), "{secret}: {shown}");
    }
}

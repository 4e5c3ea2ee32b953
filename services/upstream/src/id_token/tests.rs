use std::sync::Arc;

use serde_json::json;
use vmcp_jwt::{KeySet, TokenError, VerifyError};
use vmcp_test_support::SigningKey;

use super::*;
use crate::testing::{CLIENT, ISSUER, NOW, clock, over};

fn keys(key: &SigningKey) -> Arc<KeySet> {
    let set = json!({"keys": [key.jwk("1")]});
    Arc::new(KeySet::parse(set.to_string().as_bytes()).unwrap())
}

fn sign(key: &SigningKey, claims: &Value) -> SecretString {
    key.sign("1", claims).into()
}

fn claims() -> Value {
    json!({"iss": ISSUER, "aud": CLIENT, "sub": "alice", "exp": NOW + 60, "iat": NOW, "nonce": "n"})
}

async fn outcome(differs: &Value) -> Result<Claims, IdentityError> {
    let signer = SigningKey::p256();
    let token = sign(&signer, &over(claims(), differs));
    let access = "at-1".into();
    let expected = IdTokenExpectations { issuer: ISSUER, client_id: CLIENT, access: &access };
    verify(keys(&signer), &clock(), &token, &expected).await
}

#[tokio::test]
async fn accepts_token_for_this_client() {
    for fine in [
        json!({}),
        json!({"aud": [CLIENT]}),
        json!({"azp": CLIENT}),
        json!({"aud": [CLIENT, "other"], "azp": CLIENT}),
    ] {
        assert!(outcome(&fine).await.is_ok(), "{fine}");
    }
}

#[tokio::test]
async fn rejects_token_of_other_issuer_or_audience() {
    for (odd, error) in [
        (json!({"iss": "https://id.example/"}), TokenError::Issuer),
        (json!({"aud": "other"}), TokenError::Audience),
        (json!({"aud": ["other"]}), TokenError::Audience),
        (json!({"aud": null}), TokenError::Audience),
        (json!({"exp": NOW - 31}), TokenError::Expired),
        (json!({"exp": null}), TokenError::Expiry),
        (json!({"sub": ""}), TokenError::Subject),
        (json!({"events": {}}), TokenError::Type),
    ] {
        let wanted = IdentityError::InvalidIdToken(VerifyError::Token(error));
        assert_eq!(outcome(&odd).await.unwrap_err(), wanted, "{odd}");
    }
}

#[tokio::test]
async fn multiple_audiences_require_authorized_party() {
    for odd in [json!({"aud": [CLIENT, "other"]}), json!({"azp": "other"}), json!({"azp": 1})] {
        assert_eq!(outcome(&odd).await.unwrap_err(), IdentityError::WrongAuthorizedParty, "{odd}");
    }
}

#[tokio::test]
async fn rejects_hash_of_other_access_token() {
    let hash = digest::digest(&SHA256, b"at-1");
    let right = URL_SAFE_NO_PAD.encode(&hash.as_ref()[..16]);
    let whole = URL_SAFE_NO_PAD.encode(hash);
    assert!(outcome(&json!({"at_hash": right})).await.is_ok());
    for wrong in [json!(whole), json!(""), json!(7), json!("AAAAAAAAAAAAAAAAAAAAAA")] {
        let error = outcome(&json!({"at_hash": wrong})).await.unwrap_err();
        assert_eq!(error, IdentityError::WrongAccessTokenHash);
    }
}

#[tokio::test]
async fn rejects_token_of_other_key() {
    let token = sign(&SigningKey::p256(), &claims());
    let access = "at-1".into();
    let expected = IdTokenExpectations { issuer: ISSUER, client_id: CLIENT, access: &access };
    let error = verify(keys(&SigningKey::p256()), &clock(), &token, &expected).await.unwrap_err();
    assert_eq!(error, IdentityError::InvalidIdToken(VerifyError::Token(TokenError::Signature)));
}

#[test]
fn compares_the_whole_nonce() {
    let claims = |nonce: Value| crate::testing::object(json!({"nonce": nonce}));
    let nonce = "n0nce".into();
    assert!(has_nonce(&claims(json!("n0nce")), &nonce));
    for other in [json!("n0nc"), json!(""), json!(null), json!(["n0nce"])] {
        assert!(!has_nonce(&claims(other), &nonce));
    }
}

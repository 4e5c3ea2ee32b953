mod differential;
mod vectors;

use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::testing::{AUDIENCE, ISSUER, NOW, claims, claims_with, now, set};
use vmcp_test_support::SigningKey;

fn verifier(keys: &[Value]) -> Verifier<Arc<KeySet>> {
    let keys = KeySet::parse(set(keys).as_bytes()).unwrap();
    Verifier::new(Arc::new(keys), ValidationOptions::new(ISSUER, AUDIENCE))
        .clock(Clock::manual(now()))
}

/// Verifies a token with this header, signed with RS256 and a known RSA key.
async fn with_header(header: &str) -> Result<VerifiedToken, VerifyError> {
    let token = SigningKey::rsa().sign_text("RS256", header, &claims().to_string());
    verifier(&[SigningKey::rsa().jwk("1")]).verify(&token).await
}

fn token_error(outcome: Result<VerifiedToken, VerifyError>) -> TokenError {
    match outcome {
        Err(VerifyError::Token(error)) => error,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn accepts_each_algorithm_with_its_key() {
    let (p256, p384, p521, ed) =
        (SigningKey::p256(), SigningKey::p384(), SigningKey::p521(), SigningKey::ed25519());
    let pairs = [SigningKey::rsa(), &p256, &p384, &p521, &ed];
    let keys: Vec<_> = pairs.iter().enumerate().map(|(at, it)| it.jwk(&at.to_string())).collect();
    let verifier = verifier(&keys);
    for (algorithm, at) in Algorithm::ALL.into_iter().zip([0, 0, 0, 0, 0, 0, 1, 2, 3, 4]) {
        let token = pairs[at].sign_as(algorithm.name(), &at.to_string(), &claims());
        let accepted = verifier.verify(&token).await.unwrap();
        assert_eq!(accepted.claims.text("sub"), Some("alice"), "{algorithm}");
        assert_eq!(accepted.expires_at, now() + std::time::Duration::from_hours(1) + crate::LEEWAY);
        let forged = token.replace(&token[token.len() - 6..], "AAAAAA");
        assert_eq!(
            token_error(verifier.verify(&forged).await),
            TokenError::Signature,
            "{algorithm}"
        );
    }
}

#[tokio::test]
async fn rejects_unsigned_and_symmetric_tokens() {
    let encode = |text: &str| URL_SAFE_NO_PAD.encode(text);
    let payload = encode(&claims().to_string());
    let verifier = verifier(&[SigningKey::rsa().jwk("1")]);
    for alg in ["none", "None", "nOnE", "HS256", "HS512", "RS1", "ES256K", ""] {
        let header = encode(&json!({"alg": alg, "kid": "1"}).to_string());
        // Signed with the bytes of the public key as an HMAC secret.
        let secret = SigningKey::rsa().jwk("1").to_string();
        let key = aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, secret.as_bytes());
        let signature = aws_lc_rs::hmac::sign(&key, format!("{header}.{payload}").as_bytes());
        for signature in [String::new(), URL_SAFE_NO_PAD.encode(signature)] {
            let token = format!("{header}.{payload}.{signature}");
            assert_eq!(token_error(verifier.verify(&token).await), TokenError::Algorithm, "{alg}");
        }
    }
}

#[tokio::test]
async fn binds_keys_to_their_algorithms() {
    let (ec, rsa) = (SigningKey::p256(), SigningKey::rsa());
    let verifier = verifier(&[ec.jwk("ec"), rsa.jwk("rsa")]);
    // An RSA algorithm with the id of the EC key, the reverse, and the wrong curve.
    for (pair, real, said, kid) in [
        (rsa, Algorithm::Rs256, "RS256", "ec"),
        (&ec, Algorithm::Es256, "ES256", "rsa"),
        (&ec, Algorithm::Es256, "ES384", "ec"),
    ] {
        let header = json!({"alg": said, "kid": kid}).to_string();
        let token = pair.sign_text(real.name(), &header, &claims().to_string());
        assert_eq!(
            token_error(verifier.verify(&token).await),
            TokenError::UnknownKey,
            "{said} {kid}"
        );
    }
    // The right key with the wrong padding.
    let header = json!({"alg": "PS256", "kid": "rsa"}).to_string();
    let token = rsa.sign_text("RS256", &header, &claims().to_string());
    assert_eq!(token_error(verifier.verify(&token).await), TokenError::Signature);
}

#[tokio::test]
async fn rejects_disallowed_algorithm() {
    let verifier = verifier(&[SigningKey::rsa().jwk("1")]).algorithms(&[Algorithm::Rs256]);
    let token = |algorithm: Algorithm| SigningKey::rsa().sign_as(algorithm.name(), "1", &claims());
    assert!(verifier.verify(&token(Algorithm::Rs256)).await.is_ok());
    let refused = verifier.verify(&token(Algorithm::Ps256)).await;
    assert_eq!(token_error(refused), TokenError::Algorithm);
}

#[tokio::test]
async fn rejects_critical_extensions() {
    for crit in [r#"["b64"]"#, r#"["unknown"]"#, "[]", "5"] {
        let header = format!(r#"{{"alg":"RS256","kid":"1","crit":{crit}}}"#);
        assert_eq!(token_error(with_header(&header).await), TokenError::Critical, "{crit}");
    }
}

#[tokio::test]
async fn ignores_keys_embedded_in_token() {
    let thief = SigningKey::ed25519();
    let brought = json!({
        "alg": "EdDSA", "kid": "1", "jwk": thief.jwk("1"), "jku": "https://evil.example/keys",
        "x5u": "https://evil.example/cert", "x5c": ["MIIB"],
    });
    let token = thief.sign_text("EdDSA", &brought.to_string(), &claims().to_string());
    let verifier = verifier(&[SigningKey::ed25519().jwk("1")]);
    assert_eq!(token_error(verifier.verify(&token).await), TokenError::Signature);
    let harmless = json!({"alg": "RS256", "kid": "1", "jku": "https://evil.example/keys"});
    assert!(with_header(&harmless.to_string()).await.is_ok());
}

#[tokio::test]
async fn rejects_tokens_of_other_types() {
    let typed = |typ: &str| json!({"alg": "RS256", "kid": "1", "typ": typ}).to_string();
    for typ in ["JWT", "jwt", "at+jwt", "application/at+JWT"] {
        assert!(with_header(&typed(typ)).await.is_ok(), "{typ}");
    }
    for typ in ["oauth-id-jag+jwt", "dpop+jwt", "logout+jwt", "secevent+jwt", "", "application/"] {
        assert_eq!(token_error(with_header(&typed(typ)).await), TokenError::Type, "{typ}");
    }
}

#[tokio::test]
async fn cached_header_gives_same_result() {
    let (rsa, ec) = (SigningKey::rsa(), SigningKey::p256());
    let verifier = verifier(&[rsa.jwk("1"), ec.jwk("2")]);
    for _ in 0..2 {
        let forged = ec.sign_as("RS256", "1", &claims());
        assert_eq!(token_error(verifier.verify(&forged).await), TokenError::Signature);
        assert!(verifier.verify(&rsa.sign_as("RS256", "1", &claims())).await.is_ok());
        assert!(verifier.verify(&ec.sign_as("ES256", "2", &claims())).await.is_ok());
    }
    let token = rsa.sign_as("RS256", "1", &claims());
    assert!(verifier.verify(&token).await.is_ok());
    let stricter = verifier.algorithms(&[Algorithm::Es256]);
    assert_eq!(token_error(stricter.verify(&token).await), TokenError::Algorithm);
}

#[tokio::test]
async fn rejects_malformed_and_ambiguous_headers() {
    for header in [
        r#"{"alg":"RS256","kid":"1","alg":"RS256"}"#,
        r#"{"alg":"RS256","kid":"1","x":1,"\u0078":1}"#,
        r#"["alg","RS256"]"#,
        r#"{"kid":"1"}"#,
        r#"{"alg":5,"kid":"1"}"#,
        r#"{"alg":"RS256","kid":1}"#,
        r#"{"alg":"RS256","kid":"1"}x"#,
        r#"{"alg":"RS256","kid":"1","jku":5}"#,
        r#"{"alg":"RS256","kid":"1","jwk":"RSA"}"#,
        r#"{"alg":"RS256","kid":"1","x5c":"MIIB"}"#,
        "",
    ] {
        assert_eq!(token_error(with_header(header).await), TokenError::Malformed, "{header}");
    }
    let many: Vec<_> = (0..40).map(|name| format!("\"m{name}\":0")).collect();
    let header = format!(r#"{{"alg":"RS256","kid":"1",{}}}"#, many.join(","));
    assert_eq!(token_error(with_header(&header).await), TokenError::Malformed);
}

#[tokio::test]
async fn rejects_ambiguous_claims() {
    let text = claims().to_string().replacen('{', "{\"sub\":\"mallory\",", 1);
    let token = SigningKey::rsa().sign_text("RS256", r#"{"alg":"RS256","kid":"1"}"#, &text);
    let refused = verifier(&[SigningKey::rsa().jwk("1")]).verify(&token).await;
    assert_eq!(token_error(refused), TokenError::Malformed);
}

#[tokio::test]
async fn rejects_oversized_tokens() {
    let verifier = verifier(&[SigningKey::rsa().jwk("1")]);
    let token = |value| SigningKey::rsa().sign_as("RS256", "1", &claims_with("more", value));
    let long = token(json!("x".repeat(MAX_TOKEN_SIZE)));
    assert_eq!(token_error(verifier.verify(&long).await), TokenError::TooLong);
    let many: serde_json::Map<_, _> = (0..600).map(|at| (at.to_string(), json!(0))).collect();
    let refused = verifier.verify(&token(many.into())).await;
    assert_eq!(token_error(refused), TokenError::TooManyClaims);
}

#[tokio::test]
async fn token_without_kid_uses_only_key() {
    let ed = SigningKey::ed25519();
    let header = r#"{"alg":"EdDSA"}"#;
    let token = ed.sign_text("EdDSA", header, &claims().to_string());
    assert!(verifier(&[ed.jwk("1"), SigningKey::rsa().jwk("2")]).verify(&token).await.is_ok());
    let ambiguous = verifier(&[ed.jwk("1"), SigningKey::ed25519().jwk("2")]).verify(&token).await;
    assert_eq!(token_error(ambiguous), TokenError::UnknownKey);
}

/// Key source without cached keys, or without one of them; counts the loads.
struct CountingSource {
    at_hand: Option<Arc<KeySet>>,
    times: Arc<AtomicUsize>,
}

impl KeySource for CountingSource {
    fn current(&self) -> Option<Arc<KeySet>> {
        self.at_hand.clone()
    }

    fn load(&self, _: Option<Arc<KeySet>>) -> crate::KeysFuture {
        self.times.fetch_add(1, Ordering::Relaxed);
        Box::pin(std::future::ready(Err(crate::KeySourceError::Unreachable)))
    }
}

#[tokio::test]
async fn invalid_tokens_cause_no_key_fetch() {
    let others = KeySet::parse(set(&[SigningKey::ed25519().jwk("other")]).as_bytes()).unwrap();
    let sign = |claims: &Value| SigningKey::rsa().sign_as("RS256", "1", claims);
    let good = sign(&claims());
    let garbled = format!("{good}!");
    for (at_hand, token, asks) in [(None, &good, 1), (None, &garbled, 0), (Some(others), &good, 1)]
    {
        let times = Arc::new(AtomicUsize::new(0));
        let keys = CountingSource { at_hand: at_hand.map(Arc::new), times: Arc::clone(&times) };
        let verifier = Verifier::new(keys, ValidationOptions::new(ISSUER, AUDIENCE))
            .clock(Clock::manual(now()));
        assert!(verifier.verify(token).await.is_err());
        assert_eq!(times.load(Ordering::Relaxed), asks, "{token}");
    }
    for (claim, value) in [
        ("iss", json!("https://evil.example")),
        ("aud", json!("https://other.example")),
        ("exp", json!(NOW - 3600)),
    ] {
        let times = Arc::new(AtomicUsize::new(0));
        let others = KeySet::parse(set(&[SigningKey::ed25519().jwk("other")]).as_bytes()).unwrap();
        let keys = CountingSource { at_hand: Some(Arc::new(others)), times: Arc::clone(&times) };
        let verifier = Verifier::new(keys, ValidationOptions::new(ISSUER, AUDIENCE))
            .clock(Clock::manual(now()));
        let refused = verifier.verify(&sign(&claims_with(claim, value))).await;
        assert!(matches!(refused, Err(VerifyError::Token(_))), "{claim}: {refused:?}");
        assert_eq!(times.load(Ordering::Relaxed), 0, "{claim}");
    }
}

#[tokio::test]
async fn requires_expiry() {
    let verifier = verifier(&[SigningKey::rsa().jwk("1")]);
    for (exp, expected) in [
        (Value::Null, TokenError::Expiry),
        (json!((NOW + 60).to_string()), TokenError::Expiry),
        (json!(NOW - 31), TokenError::Expired),
    ] {
        let token = SigningKey::rsa().sign_as("RS256", "1", &claims_with("exp", exp));
        assert_eq!(token_error(verifier.verify(&token).await), expected);
    }
}

#[test]
fn recognizes_json_web_tokens() {
    let jwt = SigningKey::rsa().sign_as("RS256", "1", &claims());
    assert!(is_jwt(&jwt));
    assert!(is_jwt(&format!("{}.x.y", URL_SAFE_NO_PAD.encode(r#"{"alg":"none"}"#))));
    for opaque in ["", "opaque", "a.b.c", "a.b.c.d", "..", "e30.e30.e30"] {
        assert!(!is_jwt(opaque), "{opaque}");
    }
}

#[tokio::test]
async fn errors_contain_no_token_content() {
    let token =
        SigningKey::ed25519().sign_as("EdDSA", "canary", &claims_with("sub", json!("canary")));
    let verifier = verifier(&[SigningKey::rsa().jwk("1")]);
    let error = verifier.verify(&token).await.unwrap_err();
    let said = format!("{error} {error:?} {verifier:?}");
    assert!(!said.contains("canary") && !said.contains(&token), "{said}");
}

proptest! {
    #[test]
    fn verifies_arbitrary_text(token in ".{0,200}", header in ".{0,60}", claims in ".{0,60}") {
        let verifier = verifier(&[SigningKey::rsa().jwk("1")]);
        prop_assert!(!matches!(verifier.verify_now(&token), Some(Ok(_))));
        let signed = SigningKey::rsa().sign_text("RS256", &header, &claims);
        prop_assert!(!matches!(verifier.verify_now(&signed), Some(Ok(_))));
        let signed = SigningKey::rsa().sign_text("RS256", r#"{"alg":"RS256"}"#, &claims);
        prop_assert!(matches!(verifier.verify_now(&signed), Some(Err(_))));
    }
}

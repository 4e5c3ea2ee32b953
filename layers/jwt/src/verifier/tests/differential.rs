//! Comparison with `jsonwebtoken`: it accepts each token that the verifier accepts.
//!
//! The library has neither P-521 nor the name `Ed25519` of RFC 9864; their tokens are left out.

use jsonwebtoken::{DecodingKey, Validation};

use super::*;

/// Returns `true` if the library accepts `token`.
fn library_accepts(token: &str, key: &Value, algorithm: Algorithm) -> bool {
    let jwk: jsonwebtoken::jwk::Jwk = serde_json::from_value(key.clone()).unwrap();
    let mut validation = Validation::new(algorithm.to_library().unwrap());
    validation.leeway = crate::LEEWAY.as_secs();
    validation.validate_nbf = true;
    validation.set_issuer(&[ISSUER]);
    validation.set_audience(&[AUDIENCE]);
    validation.set_required_spec_claims(&["exp", "iss", "aud", "sub"]);
    let key = DecodingKey::from_jwk(&jwk).unwrap();
    jsonwebtoken::decode::<Value>(token, &key, &validation).is_ok()
}

const TEXTS: &[&str] = &[ISSUER, AUDIENCE, "1", "JWT", "at+jwt", "Bearer", "access", "other", ""];

/// Values for a member of header or claims, of every JSON type.
fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        proptest::sample::select(TEXTS).prop_map(|text| json!(text)),
        Just(json!([AUDIENCE, "https://other.example"])),
        Just(json!(["MIIB"])),
        Just(json!([1])),
        Just(json!({"kty": "OKP", "crv": "Ed25519", "x": "AAAA"})),
        Just(json!({"kty": 5})),
        Just(Value::Null),
        any::<bool>().prop_map(|it| json!(it)),
        any::<i64>().prop_map(|it| json!(it)),
        // The library reads the system clock: dates long past, or far ahead.
        Just(json!(1_000_000_000.5)),
        Just(json!(4_000_000_000_u64)),
        Just(json!(4_000_000_000.25)),
        Just(json!(1e300)),
    ]
}

fn members(names: &'static [&'static str]) -> impl Strategy<Value = Vec<(&'static str, Value)>> {
    proptest::collection::vec((proptest::sample::select(names), value()), 0..3)
}

const HEADER: &[&str] = &[
    "typ", "cty", "jku", "jwk", "x5u", "x5c", "x5t", "x5t#S256", "crit", "enc", "zip", "url",
    "nonce", "b64", "more",
];

const CLAIMS: &[&str] = &["iss", "aud", "sub", "exp", "nbf", "iat", "jti", "cnf", "typ", "scope"];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn library_accepts_accepted_tokens(
        algorithm in proptest::sample::select(Algorithm::ALL.as_slice()),
        header in members(HEADER),
        changes in members(CLAIMS),
    ) {
        prop_assume!(algorithm != Algorithm::Es512);
        let (p256, p384, ed) = (SigningKey::p256(), SigningKey::p384(), SigningKey::ed25519());
        let pair = match algorithm {
            Algorithm::Es256 => &p256,
            Algorithm::Es384 => &p384,
            Algorithm::EdDsa => &ed,
            _ => SigningKey::rsa(),
        };
        let mut full = json!({"alg": algorithm.name(), "kid": "1"});
        full.as_object_mut().unwrap().extend(header.into_iter().map(|(k, v)| (k.to_owned(), v)));
        let mut claims = claims_with("exp", json!(4_000_000_000_u64));
        claims.as_object_mut().unwrap().extend(changes.into_iter().map(|(k, v)| (k.to_owned(), v)));
        let token = pair.sign_text(algorithm.name(), &full.to_string(), &claims.to_string());
        if matches!(verifier(&[pair.jwk("1")]).verify_now(&token), Some(Ok(_))) {
            prop_assert!(library_accepts(&token, &pair.jwk("1"), algorithm), "{full} {claims}");
        }
    }
}

#[test]
fn library_accepts_valid_tokens() {
    for (pair, algorithm) in [
        (SigningKey::rsa(), Algorithm::Ps512),
        (&SigningKey::p384(), Algorithm::Es384),
        (&SigningKey::ed25519(), Algorithm::EdDsa),
    ] {
        let token =
            pair.sign_as(algorithm.name(), "1", &claims_with("exp", json!(4_000_000_000_u64)));
        assert!(matches!(verifier(&[pair.jwk("1")]).verify_now(&token), Some(Ok(_))));
        assert!(library_accepts(&token, &pair.jwk("1"), algorithm), "{algorithm}");
    }
}

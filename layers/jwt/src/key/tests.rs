use serde_json::{Value, json};

use super::*;
use vmcp_test_support::SigningKey;

fn key(jwk: Value) -> Result<Key, KeyError> {
    Key::new(&serde_json::from_value(jwk).unwrap())
}

fn with(mut jwk: Value, name: &str, value: Value) -> Value {
    jwk[name] = value;
    jwk
}

#[test]
fn key_supports_algorithms_of_kty_and_alg() {
    let algorithms = |jwk| -> Vec<Algorithm> { key(jwk).unwrap().algorithms().collect() };
    let rsa = SigningKey::rsa().jwk("1");
    assert_eq!(algorithms(rsa.clone()), Algorithm::ALL[..6]);
    assert_eq!(algorithms(with(rsa.clone(), "alg", json!("PS384"))), [Algorithm::Ps384]);
    for (algorithm, pair) in [
        (Algorithm::Es256, SigningKey::p256()),
        (Algorithm::Es384, SigningKey::p384()),
        (Algorithm::Es512, SigningKey::p521()),
        (Algorithm::EdDsa, SigningKey::ed25519()),
    ] {
        assert_eq!(algorithms(pair.jwk("1")), [algorithm]);
    }
    assert_eq!(key(with(rsa.clone(), "alg", json!("ES256"))).unwrap_err(), KeyError::Algorithm);
    assert_eq!(key(with(rsa, "alg", json!("RSA-OAEP"))).unwrap_err(), KeyError::Algorithm);
}

#[test]
fn rejects_keys_for_other_uses() {
    let rsa = SigningKey::rsa().jwk("1");
    for (name, value) in [("use", json!("enc")), ("key_ops", json!(["encrypt"]))] {
        assert_eq!(key(with(rsa.clone(), name, value)).unwrap_err(), KeyError::Usage);
    }
    assert!(key(with(rsa, "key_ops", json!(["verify"]))).is_ok());
}

#[test]
fn rejects_unknown_key_types() {
    let ec = SigningKey::p256().jwk("1");
    for jwk in [
        json!({"kty": "oct", "k": "c2VjcmV0"}),
        json!({"kty": "OKP", "crv": "X25519", "x": "AAAA"}),
        with(ec.clone(), "crv", json!("secp256k1")),
        with(ec, "crv", Value::Null),
    ] {
        assert_eq!(key(jwk.clone()).unwrap_err(), KeyError::Kind, "{jwk}");
    }
}

#[test]
fn rejects_invalid_key_parameters() {
    let (rsa, ec, ed) =
        (SigningKey::rsa().jwk("1"), SigningKey::p256().jwk("1"), SigningKey::ed25519());
    let short = URL_SAFE_NO_PAD.encode([0xff; 128]);
    let ones = URL_SAFE_NO_PAD.encode([1; 32]);
    for jwk in [
        with(rsa.clone(), "n", json!(short)),
        with(rsa.clone(), "n", json!("not base64")),
        with(rsa.clone(), "n", json!(URL_SAFE_NO_PAD.encode(vec![0xff; 2000]))),
        with(rsa, "e", Value::Null),
        // The name of another curve, and a point that is not on the curve.
        with(ec.clone(), "crv", json!("P-384")),
        with(ec, "x", json!(ones)),
        with(ed.jwk("1"), "x", json!(short)),
    ] {
        assert_eq!(key(jwk.clone()).unwrap_err(), KeyError::Numbers, "{jwk}");
    }
}

#[test]
fn computes_thumbprint_of_rfc_7638() {
    // The example of RFC 7638 section 3.1.
    let jwk: Jwk = serde_json::from_value(json!({
        "kty": "RSA", "e": "AQAB", "alg": "RS256", "kid": "2011-04-29",
        "n": "0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4n3oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw",
    }))
    .unwrap();
    assert_eq!(jwk.thumbprint().unwrap(), "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs");
    assert_eq!(Key::new(&jwk).unwrap().thumbprint(), jwk.thumbprint().unwrap());
}

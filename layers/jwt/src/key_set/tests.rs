use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::testing::set;
use vmcp_test_support::SigningKey;

fn parse(text: &str) -> Result<KeySet, KeySetError> {
    KeySet::parse(text.as_bytes())
}

#[test]
fn skips_unusable_keys() {
    let mut for_encryption = SigningKey::rsa().jwk("enc");
    for_encryption["use"] = json!("enc");
    let keys = [
        json!({"kty": "oct", "k": "c2VjcmV0"}),
        json!({"kty": 5}),
        json!("nonsense"),
        for_encryption,
        SigningKey::ed25519().jwk("good"),
    ];
    let set = parse(&set(&keys)).unwrap();
    assert_eq!(set.keys().iter().filter_map(Key::kid).collect::<Vec<_>>(), ["good"]);
}

#[test]
fn rejects_invalid_and_oversized_key_sets() {
    for other in ["", "{}", "[]", r#"{"keys":{}}"#, "<html></html>"] {
        assert_eq!(parse(other).unwrap_err(), KeySetError::Malformed, "{other}");
    }
    let many = vec![json!({}); MAX_KEYS + 1];
    assert_eq!(parse(&set(&many)).unwrap_err(), KeySetError::TooManyKeys);
    let huge = format!("{{\"keys\":[],\"x\":\"{}\"}}", "x".repeat(5 * 1024 * 1024));
    assert_eq!(parse(&huge).unwrap_err(), KeySetError::TooLarge);
    assert!(parse(&set(&[])).unwrap().is_empty());
}

#[test]
fn selects_among_equal_kids_by_key_type() {
    let keys =
        [SigningKey::rsa().jwk("1"), SigningKey::p256().jwk("1"), SigningKey::ed25519().jwk("1")];
    let set = parse(&set(&keys)).unwrap();
    for algorithm in [Algorithm::Ps256, Algorithm::Es256, Algorithm::EdDsa] {
        assert_eq!(set.candidates(Some("1"), algorithm).count(), 1, "{algorithm}");
    }
    assert_eq!(set.candidates(Some("1"), Algorithm::Es384).count(), 0);
    assert_eq!(set.candidates(Some("2"), Algorithm::Es256).count(), 0);
}

#[test]
fn missing_kid_selects_only_unambiguous_key() {
    let keys = [
        SigningKey::ed25519().jwk("1"),
        SigningKey::ed25519().jwk("2"),
        SigningKey::rsa().jwk("3"),
    ];
    let set = parse(&set(&keys)).unwrap();
    assert_eq!(set.candidates(None, Algorithm::EdDsa).count(), 0);
    assert_eq!(set.candidates(None, Algorithm::Rs256).count(), 1);
}

#[test]
fn tries_few_keys_with_equal_kid() {
    let keys: Vec<_> = (0..50).map(|_| SigningKey::ed25519().jwk("1")).collect();
    let set = parse(&set(&keys)).unwrap();
    assert_eq!(set.candidates(Some("1"), Algorithm::EdDsa).count(), MAX_KEYS_PER_KID);
}

#[test]
fn fingerprint_covers_keys_and_kids() {
    let (a, b) = (SigningKey::ed25519(), SigningKey::ed25519());
    let print = |keys: &[serde_json::Value]| parse(&set(keys)).unwrap().fingerprint();
    let both = print(&[a.jwk("a"), b.jwk("b")]);
    assert_eq!(both, print(&[b.jwk("b"), a.jwk("a")]));
    assert_ne!(both, print(&[a.jwk("a")]));
    assert_ne!(both, print(&[a.jwk("b"), b.jwk("a")]));
}

proptest! {
    #[test]
    fn parses_arbitrary_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        _ = KeySet::parse(&bytes);
    }

    #[test]
    fn parses_arbitrary_keys(kty in "RSA|EC|OKP", crv in "P-256|P-521|Ed25519", x in "[A-Za-z0-9_-]{0,90}", n in "[A-Za-z0-9_-]{0,700}") {
        let key = json!({"kty": kty, "crv": crv, "x": x, "y": x, "n": n, "e": x});
        prop_assert!(parse(&set(&[key])).is_ok());
    }
}

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::testing::{Pair, set};

fn parse(text: &str) -> Result<KeySet, KeySetError> {
    KeySet::parse(text.as_bytes())
}

#[test]
fn an_unusable_key_does_not_spoil_the_others() {
    let mut for_encryption = Pair::rsa().jwk("enc");
    for_encryption["use"] = json!("enc");
    let keys = [
        json!({"kty": "oct", "k": "c2VjcmV0"}),
        json!({"kty": 5}),
        json!("nonsense"),
        for_encryption,
        Pair::ed().jwk("good"),
    ];
    let set = parse(&set(&keys)).unwrap();
    assert_eq!(set.keys().iter().filter_map(Key::kid).collect::<Vec<_>>(), ["good"]);
}

#[test]
fn refuses_what_is_no_set_or_too_much_of_one() {
    for other in ["", "{}", "[]", r#"{"keys":{}}"#, "<html></html>"] {
        assert_eq!(parse(other).unwrap_err(), KeySetError::Malformed, "{other}");
    }
    let many = vec![json!({}); MAX_KEYS + 1];
    assert_eq!(parse(&set(&many)).unwrap_err(), KeySetError::TooMany);
    let huge = format!("{{\"keys\":[],\"x\":\"{}\"}}", "x".repeat(5 * 1024 * 1024));
    assert_eq!(parse(&huge).unwrap_err(), KeySetError::TooLarge);
    assert!(parse(&set(&[])).unwrap().is_empty());
}

#[test]
fn keys_of_one_name_are_told_apart_by_their_kind() {
    let keys = [Pair::rsa().jwk("1"), Pair::ec(Algorithm::Es256).jwk("1"), Pair::ed().jwk("1")];
    let set = parse(&set(&keys)).unwrap();
    for algorithm in [Algorithm::Ps256, Algorithm::Es256, Algorithm::EdDsa] {
        assert_eq!(set.candidates(Some("1"), algorithm).count(), 1, "{algorithm}");
    }
    assert_eq!(set.candidates(Some("1"), Algorithm::Es384).count(), 0);
    assert_eq!(set.candidates(Some("2"), Algorithm::Es256).count(), 0);
}

#[test]
fn without_a_name_only_an_unambiguous_key_is_taken() {
    let keys = [Pair::ed().jwk("1"), Pair::ed().jwk("2"), Pair::rsa().jwk("3")];
    let set = parse(&set(&keys)).unwrap();
    assert_eq!(set.candidates(None, Algorithm::EdDsa).count(), 0);
    assert_eq!(set.candidates(None, Algorithm::Rs256).count(), 1);
}

#[test]
fn only_a_few_namesakes_are_tried() {
    let keys: Vec<_> = (0..50).map(|_| Pair::ed().jwk("1")).collect();
    let set = parse(&set(&keys)).unwrap();
    assert_eq!(set.candidates(Some("1"), Algorithm::EdDsa).count(), MAX_NAMESAKES);
}

#[test]
fn the_fingerprint_is_of_the_keys_and_their_names() {
    let (a, b) = (Pair::ed(), Pair::ed());
    let print = |keys: &[serde_json::Value]| parse(&set(keys)).unwrap().fingerprint();
    let both = print(&[a.jwk("a"), b.jwk("b")]);
    assert_eq!(both, print(&[b.jwk("b"), a.jwk("a")]));
    assert_ne!(both, print(&[a.jwk("a")]));
    assert_ne!(both, print(&[a.jwk("b"), b.jwk("a")]));
}

proptest! {
    #[test]
    fn no_bytes_break_the_reader(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        _ = KeySet::parse(&bytes);
    }

    #[test]
    fn no_key_breaks_the_reader(kty in "RSA|EC|OKP", crv in "P-256|P-521|Ed25519", x in "[A-Za-z0-9_-]{0,90}", n in "[A-Za-z0-9_-]{0,700}") {
        let key = json!({"kty": kty, "crv": crv, "x": x, "y": x, "n": n, "e": x});
        prop_assert!(parse(&set(&[key])).is_ok());
    }
}

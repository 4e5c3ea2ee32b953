//! Every kind of key, from every kind of file.

use std::process::Command;

use serde_json::json;
use vmcp_core::Clock;
use vmcp_jwt::{ValidationOptions, Verifier};

use super::*;

/// A key as the usual tool makes it.
fn made(arguments: &[&str]) -> Vec<u8> {
    let output = Command::new("openssl").args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

fn verifies(keys: &Keys, token: &str) -> bool {
    let rules = ValidationOptions::new("https://as.example", "https://mcp.example");
    let verifier = Verifier::new(Arc::clone(keys.set()), rules).clock(Clock::system());
    verifier.verify_now(token).is_some_and(|verified| verified.is_ok())
}

fn token(keys: &Keys) -> String {
    let claims = json!({
        "iss": "https://as.example", "aud": "https://mcp.example", "sub": "u",
        "exp": Clock::system().unix() + 60,
    });
    keys.sign("at+jwt", &claims).unwrap()
}

#[test]
fn every_kind_of_key_signs_what_its_published_form_verifies() {
    let curve = |name: &'static str| format!("ec_paramgen_curve:{name}");
    let (p256, p384) = (curve("P-256"), curve("P-384"));
    for (arguments, algorithm) in [
        (
            vec!["genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"],
            Algorithm::Rs256,
        ),
        (vec!["genrsa", "-traditional", "2048"], Algorithm::Rs256),
        (vec!["genpkey", "-algorithm", "EC", "-pkeyopt", &p256], Algorithm::Es256),
        (vec!["genpkey", "-algorithm", "EC", "-pkeyopt", &p384], Algorithm::Es384),
        (vec!["ecparam", "-name", "prime256v1", "-genkey", "-noout"], Algorithm::Es256),
        (vec!["ecparam", "-name", "secp384r1", "-genkey", "-noout"], Algorithm::Es384),
        (vec!["genpkey", "-algorithm", "ED25519"], Algorithm::EdDsa),
    ] {
        let keys = Keys::new(&[made(&arguments)])
            .unwrap_or_else(|fault| panic!("{arguments:?}: {fault:?}"));
        assert_eq!(keys.algorithm(), algorithm, "{arguments:?}");
        assert!(verifies(&keys, &token(&keys)), "{arguments:?}");
        assert!(!keys.is_ephemeral());
    }
}

#[test]
fn keys_that_are_too_weak_or_unknown_are_refused_with_their_place() {
    let good = made(&["genpkey", "-algorithm", "ED25519"]);
    let short = made(&["genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:1024"]);
    let p521 = made(&["genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-521"]);
    let refused = |second: &[u8]| Keys::new(&[&good[..], second]).unwrap_err();
    assert_eq!(refused(&p521), (1, SigningKeyFault::Kind));
    assert_eq!(refused(b"not a key"), (1, SigningKeyFault::NotPem));
    assert_eq!(refused(&good), (1, SigningKeyFault::Twice));
    assert!(matches!(refused(&short), (1, SigningKeyFault::TooShort | SigningKeyFault::Kind)));
    let many: Vec<_> = (0..6).map(|_| made(&["genpkey", "-algorithm", "ED25519"])).collect();
    assert_eq!(Keys::new(&many).unwrap_err().1, SigningKeyFault::TooMany);
}

#[test]
fn during_a_rotation_tokens_of_both_keys_verify_and_of_a_removed_one_do_not() {
    let [old, new] = [(); 2].map(|()| made(&["genpkey", "-algorithm", "ED25519"]));
    let before = token(&Keys::new(&[&old]).unwrap());
    let during = Keys::new(&[&new, &old]).unwrap();
    assert!(verifies(&during, &before));
    assert!(verifies(&during, &token(&during)));
    let after = Keys::new(&[&new]).unwrap();
    assert!(!verifies(&after, &before));
    assert!(verifies(&after, &token(&during)));
    let published: serde_json::Value = serde_json::from_slice(during.published()).unwrap();
    assert_eq!(published["keys"].as_array().unwrap().len(), 2);
    assert_eq!(published["keys"][0]["kid"], during.signer.kid());
}

#[test]
fn without_a_key_one_is_made_up_and_says_so() {
    let keys = Keys::new::<Vec<u8>>(&[]).unwrap();
    assert!(keys.is_ephemeral());
    assert_eq!(keys.algorithm(), Algorithm::Es256);
    assert!(verifies(&keys, &token(&keys)));
}

#[test]
fn nothing_private_is_published_or_shown() {
    let pem = made(&["genpkey", "-algorithm", "ED25519"]);
    let keys = Keys::new(&[&pem]).unwrap();
    let published: serde_json::Value = serde_json::from_slice(keys.published()).unwrap();
    let mut names: Vec<_> = published["keys"][0].as_object().unwrap().keys().cloned().collect();
    // Their order is a feature that another crate may have turned on.
    names.sort();
    assert_eq!(names, ["alg", "crv", "kid", "kty", "use", "x"]);
    let inside = String::from_utf8(pem).unwrap();
    let inside = inside.lines().nth(1).unwrap();
    assert!(!format!("{keys:?}").contains(inside));
}

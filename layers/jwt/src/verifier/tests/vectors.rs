//! Published test vectors: Wycheproof's JSON Web Signatures and Keys, and the signatures of RFC 7520 section 4.

use wycheproof_ng_core::TestResult;
use wycheproof_ng_kdf_jose::json_web::{Test, TestName, TestSet};

use super::*;

/// Valid vectors that are rejected on purpose: the published key names another algorithm than the token. The examples
/// of RFC 7520 verify once that name is removed.
const MISNAMED_ALGORITHM: [usize; 4] = [346, 347, 350, 351];

/// Vectors with a modulus of the vulnerable generator of CVE-2017-15361, which only the issuer can replace.
const WEAK_MODULUS: [usize; 1] = [7];

/// Verifies the signature of a vector; its payload is not a set of claims.
fn verify_signature(keys: &Value, test: &Test) -> Result<(), TokenError> {
    // The other vectors are in the JSON serialization.
    let token = test.jws.as_ref().and_then(Value::as_str).ok_or(TokenError::Malformed)?;
    let verifier = verifier(&[]);
    let keys = KeySet::parse(keys.to_string().as_bytes()).unwrap();
    let parts = verifier.split(token)?;
    verifier.verify_signature(&keys, &parts)?;
    // The payload is decoded after the signature.
    decode(parts.payload).map(|_| ())
}

fn is_valid(test: &Test) -> bool {
    test.result == TestResult::Valid
}

fn is_symmetric(test: &Test) -> bool {
    let token = test.jws.as_ref().and_then(Value::as_str).unwrap();
    let header = decode(token.split('.').next().unwrap()).unwrap_or_default();
    String::from_utf8_lossy(&header).contains("HS")
}

#[test]
fn agrees_with_wycheproof_signatures() {
    let vectors = TestSet::load(TestName::JsonWebSignature).unwrap();
    let mut accepted = 0;
    for group in vectors.test_groups {
        let key = group.public_key.or(group.private_key).unwrap();
        let keys = json!({ "keys": [key] });
        for test in group.tests {
            let outcome = verify_signature(&keys, &test);
            let is_rejected = is_symmetric_key(&keys) || MISNAMED_ALGORITHM.contains(&test.tc_id);
            let expected = is_valid(&test) && !is_rejected;
            assert_eq!(outcome.is_ok(), expected, "{} {}: {outcome:?}", test.tc_id, test.comment);
            accepted += usize::from(outcome.is_ok());
        }
    }
    assert_eq!(accepted, 32);
}

fn is_symmetric_key(keys: &Value) -> bool {
    keys["keys"][0]["kty"] == "oct"
}

#[test]
fn agrees_with_wycheproof_key_sets() {
    let vectors = TestSet::load(TestName::JsonWebKey).unwrap();
    for group in vectors.test_groups {
        let keys = group.public_key.or(group.private_key).unwrap();
        let keys = if keys.get("keys").is_some() { keys } else { json!({ "keys": [keys] }) };
        for test in group.tests {
            let outcome = verify_signature(&keys, &test);
            let expected =
                (is_valid(&test) && !is_symmetric(&test)) || WEAK_MODULUS.contains(&test.tc_id);
            assert_eq!(outcome.is_ok(), expected, "{} {}: {outcome:?}", test.tc_id, test.comment);
        }
    }
}

#[test]
fn verifies_examples_of_rfc_7520() {
    let vectors = TestSet::load(TestName::JsonWebSignature).unwrap();
    let mut verified = Vec::new();
    for mut group in vectors.test_groups.into_iter().filter(|it| it.group_comment == "rfc7520") {
        let mut key = group.public_key.or(group.private_key).unwrap();
        // RFC 7520 section 3 has no `alg` in its asymmetric keys; the vectors add one.
        key.as_object_mut().unwrap().remove("alg");
        let test = group.tests.remove(0);
        let outcome = verify_signature(&json!({ "keys": [key] }), &test);
        assert_eq!(outcome.is_ok(), !is_symmetric(&test), "{}: {outcome:?}", test.comment);
        verified.extend(outcome.map(|()| test.comment));
    }
    assert_eq!(verified, ["Figure13", "Figure20", "Figure27"]);
}

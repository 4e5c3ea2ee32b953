//! Contents of the Secrets and ConfigMaps that the servers of the tests refer to.

use vmcp_api::conversion::SecretSource;

/// Returns the value of a key.
pub(super) fn value(source: &SecretSource) -> String {
    match (source.name.as_str(), source.key.as_str()) {
        ("ca", "ca.crt") => certificate(),
        ("keys", "signing.pem") => signing_key(),
        ("keys", "hmac") => "0123456789abcdef0123456789abcdef".to_owned(),
        ("keys", _) => "value-of-the-key".to_owned(),
        other => panic!("no test has {other:?}"),
    }
}

/// Returns a certificate authority, as PEM.
fn certificate() -> String {
    let key = rcgen::KeyPair::generate().unwrap();
    rcgen::CertificateParams::new(vec!["ca.invalid".to_owned()])
        .unwrap()
        .self_signed(&key)
        .unwrap()
        .pem()
}

fn signing_key() -> String {
    rcgen::KeyPair::generate().unwrap().serialize_pem()
}

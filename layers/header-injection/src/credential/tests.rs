use proptest::prelude::*;
use tokio_test::block_on;

use super::*;

const CANARY: &str = "canary-3f9a";

fn secret(text: &str) -> SecretString {
    text.to_owned().into()
}

fn value_of(credential: &Credential) -> HeaderValue {
    block_on(credential.value(None)).unwrap().unwrap()
}

#[test]
fn rejects_secrets_with_invalid_characters() {
    for (text, error) in [
        ("", SecretError::Empty),
        ("a\r\nX-Admin: 1", SecretError::LineBreak),
        ("a\n", SecretError::LineBreak),
        ("a\0b", SecretError::Illegal),
        ("a\tb", SecretError::Illegal),
        ("a\x7f", SecretError::Illegal),
        (" a", SecretError::Illegal),
        ("a ", SecretError::Illegal),
        ("schlüssel", SecretError::Illegal),
        ("\u{202e}a", SecretError::Illegal),
    ] {
        assert_eq!(Credential::fixed(&secret(text)).unwrap_err(), error, "{text:?}");
        assert!(Credential::bearer(&secret(text)).is_err(), "{text:?}");
    }
    let long = secret(&"a".repeat(MAX_SECRET_LEN + 1));
    assert_eq!(Credential::fixed(&long).unwrap_err(), SecretError::TooLong);
}

#[test]
fn fixed_secret_may_contain_space_but_not_token() {
    assert!(Credential::fixed(&secret("Token abc")).is_ok());
    assert_eq!(Credential::bearer(&secret("Token abc")).unwrap_err(), SecretError::Illegal);
}

#[test]
fn never_reveals_secret() {
    let credential = Credential::bearer(&secret(CANARY)).unwrap();
    let value = value_of(&credential);
    assert!(value.is_sensitive());
    assert_eq!(value, format!("Bearer {CANARY}"));
    let error = Credential::fixed(&secret(&format!("{CANARY}\n"))).unwrap_err();
    let future = credential.value(None);
    for shown in [format!("{credential:?} {value:?} {future:?}"), format!("{error:?} {error}")] {
        assert!(!shown.contains(CANARY), "{shown}");
    }
}

proptest! {
    #[test]
    fn accepted_secrets_make_valid_header_values(text in any::<String>()) {
        let Ok(credential) = Credential::fixed(&secret(&text)) else { return Ok(()) };
        let value = value_of(&credential);
        prop_assert_eq!(value.to_str().unwrap(), text.trim());
    }
}

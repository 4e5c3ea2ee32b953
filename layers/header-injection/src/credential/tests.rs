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
fn refuses_a_secret_that_breaks_the_header_open() {
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
    let long = secret(&"a".repeat(MAX_LENGTH + 1));
    assert_eq!(Credential::fixed(&long).unwrap_err(), SecretError::TooLong);
}

#[test]
fn a_fixed_secret_may_be_two_words_and_a_token_may_not() {
    assert!(Credential::fixed(&secret("Token abc")).is_ok());
    assert_eq!(Credential::bearer(&secret("Token abc")).unwrap_err(), SecretError::Illegal);
}

#[test]
fn never_shows_the_secret() {
    let credential = Credential::bearer(&secret(CANARY)).unwrap();
    let value = value_of(&credential);
    assert!(value.is_sensitive());
    assert_eq!(value, format!("Bearer {CANARY}"));
    let refused = Credential::fixed(&secret(&format!("{CANARY}\n"))).unwrap_err();
    let future = credential.value(None);
    for shown in [format!("{credential:?} {value:?} {future:?}"), format!("{refused:?} {refused}")]
    {
        assert!(!shown.contains(CANARY), "{shown}");
    }
}

proptest! {
    #[test]
    fn whatever_the_secret_the_value_is_legal_and_means_it(text in any::<String>()) {
        let Ok(credential) = Credential::fixed(&secret(&text)) else { return Ok(()) };
        let value = value_of(&credential);
        prop_assert_eq!(value.to_str().unwrap(), text.trim());
    }
}

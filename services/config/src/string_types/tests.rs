use proptest::prelude::*;

use super::{EnvName, HeaderName, HostPort, Issuer, ProviderName, Region, RoleArn, Secret};

#[test]
fn accepts_issuers_of_rfc_8414_only() {
    for good in [
        "https://a.example",
        "https://a.example/realms/x",
        "http://localhost:8080",
        "http://127.0.0.1:1",
        "http://[::1]:1",
    ] {
        assert_eq!(Issuer::new(good).as_ref().map(Issuer::as_str), Some(good));
    }
    for bad in [
        "",
        "https://a/",
        "https://a?b",
        "https://a#b",
        "http://a.example",
        "ftp://a",
        "https://u:p@a",
        "https://a b",
        "a",
    ] {
        assert_eq!(Issuer::new(bad), None, "{bad}");
    }
}

#[test]
fn provider_name_has_at_most_63_characters() {
    assert!(ProviderName::new(&"a".repeat(63)).is_some());
    for bad in ["", "A", "-a", "a-", "a_b", "a.b", &"a".repeat(64)] {
        assert_eq!(ProviderName::new(bad), None, "{bad}");
    }
}

#[test]
fn checks_names_of_variables_and_headers() {
    assert!(EnvName::new("_A1").is_some());
    for bad in ["", "1A", "A-B", "A=B", "A B"] {
        assert_eq!(EnvName::new(bad), None, "{bad}");
    }
    assert!(HeaderName::new("X-Api-Key").is_some());
    for bad in ["", "X Y", "X:", "X\r\nY", "Ä"] {
        assert_eq!(HeaderName::new(bad), None, "{bad}");
    }
}

#[test]
fn aws_names_have_the_form_of_the_reference() {
    for good in ["us-east-1", "us-gov-west-1", "ap-southeast-12"] {
        assert!(Region::new(good).is_some(), "{good}");
    }
    for bad in ["", "useast1", "US-EAST-1", "us-east", "u-east-1"] {
        assert_eq!(Region::new(bad), None, "{bad}");
    }
    for good in
        ["arn:aws:iam::123456789012:role/a", "arn:aws-cn:iam::123456789012:role/p/a+b=c,d.e@f-g_h"]
    {
        assert!(RoleArn::new(good).is_some(), "{good}");
    }
    for bad in [
        "arn:aws:iam::12345678901:role/a",
        "arn:aws:iam::123456789012:user/a",
        "arn:aws:iam::123456789012:role/",
        "arn:aws:iam::12345678901٣:role/a",
    ] {
        assert_eq!(RoleArn::new(bad), None, "{bad}");
    }
}

#[test]
fn address_requires_host_and_port() {
    for good in ["redis:6379", "10.0.0.1:1", "[::1]:65535", "a.b-c:80"] {
        assert!(HostPort::new(good).is_some(), "{good}");
    }
    for bad in
        ["", "redis", "redis:", ":6379", "redis:0", "redis:65536", "::1:80", "redis://a:1", "a b:1"]
    {
        assert_eq!(HostPort::new(bad), None, "{bad}");
    }
}

#[test]
fn debug_output_hides_secret() {
    let secret = Secret(secrecy::SecretString::from("sesame"));
    assert_eq!(format!("{secret:?}"), "Secret(..)");
}

proptest! {
    #[test]
    fn name_parsers_never_panic(text in ".{0,80}") {
        let _ = (Issuer::new(&text), HostPort::new(&text), RoleArn::new(&text), ProviderName::new(&text));
    }

    #[test]
    fn provider_name_begins_and_ends_with_alphanumeric(text in "[a-z0-9-]{1,70}") {
        let expected = !text.starts_with('-') && !text.ends_with('-') && text.len() <= 63;
        prop_assert_eq!(ProviderName::new(&text).is_some(), expected);
    }
}

//! Client authentication (RFC 6749 section 2.3.1).

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use form_urlencoded::byte_serialize;
use http::HeaderValue;
use secrecy::{ExposeSecret, SecretString};

/// Returns the `Authorization` header of a client that authenticates with HTTP Basic; marked sensitive.
///
/// Id and secret are form-encoded before they are joined, since a colon in the id must not end it.
///
/// # Panics
/// Never: Base64 is a valid header value.
#[must_use]
pub fn basic_credentials(client_id: &str, client_secret: &SecretString) -> HeaderValue {
    let pair: String = byte_serialize(client_id.as_bytes())
        .chain([":"])
        .chain(byte_serialize(client_secret.expose_secret().as_bytes()))
        .collect();
    let mut header = HeaderValue::try_from(format!("Basic {}", BASE64_STANDARD.encode(pair)))
        .expect("Base64 is a valid header value");
    header.set_sensitive(true);
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn basic_encodes_parts_before_joining() {
        let header = basic_credentials("a:b", &"s p%".into());
        let encoded = header.to_str().unwrap().strip_prefix("Basic ").unwrap();
        assert_eq!(BASE64_STANDARD.decode(encoded).unwrap(), b"a%3Ab:s+p%25");
        assert!(header.is_sensitive());
    }
}

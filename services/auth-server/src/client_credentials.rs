//! Client authentication.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use secrecy::{ExposeSecret, SecretString};
use vmcp_auth_store::{Client, ClientAuth, ClientId, Digest};

use crate::client_id_metadata::is_document_url;
use crate::error::{ErrorCode, OAuthError};
use crate::params::Params;

/// Client credentials of a request to the token endpoint.
#[derive(Debug)]
pub(crate) struct Credentials {
    pub(crate) id: ClientId,
    secret: Option<SecretString>,
    /// `true` if the credentials came in the `Authorization` header.
    pub(crate) basic: bool,
}

impl Credentials {
    /// Reads the credentials of a request: HTTP Basic or form parameters, never both (RFC 6749 section 2.3).
    pub(crate) fn from_request(
        headers: &HeaderMap,
        params: &Params<'_>,
    ) -> Result<Self, OAuthError> {
        let mut headers = headers.get_all(AUTHORIZATION).iter();
        let header = headers.next();
        if headers.next().is_some() {
            return Err(OAuthError::invalid_request(
                "the Authorization header is repeated: send it once",
            ));
        }
        let in_form = params.get("client_id");
        let secret = params.get("client_secret");
        let Some(header) = header else {
            let id = in_form.ok_or(OAuthError::new(
                ErrorCode::InvalidClient,
                "client_id is missing: send it in the form or in the Authorization header",
            ))?;
            let secret = secret.map(SecretString::from);
            return Ok(Self { id: name(id)?, secret, basic: false });
        };
        let rejected = || {
            OAuthError::new(
                ErrorCode::InvalidClient,
                "the Authorization header is malformed: use HTTP Basic with form-encoded client_id and secret",
            )
            .basic(true)
        };
        if secret.is_some() {
            return Err(OAuthError::invalid_request(
                "client credentials are repeated: send them in the header or in the form",
            ));
        }
        let (id, secret) = header.to_str().ok().and_then(basic).ok_or_else(rejected)?;
        if in_form.is_some_and(|in_form| in_form != id) {
            return Err(OAuthError::invalid_request(
                "client_id differs between header and form: send one value",
            ));
        }
        // Some client libraries send an empty secret for a public client (RFC 6749 section 2.3.1 treats it as omitted).
        let secret = Some(secret).filter(|secret| !secret.expose_secret().is_empty());
        Ok(Self { id: name(&id)?, secret, basic: true })
    }

    /// Verifies the credentials against the client's. `None` is a client without a registration: only one identified by a
    /// metadata document remains, and such a client has no secret.
    pub(crate) fn check(&self, client: Option<&Client>) -> Result<(), OAuthError> {
        let rejected = || {
            let error = OAuthError::new(
                ErrorCode::InvalidClient,
                "failed to authenticate client: it is unknown or its secret is wrong",
            );
            error.basic(self.basic)
        };
        let auth = match client {
            Some(client) => client.auth,
            None if is_document_url(self.id.as_str()) => ClientAuth::None,
            None => return Err(rejected()),
        };
        match (auth, &self.secret) {
            (ClientAuth::None, None) => Ok(()),
            // Accept either method regardless of the registered one: clients mix them up, and neither is weaker.
            (
                ClientAuth::ClientSecretBasic(known) | ClientAuth::ClientSecretPost(known),
                Some(secret),
            ) => {
                let given = Digest::of(secret.expose_secret());
                verify_slices_are_equal(given.as_bytes(), known.as_bytes()).map_err(|_| rejected())
            }
            (ClientAuth::None, Some(_)) | (_, None) => Err(rejected()),
        }
    }
}

fn name(id: &str) -> Result<ClientId, OAuthError> {
    ClientId::new(id).map_err(|_| {
        OAuthError::new(
            ErrorCode::InvalidClient,
            "client_id is malformed: use the value from the registration",
        )
    })
}

/// Returns user name and password of a Basic header, both form-encoded (RFC 6749 section 2.3.1).
fn basic(header: &str) -> Option<(String, SecretString)> {
    let (scheme, encoded) = header.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let text = String::from_utf8(STANDARD.decode(encoded.trim()).ok()?).ok()?;
    let (id, secret) = text.split_once(':')?;
    let decode = |text: &str| {
        // The form decoder must see a single pair: `&` or `=` would split the text. Empty text yields no pair.
        let plain = !text.contains(['&', '=']);
        let pair = form_urlencoded::parse(text.as_bytes()).next();
        plain.then(|| pair.map(|(name, _)| name.into_owned()).unwrap_or_default())
    };
    Some((decode(id)?, decode(secret)?.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(header: Option<&str>, form: &str) -> Result<Credentials, OAuthError> {
        let mut headers = HeaderMap::new();
        if let Some(header) = header {
            headers.insert(
                AUTHORIZATION,
                format!("Basic {}", STANDARD.encode(header)).parse().unwrap(),
            );
        }
        Credentials::from_request(&headers, &Params::parse(form.as_bytes()).unwrap())
    }

    #[test]
    fn decodes_form_encoded_basic_credentials() {
        let read = read(Some("a%3Ab+c:p%25%3A"), "").unwrap();
        assert_eq!((read.id.as_str(), read.basic), ("a:b c", true));
        assert_eq!(read.secret.unwrap().expose_secret(), "p%:");
    }

    #[test]
    fn rejects_credentials_in_header_and_form() {
        assert_eq!(
            read(Some("a:b"), "client_secret=b").unwrap_err().code,
            ErrorCode::InvalidRequest
        );
        assert_eq!(read(Some("a:b"), "client_id=c").unwrap_err().code, ErrorCode::InvalidRequest);
        assert!(read(Some("a:b"), "client_id=a").is_ok());
        assert_eq!(read(None, "").unwrap_err().code, ErrorCode::InvalidClient);
        assert_eq!(read(Some("a"), "").unwrap_err().code, ErrorCode::InvalidClient);
    }

    #[test]
    fn treats_empty_secret_as_absent() {
        for (header, form) in [(Some("a:"), ""), (None, "client_id=a&client_secret=")] {
            assert!(read(header, form).unwrap().secret.is_none(), "{header:?}");
        }
    }

    #[test]
    fn debug_output_omits_client_secret() {
        assert!(!format!("{:?}", read(Some("a:canary"), "")).contains("canary"));
    }
}

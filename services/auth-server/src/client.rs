//! Client lookup and client authentication.

use std::net::IpAddr;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use secrecy::{ExposeSecret, SecretString};
use vmcp_auth_store::{Client, ClientAuth, ClientId, Digest, Grant};

use crate::cimd::{CimdFault, is_document_url};
use crate::error::{Code, Fault};
use crate::event::{Event, Happened, Revoker};
use crate::params::Params;
use crate::redirect::RedirectUri;
use crate::server::Inner;

/// Client credentials of a request to the token endpoint.
#[derive(Debug)]
pub(crate) struct Credentials {
    pub(crate) id: ClientId,
    secret: Option<SecretString>,
    /// `true` if the credentials came in the `Authorization` header.
    pub(crate) basic: bool,
}

/// Error of a client lookup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unknown {
    /// The client is not registered, or its registration expired.
    NotRegistered,
    /// The client's metadata document is not usable.
    Document(CimdFault),
    /// The lookup failed; a retry may succeed.
    Unavailable(Fault),
}

impl Inner {
    /// Returns the client of this identifier, for a request from this address.
    pub(crate) async fn client(&self, id: &str, address: IpAddr) -> Result<Client, Unknown> {
        let name = ClientId::new(id).map_err(|_| Unknown::NotRegistered)?;
        if let Some(cimd) = self.cimd.as_ref().filter(|_| is_document_url(id)) {
            return cimd.client(&name, address, self).await.map_err(Unknown::Document);
        }
        let found =
            self.store.client(&name).await.map_err(|error| Unknown::Unavailable(error.into()))?;
        found.ok_or(Unknown::NotRegistered)
    }
}

impl Inner {
    /// Checks that the client of a grant may refresh. A client identified by a metadata document may do so while the
    /// document exists and allows it. A failed fetch or a cached document revokes nothing.
    ///
    /// # Errors
    /// The document is gone, which ends the session, or it is no longer usable.
    pub(crate) async fn check_document(&self, grant: &Grant, address: IpAddr) -> Result<(), Fault> {
        let id = &grant.client;
        let Some(cimd) = self.cimd.as_ref().filter(|_| is_document_url(id.as_str())) else {
            return Ok(());
        };
        match cimd.client(id, address, self).await {
            Ok(client) if client.refresh => Ok(()),
            Ok(_) => {
                let words = "the client's metadata document does not list refresh_token";
                Err(Fault::new(Code::UnauthorizedClient, words))
            }
            Err(CimdFault::Gone) => {
                tracing::warn!(client = %id, "a client's metadata document is gone: its grant is ended");
                self.end_session(grant.session).await?;
                self.tell(Event::of_grant(grant, Happened::TokenRevoked { by: Revoker::Client }));
                Err(Fault::grant("the client withdrew its metadata document"))
            }
            Err(CimdFault::Unreachable | CimdFault::Slow | CimdFault::Busy) => Ok(()),
            Err(
                CimdFault::TooLarge
                | CimdFault::NotJson
                | CimdFault::OtherClient
                | CimdFault::Content(_),
            ) => {
                let words = "the client's metadata document is not usable any more";
                Err(Fault::new(Code::InvalidClient, words))
            }
        }
    }
}

impl Credentials {
    /// Reads the credentials of a request: HTTP Basic or form parameters, never both (RFC 6749 section 2.3).
    pub(crate) fn read(headers: &HeaderMap, params: &Params<'_>) -> Result<Self, Fault> {
        let mut headers = headers.get_all(AUTHORIZATION).iter();
        let header = headers.next();
        if headers.next().is_some() {
            return Err(Fault::request("there is more than one Authorization header"));
        }
        let in_form = params.get("client_id");
        let secret = params.get("client_secret");
        let Some(header) = header else {
            let id = in_form.ok_or(Fault::new(Code::InvalidClient, "client_id is missing"))?;
            let secret = secret.map(SecretString::from);
            return Ok(Self { id: name(id)?, secret, basic: false });
        };
        let refused =
            || Fault::new(Code::InvalidClient, "the Authorization header is malformed").basic(true);
        if secret.is_some() {
            return Err(Fault::request("the client authenticates in the header and in the form"));
        }
        let (id, secret) = header.to_str().ok().and_then(basic).ok_or_else(refused)?;
        if in_form.is_some_and(|in_form| in_form != id) {
            return Err(Fault::request("client_id is another one in the header and in the form"));
        }
        // Some client libraries send an empty secret for a public client (RFC 6749 section 2.3.1 treats it as omitted).
        let secret = Some(secret).filter(|secret| !secret.expose_secret().is_empty());
        Ok(Self { id: name(&id)?, secret, basic: true })
    }

    /// Verifies the credentials against the client's. `None` is a client without a registration: only one identified by a
    /// metadata document remains, and such a client has no secret.
    pub(crate) fn check(&self, client: Option<&Client>) -> Result<(), Fault> {
        let refused = || {
            let fault =
                Fault::new(Code::InvalidClient, "the client is unknown or its secret is wrong");
            fault.basic(self.basic)
        };
        let auth = match client {
            Some(client) => client.auth,
            None if is_document_url(self.id.as_str()) => ClientAuth::None,
            None => return Err(refused()),
        };
        match (auth, &self.secret) {
            (ClientAuth::None, None) => Ok(()),
            // Accept either method regardless of the registered one: clients mix them up, and neither is weaker.
            (
                ClientAuth::ClientSecretBasic(known) | ClientAuth::ClientSecretPost(known),
                Some(secret),
            ) => {
                let given = Digest::of(secret.expose_secret());
                verify_slices_are_equal(given.as_bytes(), known.as_bytes()).map_err(|_| refused())
            }
            (ClientAuth::None, Some(_)) | (_, None) => Err(refused()),
        }
    }
}

/// Returns the client's redirect URIs.
pub(crate) fn redirect_uris(client: &Client) -> impl Iterator<Item = RedirectUri> {
    client.redirect_uris.iter().filter_map(|uri| RedirectUri::parse(uri).ok())
}

fn name(id: &str) -> Result<ClientId, Fault> {
    ClientId::new(id).map_err(|_| Fault::new(Code::InvalidClient, "client_id is malformed"))
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

    fn read(header: Option<&str>, form: &str) -> Result<Credentials, Fault> {
        let mut headers = HeaderMap::new();
        if let Some(header) = header {
            headers.insert(
                AUTHORIZATION,
                format!("Basic {}", STANDARD.encode(header)).parse().unwrap(),
            );
        }
        Credentials::read(&headers, &Params::parse(form.as_bytes()).unwrap())
    }

    #[test]
    fn basic_credentials_are_form_encoded_first() {
        let read = read(Some("a%3Ab+c:p%25%3A"), "").unwrap();
        assert_eq!((read.id.as_str(), read.basic), ("a:b c", true));
        assert_eq!(read.secret.unwrap().expose_secret(), "p%:");
    }

    #[test]
    fn a_client_authenticates_in_one_place() {
        assert_eq!(read(Some("a:b"), "client_secret=b").unwrap_err().code, Code::InvalidRequest);
        assert_eq!(read(Some("a:b"), "client_id=c").unwrap_err().code, Code::InvalidRequest);
        assert!(read(Some("a:b"), "client_id=a").is_ok());
        assert_eq!(read(None, "").unwrap_err().code, Code::InvalidClient);
        assert_eq!(read(Some("a"), "").unwrap_err().code, Code::InvalidClient);
    }

    #[test]
    fn an_empty_secret_is_none_in_either_place() {
        for (header, form) in [(Some("a:"), ""), (None, "client_id=a&client_secret=")] {
            assert!(read(header, form).unwrap().secret.is_none(), "{header:?}");
        }
    }

    #[test]
    fn the_secret_is_in_no_debug_form() {
        assert!(!format!("{:?}", read(Some("a:canary"), "")).contains("canary"));
    }
}

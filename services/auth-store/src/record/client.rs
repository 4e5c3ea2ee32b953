//! Clients that registered themselves (RFC 7591).

use serde::{Deserialize, Serialize};

use crate::{ClientId, Digest, Timestamp};

/// Registered client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Client {
    /// Client identifier.
    pub id: ClientId,
    /// Name that the client chose: untrusted text, to be escaped where it is displayed.
    pub name: Option<String>,
    /// Allowed redirect URIs.
    pub redirect_uris: Vec<String>,
    /// Authentication method.
    pub auth: ClientAuth,
    /// `true` if the client registered the grant type `refresh_token`.
    pub refresh: bool,
    /// Scopes that the client may request.
    pub scopes: Vec<String>,
    /// Application type.
    pub application_type: ApplicationType,
    /// Software identifier that the client reported.
    pub software_id: Option<String>,
    /// Time of the registration.
    pub created: Timestamp,
}

/// Authentication method of a client at the token endpoint (RFC 7591 section 2,
/// `token_endpoint_auth_method`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClientAuth {
    /// None: a public client, which has to use PKCE.
    None,
    /// Client secret with this digest, in the `Authorization` header.
    ClientSecretBasic(Digest),
    /// Client secret with this digest, in the form.
    ClientSecretPost(Digest),
}

/// Application type (OpenID Connect Dynamic Client Registration section 2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApplicationType {
    /// Application on the user's own device.
    Native,
    /// Application on a server.
    #[default]
    Web,
}

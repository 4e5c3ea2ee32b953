//! Clients that registered themselves (RFC 7591).

use serde::{Deserialize, Serialize};

use crate::{ClientId, Digest, Timestamp};

/// A registered client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Client {
    /// Its identifier.
    pub id: ClientId,
    /// What it calls itself: text of a stranger, to be escaped where it is shown.
    pub name: Option<String>,
    /// Where answers may go.
    pub redirect_uris: Vec<String>,
    /// How it authenticates.
    pub auth: ClientAuth,
    /// Whether it registered the grant type `refresh_token`.
    pub refresh: bool,
    /// What it may ask for.
    pub scopes: Vec<String>,
    /// Where it runs.
    pub application_type: ApplicationType,
    /// What it says that its software is.
    pub software_id: Option<String>,
    /// When it registered.
    pub created: Timestamp,
}

/// How a client authenticates at the token endpoint (RFC 7591 section 2,
/// `token_endpoint_auth_method`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClientAuth {
    /// Not at all: a public client, to whom PKCE applies.
    None,
    /// With the secret of this digest, in the header.
    ClientSecretBasic(Digest),
    /// With the secret of this digest, in the form.
    ClientSecretPost(Digest),
}

/// Where a client runs (OpenID Connect Dynamic Client Registration section 2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApplicationType {
    /// On a person's own device.
    Native,
    /// On a server.
    #[default]
    Web,
}

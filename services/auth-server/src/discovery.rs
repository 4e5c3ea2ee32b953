//! Discovery documents: RFC 8414 and OpenID Connect Discovery 1.0.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use bytes::Bytes;
use serde::Serialize;

use crate::path;
use crate::response::public_json;
use crate::scope::Scopes;
use crate::settings::Settings;

/// Client authentication methods of the token endpoint.
pub(crate) const CLIENT_AUTH_METHODS: [&str; 3] =
    ["none", "client_secret_basic", "client_secret_post"];

#[derive(Serialize)]
#[expect(clippy::struct_excessive_bools, reason = "RFC 8414 has them so")]
struct MetadataDocument<'a> {
    issuer: &'a str,
    authorization_endpoint: String,
    token_endpoint: String,
    registration_endpoint: String,
    revocation_endpoint: String,
    introspection_endpoint: String,
    jwks_uri: String,
    response_types_supported: [&'static str; 1],
    response_modes_supported: [&'static str; 1],
    grant_types_supported: [&'static str; 2],
    code_challenge_methods_supported: [&'static str; 1],
    token_endpoint_auth_methods_supported: [&'static str; 3],
    revocation_endpoint_auth_methods_supported: [&'static str; 3],
    introspection_endpoint_auth_methods_supported: [&'static str; 2],
    scopes_supported: Vec<&'a str>,
    authorization_response_iss_parameter_supported: bool,
    client_id_metadata_document_supported: bool,
    request_parameter_supported: bool,
    request_uri_parameter_supported: bool,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    openid: Option<OpenIdMetadata>,
}

/// Metadata that only OpenID Connect defines.
#[derive(Serialize)]
struct OpenIdMetadata {
    userinfo_endpoint: String,
    subject_types_supported: [&'static str; 1],
    id_token_signing_alg_values_supported: [&'static str; 1],
    claims_supported: [&'static str; 11],
}

/// The two discovery documents, serialized.
#[derive(Debug)]
pub(crate) struct DiscoveryDocuments {
    oauth: Bytes,
    openid: Bytes,
}

/// Handles `GET` of the document of RFC 8414.
pub(crate) async fn oauth(State(documents): State<Arc<DiscoveryDocuments>>) -> Response {
    public_json(documents.oauth.clone())
}

/// Handles `GET` of the document of OpenID Connect Discovery 1.0.
pub(crate) async fn openid(State(documents): State<Arc<DiscoveryDocuments>>) -> Response {
    public_json(documents.openid.clone())
}

impl DiscoveryDocuments {
    /// Creates the documents for these settings; `client_id_metadata` is `true` if clients may be identified by the URL of
    /// their metadata document.
    pub(crate) fn new(settings: &Settings, client_id_metadata: bool) -> Self {
        let openid = OpenIdMetadata {
            userinfo_endpoint: endpoint_url(settings, path::USERINFO),
            subject_types_supported: ["public"],
            id_token_signing_alg_values_supported: [settings.keys.algorithm().name()],
            claims_supported: [
                "iss",
                "sub",
                "aud",
                "exp",
                "iat",
                "auth_time",
                "nonce",
                "at_hash",
                "name",
                "email",
                "email_verified",
            ],
        };
        Self {
            oauth: to_json(&document(settings, client_id_metadata, None)),
            openid: to_json(&document(settings, client_id_metadata, Some(openid))),
        }
    }
}

fn document(
    settings: &Settings,
    client_id_metadata: bool,
    openid: Option<OpenIdMetadata>,
) -> MetadataDocument<'_> {
    MetadataDocument {
        issuer: settings.issuer.as_str(),
        authorization_endpoint: format!(
            "{}{}",
            settings.authorization_issuer().as_str(),
            path::AUTHORIZE
        ),
        token_endpoint: endpoint_url(settings, path::TOKEN),
        registration_endpoint: endpoint_url(settings, path::REGISTER),
        revocation_endpoint: endpoint_url(settings, path::REVOKE),
        introspection_endpoint: endpoint_url(settings, path::INTROSPECT),
        jwks_uri: endpoint_url(settings, path::JWKS),
        response_types_supported: ["code"],
        response_modes_supported: ["query"],
        grant_types_supported: ["authorization_code", "refresh_token"],
        code_challenge_methods_supported: ["S256"],
        token_endpoint_auth_methods_supported: CLIENT_AUTH_METHODS,
        revocation_endpoint_auth_methods_supported: CLIENT_AUTH_METHODS,
        introspection_endpoint_auth_methods_supported: [
            "client_secret_basic",
            "client_secret_post",
        ],
        scopes_supported: Scopes::iter(&settings.scopes).collect(),
        authorization_response_iss_parameter_supported: true,
        client_id_metadata_document_supported: client_id_metadata,
        request_parameter_supported: false,
        request_uri_parameter_supported: false,
        openid,
    }
}

fn endpoint_url(settings: &Settings, path: &str) -> String {
    format!("{}{path}", settings.issuer.as_str())
}

fn to_json(document: &MetadataDocument<'_>) -> Bytes {
    let document = serde_json::to_vec(document);
    document.expect("metadata has string keys and infallible values").into()
}

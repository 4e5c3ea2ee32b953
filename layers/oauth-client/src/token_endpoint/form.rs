//! Requests to a token endpoint.

use std::fmt;

use bytes::Bytes;
use form_urlencoded::Serializer;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderValue, Method, Request};
use secrecy::ExposeSecret;
use vmcp_core::Body;

use crate::token_endpoint::TokenType;
use crate::token_endpoint::settings::{ClientSecret, EndpointSettings, OAuthClient};

/// Grant of a token request.
#[derive(Clone, Copy)]
pub enum Grant<'a> {
    /// Client credentials (RFC 6749 section 4.4).
    ClientCredentials,
    /// Token exchange (RFC 8693 section 2.1).
    Exchange {
        /// The token to exchange.
        subject_token: &'a str,
    },
}

/// Builds a request with only the configured parameters.
pub(crate) fn request(settings: &EndpointSettings, grant: &Grant<'_>) -> Request<Body> {
    let EndpointSettings { url, client, audience, scope, resource, subject_token_type, timeout: _ } =
        settings;
    let mut form = Serializer::new(String::new());
    match grant {
        Grant::ClientCredentials => {
            form.append_pair("grant_type", "client_credentials");
        }
        Grant::Exchange { subject_token } => {
            form.append_pair("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange")
                .append_pair("subject_token", subject_token)
                .append_pair("subject_token_type", subject_token_type.urn())
                .append_pair("requested_token_type", TokenType::AccessToken.urn());
        }
    }
    for (name, value) in [("audience", audience), ("scope", scope), ("resource", resource)] {
        if let Some(value) = value {
            form.append_pair(name, value);
        }
    }
    let mut basic = None;
    if let Some(OAuthClient { id, secret }) = client {
        match secret {
            ClientSecret::None => _ = form.append_pair("client_id", id),
            ClientSecret::Basic(header) => basic = Some(header.clone()),
            ClientSecret::Post(secret) => {
                form.append_pair("client_id", id)
                    .append_pair("client_secret", secret.expose_secret());
            }
        }
    }
    let mut request = Request::new(Body::from(Bytes::from(form.finish())));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = url.0.clone();
    let headers = request.headers_mut();
    let form = HeaderValue::from_static("application/x-www-form-urlencoded");
    headers.insert(CONTENT_TYPE, form);
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    if let Some(basic) = basic {
        headers.insert(AUTHORIZATION, basic);
    }
    request
}

impl fmt::Debug for Grant<'_> {
    /// Names the grant without the token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ClientCredentials => "ClientCredentials",
            Self::Exchange { subject_token: _ } => "Exchange",
        })
    }
}

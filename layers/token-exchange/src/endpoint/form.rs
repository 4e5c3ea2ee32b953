//! What is sent to a token endpoint.

use bytes::Bytes;
use form_urlencoded::Serializer;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderValue, Method, Request};
use secrecy::ExposeSecret;
use vmcp_core::Body;

use super::settings::{OAuthClient, Secret, Settings};
use crate::{Subject, TokenType};

/// What is asked for.
pub(super) enum Grant<'a> {
    /// A token for the gateway itself (RFC 6749 section 4.4).
    ClientCredentials,
    /// A token for somebody else's (RFC 8693 section 2.1).
    Exchange(&'a Subject),
}

/// The request, with nothing in it that the settings and the grant don't ask for.
pub(super) fn request(settings: &Settings, grant: &Grant<'_>) -> Request<Body> {
    let Settings { url, client, audience, scope, resource, subject_token_type, deadline: _ } =
        settings;
    let mut form = Serializer::new(String::new());
    match grant {
        Grant::ClientCredentials => {
            form.append_pair("grant_type", "client_credentials");
        }
        Grant::Exchange(subject) => {
            form.append_pair("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange")
                .append_pair("subject_token", subject.expose_token())
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
            Secret::None => _ = form.append_pair("client_id", id),
            Secret::Basic(header) => basic = Some(header.clone()),
            Secret::Post(secret) => {
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

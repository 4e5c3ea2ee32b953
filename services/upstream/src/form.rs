//! Form requests with client authentication (RFC 6749 sections 2.3.1 and 4.1.3).

use bytes::Bytes;
use form_urlencoded::Serializer;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderValue, Method, Request};
use secrecy::{ExposeSecret, SecretString};
use vmcp_core::Body;
use vmcp_oauth_client::basic_credentials;

use crate::{AuthMethod, Endpoint, ProviderError};

/// Client with its authentication method.
#[derive(Clone)]
pub(crate) struct Credentials {
    pub(crate) id: Box<str>,
    pub(crate) secret: Option<SecretString>,
    pub(crate) method: AuthMethod,
}

/// Selects an authentication method from the `listed` ones. RFC 8414 section 2 defines the default
/// for a missing list.
pub(crate) fn method(
    has_secret: bool,
    listed: Option<&[String]>,
) -> Result<AuthMethod, ProviderError> {
    if !has_secret {
        // Not all providers with public clients list `none`.
        return Ok(AuthMethod::None);
    }
    let Some(listed) = listed else { return Ok(AuthMethod::Basic) };
    [AuthMethod::Basic, AuthMethod::Post]
        .into_iter()
        .find(|method| listed.iter().any(|name| name == method.name()))
        .ok_or(ProviderError::ConfigMismatch(
            "it takes no client secret, neither as Basic nor in the body",
        ))
}

/// Builds a form request for `endpoint`, authenticated as this client.
pub(crate) fn request(
    endpoint: &Endpoint,
    credentials: &Credentials,
    pairs: &[(&str, &str)],
) -> Request<Body> {
    let Credentials { id, secret, method } = credentials;
    let mut form = Serializer::new(String::new());
    form.extend_pairs(pairs);
    let mut basic = None;
    match (method, secret) {
        (AuthMethod::Basic, Some(secret)) => basic = Some(basic_credentials(id, secret)),
        (AuthMethod::Post, Some(secret)) => {
            form.append_pair("client_id", id).append_pair("client_secret", secret.expose_secret());
        }
        (AuthMethod::None, _) | (_, None) => _ = form.append_pair("client_id", id),
    }
    let mut request = Request::new(Body::from(Bytes::from(form.finish())));
    *request.method_mut() = Method::POST;
    request.uri_mut().clone_from(endpoint.uri());
    let form = HeaderValue::from_static("application/x-www-form-urlencoded");
    request.headers_mut().insert(CONTENT_TYPE, form);
    if let Some(basic) = basic {
        request.headers_mut().insert(AUTHORIZATION, basic);
    }
    request
}

/// Builds a bearer header (RFC 6750 section 2.1).
pub(crate) fn bearer(token: &SecretString) -> Option<HeaderValue> {
    let mut header = HeaderValue::try_from(format!("Bearer {}", token.expose_secret())).ok()?;
    header.set_sensitive(true);
    Some(header)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn selects_advertised_auth_method() {
        let both = listed(&["client_secret_post", "client_secret_basic"]);
        let post = listed(&["private_key_jwt", "client_secret_post"]);
        let neither = listed(&["private_key_jwt"]);
        assert_eq!(method(true, None), Ok(AuthMethod::Basic));
        assert_eq!(method(true, Some(&both)), Ok(AuthMethod::Basic));
        assert_eq!(method(true, Some(&post)), Ok(AuthMethod::Post));
        assert!(matches!(method(true, Some(&neither)), Err(ProviderError::ConfigMismatch(_))));
        assert_eq!(method(false, Some(&post)), Ok(AuthMethod::None));
    }

    #[tokio::test]
    async fn sends_secret_in_header_or_body_only() {
        let endpoint = Endpoint::new("https://id.example/token").unwrap();
        for (method, in_header, in_body) in [
            (AuthMethod::Basic, true, false),
            (AuthMethod::Post, false, true),
            (AuthMethod::None, false, false),
        ] {
            let secret = (method != AuthMethod::None).then(|| "s3cr3t".into());
            let credentials = Credentials { id: "gw".into(), secret, method };
            let request = request(&endpoint, &credentials, &[("code", "a+b")]);
            assert_eq!(request.headers().contains_key(AUTHORIZATION), in_header);
            let body = String::from_utf8(request.body().bytes().unwrap().to_vec()).unwrap();
            assert!(body.starts_with("code=a%2Bb"), "{body}");
            assert_eq!(body.contains("client_secret=s3cr3t"), in_body);
            assert_eq!(body.contains("client_id=gw"), !in_header);
        }
    }
}

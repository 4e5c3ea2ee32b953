//! `backends[].headers`: headers of each request to one backend.

use std::hash::{DefaultHasher, Hash};

use http::header::AUTHORIZATION;
use secrecy::SecretString;
use vmcp_config::{ConfigError, Headers};
use vmcp_header_injection::{CredentialHeader, StaticHeadersLayer};

use super::credentials::BackendCredentials;
use super::environment;

/// The layer that sets the headers; `None` without any. Their values go into `digest`.
pub(super) fn layer(
    index: usize,
    headers: &Headers,
    strategy: &BackendCredentials,
    digest: &mut DefaultHasher,
) -> Result<Option<StaticHeadersLayer>, Vec<ConfigError>> {
    let mut errors = Vec::new();
    let mut layer = StaticHeadersLayer::new();
    for (name, value) in headers.iter() {
        let mut reject = |found: String, allowed: String| {
            errors.push(ConfigError::new(
                format!("backends[{index}].headers.{name}"),
                found,
                allowed,
            ));
        };
        let header = match name.as_str().parse::<CredentialHeader>() {
            Ok(header) => header,
            Err(error) => {
                reject(format!("\"{name}\""), format!("another header ({error})"));
                continue;
            }
        };
        if strategy.sets(header.name()) {
            let found = format!("a header that {} sets or removes", strategy.name);
            reject(found, "another header, or type: unauthenticated in outgoingAuth".to_owned());
            continue;
        }
        let value = match value.template().resolve(environment::variable) {
            Ok(value) => value,
            Err(error) => {
                let found = format!("${{{}}}, which is not set", error.0);
                reject(found, "an environment variable with a value".to_owned());
                continue;
            }
        };
        (header.name().as_str(), &value).hash(digest);
        match layer.clone().header(&header, &SecretString::from(value)) {
            Ok(more) => layer = more,
            Err(error) => {
                reject("the value".to_owned(), format!("text that a header can have ({error})"));
            }
        }
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    Ok((!headers.is_empty()).then_some(layer))
}

impl BackendCredentials {
    /// Returns `true` if the strategy sets or removes this header.
    fn sets(&self, name: &http::HeaderName) -> bool {
        match &self.header {
            None => false,
            // Each strategy removes the credential that a request already has.
            Some(own) => {
                name == own || name == AUTHORIZATION || name.as_str().starts_with("x-amz-")
            }
        }
    }
}

//! `backends[].headers`: headers of each request to one backend.

use std::hash::{DefaultHasher, Hash};

use http::header::AUTHORIZATION;
use secrecy::SecretString;
use vmcp_config::{ConfigError, Headers};
use vmcp_header_injection::{CredentialHeader, StaticHeadersLayer};

use super::credentials::BackendCredentials;
use super::environment::Environment;
use super::left_out::{BackendError, LeftOutReason};

/// The layer that sets the headers; `None` without any. Their values go into `digest`.
pub(super) fn layer(
    index: usize,
    headers: &Headers,
    strategy: &BackendCredentials,
    environment: &Environment,
    digest: &mut DefaultHasher,
) -> Result<Option<StaticHeadersLayer>, Vec<BackendError>> {
    let mut errors = Vec::new();
    let mut layer = StaticHeadersLayer::new();
    for (name, value) in headers.iter() {
        let error = |found: String, allowed: String| {
            ConfigError::new(format!("backends[{index}].headers.{name}"), found, allowed)
        };
        let mut reject = |found: String, allowed: String| {
            errors.push(BackendError::Config(error(found, allowed)));
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
        let template = value.template();
        let value = match template.resolve(|name| environment.variable(name)) {
            Ok(value) => value,
            Err(missing) => {
                let found = format!("${{{}}}, which is not set", missing.0);
                let error = error(found, "an environment variable with a value".to_owned());
                let message = format!("secret {} is not there yet", missing.0);
                let reason = LeftOutReason::SecretPending;
                errors.push(environment.backend_error(error, reason, message));
                continue;
            }
        };
        (header.name().as_str(), &value).hash(digest);
        match layer.clone().header(&header, &SecretString::from(value)) {
            Ok(more) => layer = more,
            Err(invalid) => {
                let allowed = format!("text that a header can have ({invalid})");
                let message = format!("the value of the header {name} is not {allowed}");
                let error = error("the value".to_owned(), allowed);
                let reason = LeftOutReason::SecretInvalid;
                errors.push(if template.is_literal() {
                    BackendError::Config(error)
                } else {
                    environment.backend_error(error, reason, message)
                });
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

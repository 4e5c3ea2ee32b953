//! Credentials for backends: URLs, clients and headers that the server refuses.

use std::str::FromStr as _;

use vmcp_aws_sts::ServiceName;
use vmcp_config::{AwsSts, ConfigError, HeaderInjection, TokenExchange};
use vmcp_header_injection::CredentialHeader;
use vmcp_oauth_client::token_endpoint::{OAuthClient, TokenUrl};

pub(super) fn header_injection(settings: &HeaderInjection) -> Vec<ConfigError> {
    let HeaderInjection { header_name, value: _ } = settings;
    header("headerInjection.headerName", header_name.as_str()).into_iter().collect()
}

pub(super) fn token_exchange(settings: &TokenExchange) -> Vec<ConfigError> {
    const AT: &str = "tokenExchange";
    let TokenExchange {
        token_url,
        client_id,
        external_token_header_name,
        // The parser judges scopes. The others are of any content.
        audience: _,
        client_secret: _,
        scopes: _,
        subject_token_type: _,
        subject_provider_name: _,
    } = settings;
    let mut errors = Vec::new();
    if let Err(error) = TokenUrl::new(token_url.as_str()) {
        let allowed = format!("an https:// URL ({error})");
        errors.push(ConfigError::new(format!("{AT}.tokenUrl"), token_url.as_str(), allowed));
    }
    if let Some(Err(error)) = client_id.as_deref().map(OAuthClient::public) {
        errors.push(ConfigError::new(format!("{AT}.clientId"), "an id", error.to_string()));
    }
    let name = external_token_header_name.as_ref();
    errors.extend(
        name.and_then(|name| header(&format!("{AT}.externalTokenHeaderName"), name.as_str())),
    );
    errors
}

pub(super) fn aws_sts(settings: &AwsSts) -> Vec<ConfigError> {
    let service = settings.service.as_str();
    let error = ServiceName::try_from(service).err();
    let error = error.map(|error| {
        ConfigError::new("awsSts.service", format!("\"{service}\""), error.to_string())
    });
    error.into_iter().collect()
}

/// Returns the error of a header that the gateway sets.
pub(super) fn header(path: &str, name: &str) -> Option<ConfigError> {
    let error = CredentialHeader::from_str(name).err()?;
    Some(ConfigError::new(path, format!("\"{name}\""), format!("another header ({error})")))
}

//! `awsSts`: signatures with the credentials of an AWS role.

use std::hash::{DefaultHasher, Hash};

use http::Uri;
use vmcp_aws_sts::{
    AwsStsLayer, NameError, RoleArn, RoleMapping, RoleMappings, RoleMappingsError, Sts, Subject,
};
use vmcp_config::{AwsSts, RoleMatch};
use vmcp_core::Clock;
use vmcp_token_exchange::TokenUrl;

use super::{Converter, Credentials};

/// Maximum number of callers whose credentials are cached per strategy.
const MAX_CACHED_CALLERS: usize = 10_000;

/// Environment variable that overrides the regional STS endpoint, as in the AWS tools.
const STS_ENDPOINT: &str = "AWS_ENDPOINT_URL_STS";

impl Converter<'_> {
    pub(super) fn sts(
        &mut self,
        at: &str,
        settings: AwsSts,
        digest: &mut DefaultHasher,
    ) -> Option<Credentials> {
        let AwsSts {
            region,
            fallback_role_arn,
            role_claim,
            role_mappings,
            service,
            session_duration,
            session_name_claim,
            subject_provider_name,
        } = settings;
        (region.as_str(), fallback_role_arn.as_ref().map(vmcp_config::RoleArn::as_str))
            .hash(digest);
        (&role_claim, &service, session_duration, &session_name_claim).hash(digest);
        // Defaults as for a token exchange (seed 001 section 2.6).
        let provider = self.provider(subject_provider_name.as_ref());
        provider.hash(digest);
        let mut mappings = Vec::with_capacity(role_mappings.len());
        for mapping in role_mappings {
            let vmcp_config::RoleMapping { role_arn, matches, priority } = mapping;
            let matches = match matches {
                RoleMatch::Claim(claim) => vmcp_aws_sts::RoleMatch::Claim(claim),
                RoleMatch::Matcher(matcher) => vmcp_aws_sts::RoleMatch::Matcher(matcher),
            };
            (role_arn.as_str(), priority, format!("{matches:?}")).hash(digest);
            let role = RoleArn::try_from(role_arn.as_str());
            let role = self.accept(format!("{at}.roleMappings"), role_arn.as_str(), role)?;
            mappings.push(RoleMapping { role, matches, priority });
        }
        let fallback = match &fallback_role_arn {
            Some(arn) => {
                let role = RoleArn::try_from(arn.as_str());
                Some(self.accept(format!("{at}.fallbackRoleArn"), arn.as_str(), role)?)
            }
            None => None,
        };
        let roles = RoleMappings::new(fallback, mappings, &role_claim);
        let roles = roles.map_err(|error| self.reject_roles(at, &error));
        let service = vmcp_aws_sts::ServiceName::try_from(service.as_str()).map_err(|error| {
            self.reject(format!("{at}.service"), format!("\"{service}\""), error.to_string());
        });
        let named = vmcp_aws_sts::Region::try_from(region.as_str());
        let region = self.accept(format!("{at}.region"), region.as_str(), named)?;
        let duration = vmcp_aws_sts::SessionDuration::try_from(session_duration);
        let seconds = session_duration.to_string();
        let duration = self.accept(format!("{at}.sessionDuration"), &seconds, duration)?;
        let sts = self.sts_endpoint(at, &region, digest)?;
        let assume = vmcp_aws_sts::CredentialCache::new(sts, MAX_CACHED_CALLERS, Clock::system());
        self.gauges.add("aws_credentials", assume.gauge());
        let subject = provider.map_or(Subject::Caller, |name| Subject::Upstream(name.into()));
        let layer = AwsStsLayer::new(region, roles.ok()?, assume)
            .service(service.ok()?)
            .subject(subject)
            .session_name_claim(&session_name_claim)
            .session_duration(duration);
        self.gauges.add("aws_roles", layer.gauge());
        Some(Credentials::Sts(layer))
    }

    /// Returns the value. A parsed section has only valid ones; one that was built in code may not.
    fn accept<T>(&mut self, at: String, found: &str, value: Result<T, NameError>) -> Option<T> {
        value.map_err(|error| self.reject(at, found.to_owned(), error.to_string())).ok()
    }

    /// Returns the STS endpoint of a region, or the one that the environment names; `None` after an error.
    fn sts_endpoint(
        &mut self,
        at: &str,
        region: &vmcp_aws_sts::Region,
        digest: &mut DefaultHasher,
    ) -> Option<Sts> {
        let client = self.fetcher.clone();
        let Ok(endpoint) = std::env::var(STS_ENDPOINT) else {
            return Some(Sts::new(region, client));
        };
        endpoint.hash(digest);
        // Callers' tokens are sent here, so the URL must meet the requirements for a token endpoint.
        let uri: Option<Uri> = TokenUrl::new(&endpoint).ok().and_then(|_| endpoint.parse().ok());
        let Some(uri) = uri else {
            let allowed = "an https:// URL, or http:// on this machine".to_owned();
            self.reject(at.to_owned(), format!("{STS_ENDPOINT}=\"{endpoint}\""), allowed);
            return None;
        };
        Some(Sts::with_endpoint(&uri, region, client))
    }

    fn reject_roles(&mut self, at: &str, error: &RoleMappingsError) {
        let RoleMappingsError::Mappings(mappings) = error else {
            let found = "no usable roles".to_owned();
            return self.reject(format!("{at}.roleMappings"), found, error.to_string());
        };
        for mapping in mappings {
            let path = format!("{at}.roleMappings[{}].matcher", mapping.index);
            let allowed = format!("a CEL expression over claims ({})", mapping.problem);
            self.reject(path, "the expression".to_owned(), allowed);
        }
    }
}

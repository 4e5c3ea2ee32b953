//! Checks with the compilers of the server, so that a resource which the server would refuse to start with ends in a condition.

mod credentials;
mod file;

use vmcp_api::conversion::Checks;
use vmcp_aws_sts::{RoleArn, RoleMappings, RoleMappingsError};
use vmcp_cedar::PolicyError;
use vmcp_compose::Workflow;
use vmcp_config::{
    AwsSts, Cedar, CompositeTool, ConfigError, File, RoleMapping, RoleMatch, Strategy,
};

/// Compilers of the server: those of policies, composite tools and matchers of roles.
#[derive(Clone, Copy, Debug, Default)]
pub struct ServerChecks;

impl Checks for ServerChecks {
    fn policies(&self, server: &str, cedar: &Cedar) -> Vec<ConfigError> {
        let Cedar { policies, entities_json, primary_upstream_provider: _ } = cedar;
        match vmcp_cedar::Cedar::new(server, policies, entities_json) {
            Ok(parsed) => parsed.check_names(policies).iter().map(policy_error).collect(),
            Err(errors) => errors.errors().iter().map(policy_error).collect(),
        }
    }

    fn composite_tool(&self, tool: &CompositeTool) -> Vec<ConfigError> {
        let mut errors = Workflow::compile(tool, "").err().unwrap_or_default();
        for error in &mut errors {
            error.path = error.path.trim_start_matches('.').to_owned();
        }
        errors
    }

    fn strategy(&self, strategy: &Strategy) -> Vec<ConfigError> {
        match strategy {
            Strategy::AwsSts(settings) => {
                let mut errors = credentials::aws_sts(settings);
                errors.extend(role_errors(settings));
                errors
            }
            Strategy::HeaderInjection(settings) => credentials::header_injection(settings),
            Strategy::TokenExchange(settings) => credentials::token_exchange(settings),
            Strategy::Unauthenticated | Strategy::UpstreamInject(_) => Vec::new(),
        }
    }

    fn file(&self, file: &File) -> Vec<ConfigError> {
        file::errors(file)
    }
}

fn policy_error(error: &PolicyError) -> ConfigError {
    match error {
        PolicyError::NoPolicies => ConfigError::new("policies", "none", "at least one policy"),
        PolicyError::Policy { index, line, message } => {
            let line = line.map(|line| format!("in line {line} of it, ")).unwrap_or_default();
            let allowed = format!("Cedar ({line}{message})");
            ConfigError::new(format!("policies[{index}]"), "an invalid policy", allowed)
        }
        PolicyError::Entities { message } => {
            let allowed = format!("an array of Cedar entities ({message})");
            ConfigError::new("entitiesJson", "invalid entities", allowed)
        }
    }
}

fn role_errors(settings: &AwsSts) -> Vec<ConfigError> {
    const AT: &str = "awsSts.roleMappings";
    let role = |arn: &vmcp_config::RoleArn| RoleArn::try_from(arn.as_str());
    let fallback = settings.fallback_role_arn.as_ref().map(role).transpose();
    let mappings = settings.role_mappings.iter().map(|mapping| {
        let RoleMapping { role_arn, matches, priority } = mapping;
        let matches = match matches {
            RoleMatch::Claim(claim) => vmcp_aws_sts::RoleMatch::Claim(claim.clone()),
            RoleMatch::Matcher(matcher) => vmcp_aws_sts::RoleMatch::Matcher(matcher.clone()),
        };
        let role = role(role_arn)?;
        Ok(vmcp_aws_sts::RoleMapping { role, matches, priority: *priority })
    });
    let (fallback, mappings) = match (fallback, mappings.collect::<Result<Vec<_>, _>>()) {
        (Ok(fallback), Ok(mappings)) => (fallback, mappings),
        (Err(error), _) | (_, Err(error)) => {
            return vec![ConfigError::new("awsSts", "an invalid role", error.to_string())];
        }
    };
    match RoleMappings::new(fallback, mappings, &settings.role_claim) {
        Ok(_) => Vec::new(),
        Err(RoleMappingsError::Mappings(errors)) => errors
            .iter()
            .map(|error| {
                let path = format!("{AT}[{}].matcher", error.index);
                let allowed = format!("a CEL expression over claims ({})", error.problem);
                ConfigError::new(path, "the expression", allowed)
            })
            .collect(),
        Err(error @ (RoleMappingsError::NoRoles | RoleMappingsError::TooMany(_))) => {
            vec![ConfigError::new(AT, "no usable roles", error.to_string())]
        }
    }
}

#[cfg(test)]
mod tests;

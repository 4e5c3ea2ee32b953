//! Signatures with the credentials of an AWS role that the caller's token may assume.

use crate::{
    config_value::{Constraint, Rule, raw_conversion, section},
    context::Context,
    string_types::{ProviderName, Region, RoleArn},
    tree::Node,
};

section! {
    /// Signs requests with the credentials of an AWS role that the caller's token may assume.
    pub struct AwsSts {
        /// Region of the STS endpoint and of the service.
        pub region: Region;
        /// Role if no mapping matches. At least one of `fallbackRoleArn` and `roleMappings` is required.
        pub fallback_role_arn: Option<RoleArn>;
        /// Claim that `roleMappings[].claim` is compared with.
        pub role_claim: String = "groups".to_owned(), [Constraint::NotEmpty];
        /// Mappings of claims to roles.
        pub role_mappings: Vec<RoleMapping> = Vec::new();
        /// Service that requests are signed for.
        pub service: String = "aws-mcp".to_owned(), [Constraint::NotEmpty];
        /// Lifetime of the credentials, in seconds.
        pub session_duration: u32 = 3600, [Constraint::Range(900, 43200)];
        /// Claim whose value names the session.
        pub session_name_claim: String = "sub".to_owned(), [Constraint::NotEmpty];
        /// Upstream provider whose token is presented to STS instead of the caller's. Absent with an embedded
        /// authorization server means its first upstream.
        pub subject_provider_name: Option<ProviderName>;
    }
    rules [Rule::AtLeastOne(&["fallbackRoleArn", "roleMappings"])]
    check AwsSts::check
}

/// Mapping of claims to a role.
#[derive(Clone, Debug, PartialEq)]
pub struct RoleMapping {
    /// The role.
    pub role_arn: RoleArn,
    /// Callers that the role applies to.
    pub matches: RoleMatch,
    /// Lower comes first. `None` comes last; equal ones in the order of the document.
    pub priority: Option<u32>,
}

/// Callers that a role applies to.
#[derive(Clone, Debug, PartialEq)]
pub enum RoleMatch {
    /// Callers whose role claim is or contains this value.
    Claim(String),
    /// Callers for whose `claims` this CEL expression is true.
    Matcher(String),
}

section! {
    /// Mapping of claims to a role.
    struct RawRoleMapping {
        /// The role.
        role_arn: RoleArn;
        /// A value of the role claim.
        claim: Option<String>, [Constraint::NotEmpty];
        /// CEL expression over `claims`, a map of all claims.
        matcher: Option<String>, [Constraint::NotEmpty];
        /// Lower comes first. Absent comes last; equal ones in the order of the document.
        priority: Option<u32>, [Constraint::Range(0, 0x7fff_ffff)];
    }
    rules [Rule::ExactlyOne(&["claim", "matcher"])]
}

raw_conversion!(RoleMapping as RawRoleMapping);

// === impl AwsSts ===

impl AwsSts {
    fn check(&self, node: &Node, cx: &mut Context) {
        if self.fallback_role_arn.is_none() && self.role_mappings.is_empty() {
            cx.reject_key(
                node,
                "roleMappings",
                "no role",
                "fallbackRoleArn, or at least one mapping",
            );
        }
    }
}

// === impl RoleMapping ===

impl RoleMapping {
    fn from_raw(raw: RawRoleMapping, _: &Node, _: &mut Context) -> Option<Self> {
        let RawRoleMapping { role_arn, claim, matcher, priority } = raw;
        let matches = claim.map(RoleMatch::Claim).or_else(|| matcher.map(RoleMatch::Matcher))?;
        Some(Self { role_arn, matches, priority })
    }

    fn to_raw(&self) -> RawRoleMapping {
        let Self { role_arn, matches, priority } = self.clone();
        let (claim, matcher) = match matches {
            RoleMatch::Claim(claim) => (Some(claim), None),
            RoleMatch::Matcher(matcher) => (None, Some(matcher)),
        };
        RawRoleMapping { role_arn, claim, matcher, priority }
    }
}

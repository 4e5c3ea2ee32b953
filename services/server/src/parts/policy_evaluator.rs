//! Policy evaluation for hypothetical callers.

use std::sync::Arc;

use vmcp_cedar::{Cedar, Explanation, NamedItem};
use vmcp_core::{Authorizer, CallerPermissions, Decision, Fingerprint, Identity, Item};

use super::IncomingAuth;

/// Evaluator of a configuration's policies for hypothetical callers. Without policies, it permits all.
#[derive(Debug)]
pub struct PolicyEvaluator(Option<Arc<Cedar>>);

/// Authorizer of a configuration without policies.
struct PermitAll;

impl IncomingAuth {
    /// Returns the evaluator of these policies.
    #[must_use]
    pub fn policy_evaluator(&self) -> PolicyEvaluator {
        PolicyEvaluator(self.authorize.as_ref().map(|authorize| Arc::clone(authorize.policy())))
    }
}

impl PolicyEvaluator {
    /// Returns the tools, prompts and resources that policies name.
    #[must_use]
    pub fn named_items(&self) -> Vec<NamedItem> {
        self.0.as_ref().map_or_else(Vec::new, |cedar| cedar.named_items())
    }

    /// Returns the permissions of a caller with these claims.
    #[must_use]
    pub fn permissions(&self, identity: &Identity) -> CallerPermissions {
        match &self.0 {
            Some(cedar) => cedar.evaluate_hypothetical(identity),
            None => CallerPermissions::new(PermitAll),
        }
    }

    /// Returns the decision about `item` with these arguments, and the policies that determine it.
    #[must_use]
    pub fn explain(
        &self,
        identity: &Identity,
        item: &Item<'_>,
        arguments: Option<&[u8]>,
    ) -> Explanation {
        match &self.0 {
            Some(cedar) => cedar.explain(identity, item, arguments),
            None => Explanation {
                visible: true,
                decision: Decision::Allow,
                deciding: Vec::new(),
                errors: Vec::new(),
            },
        }
    }
}

impl Authorizer for PermitAll {
    fn is_visible(&self, _: &Item<'_>) -> bool {
        true
    }

    fn authorize(&self, _: &Item<'_>, _: Option<&[u8]>) -> Decision {
        Decision::Allow
    }

    fn visibility_key(&self) -> Fingerprint {
        Fingerprint::of("everything")
    }
}

//! Policy evaluation for hypothetical callers.

use std::sync::Arc;

use vmcp_cedar::{Cedar, Explanation, NamedItem};
use vmcp_core::{Authorizer, CallerPermissions, Decision, Fingerprint, Identity, Item};

use super::IncomingAuth;

/// The policies of a configuration, or their absence.
#[derive(Debug)]
pub(crate) struct PolicyEvaluator(Option<Arc<Cedar>>);

/// There are no policies.
struct PermitAll;

impl IncomingAuth {
    pub(crate) fn policy_evaluator(&self) -> PolicyEvaluator {
        PolicyEvaluator(self.authorize.as_ref().map(|authorize| Arc::clone(authorize.policy())))
    }
}

impl PolicyEvaluator {
    /// The tools, prompts and resources that policies name.
    pub(crate) fn named_items(&self) -> Vec<NamedItem> {
        self.0.as_ref().map_or_else(Vec::new, |cedar| cedar.named_items())
    }

    /// Returns the permissions of a caller with these claims.
    pub(crate) fn permissions(&self, identity: &Identity) -> CallerPermissions {
        match &self.0 {
            Some(cedar) => cedar.evaluate_hypothetical(identity),
            None => CallerPermissions::new(PermitAll),
        }
    }

    pub(crate) fn explain(
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

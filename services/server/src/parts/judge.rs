//! Policy evaluation for hypothetical callers.

use std::sync::Arc;

use vmcp_cedar::{Cedar, Explanation, NamedItem};
use vmcp_core::{Admission, Admit, Identity, Item, Verdict, ViewKey};

use super::Guards;

/// The policies of a configuration, or their absence.
#[derive(Debug)]
pub(crate) struct Judge(Option<Arc<Cedar>>);

/// There are no policies.
struct Everything;

impl Guards {
    pub(crate) fn judge(&self) -> Judge {
        Judge(self.authorize.as_ref().map(|authorize| Arc::clone(authorize.policy())))
    }
}

impl Judge {
    /// The tools, prompts and resources that policies name.
    pub(crate) fn named_items(&self) -> Vec<NamedItem> {
        self.0.as_ref().map_or_else(Vec::new, |cedar| cedar.named_items())
    }

    /// Returns the permissions of a caller with these claims.
    pub(crate) fn admission(&self, identity: &Identity) -> Admission {
        match &self.0 {
            Some(cedar) => cedar.evaluate_hypothetical(identity),
            None => Admission::new(Everything),
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
                verdict: Verdict::Permitted,
                deciding: Vec::new(),
                errors: Vec::new(),
            },
        }
    }
}

impl Admit for Everything {
    fn visible(&self, _: &Item<'_>) -> bool {
        true
    }

    fn admit(&self, _: &Item<'_>, _: Option<&[u8]>) -> Verdict {
        Verdict::Permitted
    }

    fn view(&self) -> ViewKey {
        ViewKey::of("everything")
    }
}

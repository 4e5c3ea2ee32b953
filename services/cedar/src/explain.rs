//! Why something is permitted or not.

use std::sync::Arc;

use cedar_policy::{AuthorizationError, Effect};
use vmcp_core::{Admission, Identity, Item, Verdict};

use crate::arguments::Arguments;
use crate::caller_view::{CallerView, Subject};
use crate::cedar::{Caller, Cedar};

/// What was decided, and by which policies.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// Whether the caller sees the item.
    pub visible: bool,
    /// Whether it may use it with the arguments.
    pub verdict: Verdict,
    /// The policies that decided, those that were satisfied. None with a denial means that no permit
    /// was.
    pub deciding: Vec<DecidingPolicy>,
    /// What stood in the way of evaluating, each in Cedar's words. Any denies. May quote claims and
    /// arguments: for whoever asked, not for a log.
    pub errors: Vec<String>,
}

/// A policy that decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecidingPolicy {
    /// `policy0`, by its place in the configuration; `policy0.1` where one text holds several.
    pub id: String,
    /// Whether it permits or forbids.
    pub permits: bool,
    /// Its text.
    pub text: String,
    /// Its annotations, by name.
    pub annotations: Vec<(String, String)>,
}

impl Cedar {
    /// What a caller with these claims may see and do, outside of any request. With a primary upstream
    /// provider, `identity` stands for what that provider's access token says.
    #[must_use]
    pub fn evaluate_hypothetical(self: &Arc<Self>, identity: &Identity) -> Admission {
        Admission::new(Caller::new(self, self.view_of(identity), identity))
    }

    fn view_of(&self, identity: &Identity) -> Arc<CallerView> {
        let subject = Subject::of(identity);
        Arc::new(CallerView::new(subject.key(self, 0), subject, self))
    }

    /// What is decided for `identity` using `item` with `arguments`, a JSON object, and why. All policies
    /// are evaluated anew. With a primary upstream provider, `identity` stands for what that
    /// provider's access token says.
    #[must_use]
    pub fn explain(
        self: &Arc<Self>,
        identity: &Identity,
        item: &Item<'_>,
        arguments: Option<&[u8]>,
    ) -> Explanation {
        let view = self.view_of(identity);
        // Also what is refused before a decision.
        let caller = Admission::new(Caller::new(self, Arc::clone(&view), identity));
        let (visible, verdict) = (caller.visible(item), caller.admit(item, arguments));
        let mut explanation =
            Explanation { visible, verdict, deciding: Vec::new(), errors: Vec::new() };
        let arguments = match Arguments::parse(arguments, &self.referenced_arguments) {
            Ok(arguments) => arguments,
            Err(error) => {
                explanation.errors.push(error.to_string());
                return explanation;
            }
        };
        let Some((request, entities)) = view.request(self, item, &arguments) else {
            explanation
                .errors
                .push("the caller or the item cannot be made a Cedar entity".to_owned());
            return explanation;
        };
        let open = view.open(self, item);
        if let Some(name) = open.as_ref().and_then(|open| open.rejected_argument(&arguments)) {
            explanation.errors.push(format!(
                "argument {name} has no scalar value, and a policy that reads context.arg_{name} does not read \
                 context.arg_{name}_present"
            ));
        }
        let response = self.authorizer.is_authorized(&request, &self.all, &entities);
        let errors = response.diagnostics().errors();
        explanation.errors.extend(
            errors.map(|AuthorizationError::PolicyEvaluationError(error)| error.to_string()),
        );
        for policy in response.diagnostics().reason().filter_map(|id| self.all.policy(id)) {
            let own = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
            explanation.deciding.push(DecidingPolicy {
                id: policy.id().to_string(),
                permits: policy.effect() == Effect::Permit,
                text: policy.to_cedar().unwrap_or_default(),
                annotations: policy.annotations().map(own).collect(),
            });
        }
        explanation.deciding.sort_by(|a, b| a.id.cmp(&b.id));
        explanation
    }
}

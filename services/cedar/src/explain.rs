//! Explanations of decisions.

use std::sync::Arc;

use cedar_policy::{AuthorizationError, Effect};
use vmcp_core::{CallerPermissions, Decision, Identity, Item};

use crate::arguments::Arguments;
use crate::caller_view::CallerView;
use crate::cedar::{Caller, Cedar};
use crate::subject::Subject;

/// Decision with the policies that determined it.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// `true` if lists show the item to the caller.
    pub visible: bool,
    /// Decision for a call with the arguments.
    pub decision: Decision,
    /// Policies that matched and determined the decision. Empty for a denial without a matching
    /// permit.
    pub deciding: Vec<DecidingPolicy>,
    /// Evaluation errors, in the words of Cedar. Each of them denies. They may quote claims and
    /// arguments, so do not log them.
    pub errors: Vec<String>,
}

/// Policy that determined a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecidingPolicy {
    /// `policy0`, by its position in the configuration; `policy0.1` if one text has several.
    pub id: String,
    /// `true` for a permit, `false` for a forbid.
    pub permits: bool,
    /// Text of the policy.
    pub text: String,
    /// Annotations, by name.
    pub annotations: Vec<(String, String)>,
}

impl Cedar {
    /// Returns the permissions of a caller with these claims, outside of a request. With a primary
    /// upstream provider, `identity` represents the claims of that provider's access token.
    #[must_use]
    pub fn evaluate_hypothetical(self: &Arc<Self>, identity: &Identity) -> CallerPermissions {
        CallerPermissions::new(Caller::new(self, self.view_of(identity), identity))
    }

    fn view_of(&self, identity: &Identity) -> Arc<CallerView> {
        let subject = Subject::of(identity);
        Arc::new(CallerView::new(subject.key(self.policies(), 0), subject, self.policies()))
    }

    /// Decides a call of `item` by `identity` with `arguments`, a JSON object, and explains the
    /// decision. Evaluates all policies without a cache. With a primary upstream provider,
    /// `identity` represents the claims of that provider's access token.
    #[must_use]
    pub fn explain(
        self: &Arc<Self>,
        identity: &Identity,
        item: &Item<'_>,
        arguments: Option<&[u8]>,
    ) -> Explanation {
        let view = self.view_of(identity);
        // Includes rejections that precede the evaluation.
        let caller = CallerPermissions::new(Caller::new(self, Arc::clone(&view), identity));
        let (visible, decision) = (caller.is_visible(item), caller.authorize(item, arguments));
        let mut explanation =
            Explanation { visible, decision, deciding: Vec::new(), errors: Vec::new() };
        let arguments = match Arguments::parse(arguments, &self.policies().referenced_arguments) {
            Ok(arguments) => arguments,
            Err(error) => {
                explanation.errors.push(error.to_string());
                return explanation;
            }
        };
        let Some((request, entities)) = view.request(self.policies(), item, &arguments) else {
            explanation
                .errors
                .push("the caller or the item cannot be represented as a Cedar entity".to_owned());
            return explanation;
        };
        let open = view.open(&self.evaluator, item);
        if let Some(name) = open.as_ref().and_then(|open| open.rejected_argument(&arguments)) {
            explanation.errors.push(format!(
                "argument {name} has no scalar value, and a policy that reads context.arg_{name} does not read \
                 context.arg_{name}_present"
            ));
        }
        let response =
            self.policies().authorizer.is_authorized(&request, &self.policies().all, &entities);
        let errors = response.diagnostics().errors();
        explanation.errors.extend(
            errors.map(|AuthorizationError::PolicyEvaluationError(error)| error.to_string()),
        );
        for policy in
            response.diagnostics().reason().filter_map(|id| self.policies().all.policy(id))
        {
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

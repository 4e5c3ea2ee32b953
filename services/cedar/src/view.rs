//! What one caller looks like to the policies, and what they decide for it.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, OnceLock};

use cedar_policy::{AuthorizationError, Context, Decision, Effect, Entities, EntityUid};
use cedar_policy::{EvaluationError, Request, RestrictedExpression};
use serde_json::{Map, Value};
use vmcp_core::{Hints, Identity, Item, ViewKey};

use crate::arguments::Arguments;
use crate::cedar::Cedar;
use crate::model::{Attributes, Feature, with};
use crate::rules::{About, Rule};
use crate::value;

/// Where groups are looked for. The first of these that is there counts, even if it is empty.
const GROUP_CLAIMS: [&str; 3] = ["groups", "roles", "cognito:groups"];

/// The most groups of a caller, and the most claims where policies look at the context as a whole. One
/// with more is denied everything: what was left out could have been forbidden.
const MOST: usize = 1024;

/// The claims of a caller as the policies see them.
#[derive(Clone, Copy)]
pub(crate) struct Subject<'a> {
    pub(crate) name: &'a str,
    pub(crate) claims: Option<&'a Map<String, Value>>,
}

/// What tells a caller from others, for policies that look at what `cedar`'s do.
struct Looks<'a> {
    subject: Subject<'a>,
    cedar: &'a Cedar,
    epoch: u64,
}

/// Callers who look the same to the policies.
pub(crate) struct View {
    pub(crate) key: ViewKey,
    facts: Option<Facts>,
    prepared: OnceLock<Option<Prepared>>,
}

/// What policies look at, of a caller.
struct Facts {
    name: String,
    claims: Vec<(String, Value)>,
    groups: Vec<String>,
}

/// The caller as entities, and the policies that can concern it.
struct Prepared {
    principal: EntityUid,
    entities: Entities,
    claims: Attributes,
    context: Context,
    candidates: [Candidates; 3],
}

/// The policies that can concern a caller and a kind of things, as places in the list of all.
#[derive(Default)]
struct Candidates {
    any: Vec<usize>,
    one: HashMap<Box<str>, Vec<usize>>,
}

/// What policies decided, apart from the scopes that they ask for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Decided {
    pub(crate) permitted: bool,
    /// Whether other arguments could lead elsewhere.
    pub(crate) open: bool,
    /// Any of these sets of scopes is needed; empty is none.
    pub(crate) scopes: Arc<[Arc<[Box<str>]>]>,
}

/// What is asked.
#[derive(Clone, Copy)]
pub(crate) enum Question<'a> {
    /// Could it be permitted with some arguments?
    Possible,
    /// Is it permitted with these?
    With(&'a Arguments),
}

impl<'a> Subject<'a> {
    /// The caller by its own token. One without a name is called `anonymous`.
    pub(crate) fn of(identity: &'a Identity) -> Self {
        let name = identity.subject().unwrap_or("anonymous");
        Self { name, claims: identity.claims().map(|claims| &**claims) }
    }

    fn claim(&self, name: &str) -> Option<&'a Value> {
        self.claims.and_then(|claims| claims.get(name))
    }

    fn groups(&self) -> Option<&'a Value> {
        let usable = |value: &&Value| value.is_array() || value.is_string();
        GROUP_CLAIMS.iter().find_map(|name| self.claim(name).filter(usable))
    }

    /// What tells this caller from others, for policies that look at what `cedar`'s do.
    pub(crate) fn key(&self, cedar: &Cedar, epoch: u64) -> ViewKey {
        ViewKey::of(&Looks { subject: *self, cedar, epoch })
    }

    fn facts(&self, cedar: &Cedar) -> Option<Facts> {
        let name = if cedar.reads.principal { self.name } else { "" };
        let claims: Vec<_> = match self.claims {
            Some(all) if cedar.reads.context => {
                all.iter().map(|(name, value)| (name.clone(), value.clone())).collect()
            }
            _ => {
                let claim = |name: &String| Some((name.clone(), self.claim(name)?.clone()));
                cedar.claims.iter().filter_map(claim).collect()
            }
        };
        let groups: Vec<_> = match self.groups().filter(|_| cedar.reads.groups) {
            Some(Value::String(one)) => vec![one.clone()],
            Some(Value::Array(some)) => {
                some.iter().filter_map(Value::as_str).map(str::to_owned).collect()
            }
            _ => Vec::new(),
        };
        if groups.len() > MOST || claims.len() > MOST {
            tracing::warn!("a caller with more than {MOST} groups or claims is denied everything");
            return None;
        }
        Some(Facts { name: name.to_owned(), claims, groups })
    }
}

impl Hash for Looks<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self { subject, cedar, epoch } = self;
        epoch.hash(state);
        if cedar.reads.principal {
            subject.name.hash(state);
        }
        if cedar.reads.groups {
            subject.groups().hash(state);
        }
        if cedar.reads.context {
            subject.claims.hash(state);
        } else {
            cedar.claims.iter().for_each(|name| subject.claim(name).hash(state));
        }
    }
}

impl View {
    pub(crate) fn new(key: ViewKey, subject: Subject<'_>, cedar: &Cedar) -> Self {
        Self { key, facts: subject.facts(cedar), prepared: OnceLock::new() }
    }

    /// A caller of whom nothing is known: denied everything.
    pub(crate) fn unknown(epoch: u64) -> Self {
        Self { key: ViewKey::of(&("unknown", epoch)), facts: None, prepared: OnceLock::new() }
    }

    /// What the policies decide, evaluated now.
    pub(crate) fn decide(&self, cedar: &Cedar, item: &Item<'_>, question: Question<'_>) -> Decided {
        let prepared = self.prepared.get_or_init(|| Prepared::new(cedar, self.facts.as_ref()?));
        let Some(prepared) = prepared else { return Decided::default() };
        let Some((request, entities)) = prepared.request(cedar, item, question) else {
            return Decided::default();
        };
        let candidates = &prepared.candidates[Feature::of(item.kind) as usize];
        let one = candidates.one.get(item.name).into_iter().flatten();
        let (mut open, mut permitted, mut free) = (false, false, false);
        let mut scopes = Vec::new();
        // Each of them, even behind a forbid or a permit: an error in any of them denies.
        for rule in candidates.any.iter().chain(one).filter_map(|&place| cedar.rules.get(place)) {
            let depends = rule.reads.arguments();
            open |= depends;
            match rule.evaluate(cedar, &request, &entities, question) {
                Outcome::Silent => {}
                Outcome::Denies => return Decided::default(),
                Outcome::Permits => {
                    permitted = true;
                    match &rule.scopes {
                        Some(needed) => scopes.push(Arc::clone(needed)),
                        None => free = true,
                    }
                }
            }
        }
        if free {
            scopes.clear();
        }
        Decided { permitted, open, scopes: scopes.into() }
    }

    /// The whole request, for those who evaluate it in another way.
    pub(crate) fn request(
        &self,
        cedar: &Cedar,
        item: &Item<'_>,
        arguments: &Arguments,
    ) -> Option<(Request, Entities)> {
        let prepared = self.prepared.get_or_init(|| Prepared::new(cedar, self.facts.as_ref()?));
        prepared.as_ref()?.request(cedar, item, Question::With(arguments))
    }
}

impl Prepared {
    fn new(cedar: &Cedar, facts: &Facts) -> Option<Self> {
        let claims: Attributes = facts
            .claims
            .iter()
            .filter_map(|(name, claim)| {
                let value = value::of_json(claim);
                if value.is_none() {
                    tracing::debug!(claim = name, "left out: Cedar has no value for it");
                }
                Some((format!("claim_{name}"), value?))
            })
            .collect();
        let principal = cedar.model.client(&facts.name);
        let groups = facts.groups.iter().map(String::as_str);
        let entity = cedar.model.principal(principal.clone(), claims.clone(), groups)?;
        let entities = with(&cedar.model.statics, entity)?;
        let context = Context::from_pairs(claims.clone()).ok()?;
        let candidates = Default::default();
        let mut prepared = Self { principal, entities, claims, context, candidates };
        prepared.candidates = Feature::ALL.map(|feature| prepared.candidates(cedar, feature));
        Some(prepared)
    }

    fn candidates(&self, cedar: &Cedar, feature: Feature) -> Candidates {
        let mut candidates = Candidates::default();
        let nothing = Item { kind: feature.kind(), name: "", hints: Hints::default() };
        let nothing = self.request(cedar, &nothing, Question::Possible);
        for (place, rule) in cedar.rules.iter().enumerate() {
            if !rule.concerns(&self.principal, feature, &cedar.model, &self.entities) {
                continue;
            }
            match rule.about(feature, &cedar.model) {
                About::None => {}
                About::One(name) => candidates.one.entry(name).or_default().push(place),
                About::Any => candidates.any.push(place),
                // What is silent about one thing is silent about all, if it looks at none.
                About::All => {
                    let silent = nothing.as_ref().is_some_and(|(request, entities)| {
                        let outcome = rule.evaluate(cedar, request, entities, Question::Possible);
                        matches!(outcome, Outcome::Silent)
                    });
                    if !silent {
                        candidates.any.push(place);
                    }
                }
            }
        }
        candidates
    }

    fn request(
        &self,
        cedar: &Cedar,
        item: &Item<'_>,
        question: Question<'_>,
    ) -> Option<(Request, Entities)> {
        let arguments: &[(String, RestrictedExpression)] = match question {
            Question::With(arguments) => &arguments.0,
            Question::Possible => &[],
        };
        let context = if arguments.is_empty() {
            self.context.clone()
        } else {
            Context::from_pairs(self.claims.clone().into_iter().chain(arguments.iter().cloned()))
                .ok()?
        };
        let attributes = arguments.iter().cloned().collect();
        let resource = cedar.model.resource(item, &cedar.reads, attributes)?;
        let entities = with(&self.entities, resource)?;
        let action = cedar.model.action(Feature::of(item.kind)).clone();
        let (principal, resource) = (self.principal.clone(), cedar.model.uid(item));
        Some((Request::new(principal, action, resource, context, None).ok()?, entities))
    }
}

/// What one policy says.
enum Outcome {
    Permits,
    Denies,
    Silent,
}

impl Rule {
    fn evaluate(
        &self,
        cedar: &Cedar,
        request: &Request,
        entities: &Entities,
        question: Question<'_>,
    ) -> Outcome {
        let possible = matches!(question, Question::Possible) && self.reads.arguments();
        let set = match (possible, &self.possible) {
            (false, _) => &self.whole,
            (true, Some(possible)) => possible,
            (true, None) => return Outcome::Silent,
        };
        let response = cedar.authorizer.is_authorized(request, set, entities);
        let diagnostics = response.diagnostics();
        if let Some(error) = diagnostics.errors().next() {
            // A permit that cannot hold without an error cannot hold; whether the error comes up
            // depends on the arguments.
            if possible {
                return Outcome::Silent;
            }
            let AuthorizationError::PolicyEvaluationError(error) = error;
            let policy: &str = error.policy_id().as_ref();
            tracing::debug!(
                policy,
                error = fault(error.inner()),
                "denied: the policy has an error"
            );
            return Outcome::Denies;
        }
        match (self.policy.effect(), response.decision()) {
            (Effect::Permit, Decision::Allow) => Outcome::Permits,
            (Effect::Forbid, _) if diagnostics.reason().next().is_some() => Outcome::Denies,
            (Effect::Permit, Decision::Deny) | (Effect::Forbid, _) => Outcome::Silent,
        }
    }
}

/// What went wrong, without the values that Cedar would quote.
fn fault(error: &EvaluationError) -> &'static str {
    match error {
        EvaluationError::EntityDoesNotExist(_) => "an entity that does not exist",
        EvaluationError::EntityAttrDoesNotExist(_) | EvaluationError::RecordAttrDoesNotExist(_) => {
            "an attribute that is not there: guard it with has"
        }
        EvaluationError::TypeError(_) => "a value of another type",
        EvaluationError::IntegerOverflow(_) => "an overflow",
        EvaluationError::FailedExtensionFunctionExecution(_) => "an extension function's refusal",
        _ => "another error",
    }
}

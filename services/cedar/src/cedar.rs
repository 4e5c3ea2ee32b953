//! Policies in Cedar's language.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use cedar_policy::{Authorizer, PolicyId, PolicySet};
use vmcp_authz::{Admitting, Policy};
use vmcp_core::{Admission, Admit, Cache, Claims, Identity, Item, Keeper, Verdict, ViewKey};

use crate::arguments::{Arguments, ReferencedArguments};
use crate::caller_view::{CachedDecision, CallerView, Subject};
use crate::dependencies::PolicyDependencies;
use crate::model::Model;
use crate::policy_error::{PolicyError, PolicyErrors};
use crate::policy_slice::{MatchedPermits, PolicySlice, Scopes};
use crate::prepared_caller::ArgumentDependentRequest;
use crate::rules::{self, Rule};
use crate::upstream::Upstream;

/// The most callers, told apart by what the policies look at, that are kept ready.
const MAX_VIEWS: usize = 1024;

/// The most decisions that are kept.
const MAX_DECISIONS: usize = 65_536;

/// The most pairs of a caller and a thing that are kept ready for the arguments of calls.
const MAX_ARGUMENT_REQUESTS: usize = 4096;

/// The most sets of policies that are kept.
const MAX_SLICES: usize = 1024;

/// The most entities that callers, and things for arguments, are kept ready among: each kept one has the
/// configured ones around it.
const MAX_ENTITIES: usize = 1 << 20;

/// Cedar policies and the entities that they speak of. See the [crate docs](crate) for the model.
///
/// Immutable: other policies are another one, in another layer.
pub struct Cedar {
    pub(crate) model: Model,
    pub(crate) rules: Vec<Rule>,
    /// The places of the rules, by the names of their policies.
    positions: HashMap<PolicyId, usize>,
    /// All policies, as they were written.
    pub(crate) all: PolicySet,
    /// What any of them looks at.
    pub(crate) reads: PolicyDependencies,
    /// The claims among that.
    pub(crate) claims: Vec<String>,
    /// The arguments among that.
    pub(crate) referenced_arguments: ReferencedArguments,
    /// Whether any of them reads the backend of an item, or its generation.
    reads_backend: bool,
    /// The scopes that any of them asks for.
    policy_scopes: BTreeSet<Box<str>>,
    pub(crate) authorizer: Authorizer,
    upstream: Option<Upstream>,
    keeper: Keeper,
    views: Cache<ViewKey, Arc<CallerView>>,
    slices: Cache<Vec<usize>, Arc<PolicySlice>>,
    decisions: Cache<ViewKey, Arc<CachedDecision>>,
    open: Cache<ViewKey, Option<Arc<ArgumentDependentRequest>>>,
}

/// One caller before the policies.
pub(crate) struct Caller {
    pub(crate) cedar: Arc<Cedar>,
    pub(crate) view: Arc<CallerView>,
    /// Of the scopes that policies ask for, those that its token has. Not its identity, which may keep this.
    token_scopes: Box<[Box<str>]>,
}

// === impl Cedar ===

impl Cedar {
    /// The policies of the server called `server`, which is the parent `MCP::"<server>"` of everything
    /// it offers. Each text holds one policy or several; `entities` is Cedar's JSON format, an array,
    /// and may be empty.
    ///
    /// # Errors
    /// All mistakes at once: texts that are no policies, templates, `@scopes` on a forbid or without
    /// scopes, entities that are none.
    pub fn new<T: AsRef<str>>(
        server: &str,
        policies: &[T],
        entities: &str,
    ) -> Result<Self, PolicyErrors> {
        let (mut rules, mut errors) = (Vec::new(), Vec::new());
        if policies.is_empty() {
            errors.push(PolicyError::NoPolicies);
        }
        for (index, text) in policies.iter().enumerate() {
            match rules::parse_checked(index, text.as_ref()) {
                Ok(read) => rules.extend(read),
                Err(found) => errors.extend(found),
            }
        }
        let model = match Model::new(server, entities) {
            Ok(model) if errors.is_empty() => model,
            Ok(_) => return Err(PolicyErrors(errors)),
            Err(error) => {
                errors.push(error);
                return Err(PolicyErrors(errors));
            }
        };
        let all = PolicySet::from_policies(rules.iter().map(|rule| rule.policy.clone()));
        let all =
            all.map_err(|error| PolicyErrors(vec![PolicyError::policy(0, error.to_string())]))?;
        let mut reads = PolicyDependencies {
            principal: model.mentions_clients,
            ..PolicyDependencies::default()
        };
        for rule in &rules {
            reads.join(&rule.reads);
        }
        let claims = reads.attributes.iter().filter_map(|name| name.strip_prefix("claim_"));
        let room = MAX_ENTITIES / model.statics.len().max(1);
        let scopes = rules.iter().filter_map(|rule| rule.scopes.as_deref()).flatten();
        let positions = rules.iter().enumerate();
        Ok(Self {
            claims: claims.map(str::to_owned).collect(),
            referenced_arguments: ReferencedArguments::of(&reads),
            reads_backend: reads.backend(),
            policy_scopes: scopes.cloned().collect(),
            positions: positions
                .map(|(position, rule)| (rule.policy.id().clone(), position))
                .collect(),
            model,
            rules,
            all,
            reads,
            authorizer: Authorizer::new(),
            upstream: None,
            keeper: Keeper::new(),
            views: Cache::new(room.min(MAX_VIEWS)),
            slices: Cache::new(MAX_SLICES),
            decisions: Cache::new(MAX_DECISIONS),
            open: Cache::new(room.min(MAX_ARGUMENT_REQUESTS)),
        })
    }

    /// Evaluates the claims of `provider`'s access token instead of those of the token that the client
    /// presented. Who has none, or one that is no JWT with a `sub`, is denied everything.
    #[must_use]
    pub fn primary_upstream_provider(mut self, provider: &str) -> Self {
        self.upstream = Some(Upstream::new(provider));
        self
    }

    /// How many callers, decisions and sets of policies are kept, all together: a gauge.
    #[must_use]
    pub fn cached_entries(&self) -> usize {
        let Self { views, slices, decisions, open, upstream, .. } = self;
        let known = upstream.as_ref().map_or(0, Upstream::len);
        views.len() + slices.len() + decisions.len() + open.len() + known
    }

    /// The caller that looks like `subject`; the same one for all that look alike.
    fn view(&self, subject: Subject<'_>, epoch: u64) -> Arc<CallerView> {
        let key = subject.key(self, epoch);
        get_or_insert(&self.views, key, |key| Arc::new(CallerView::new(*key, subject, self)))
    }

    /// The policies at `positions`; the same ones for all whom the same policies can concern.
    pub(crate) fn slice(&self, positions: Vec<usize>) -> Arc<PolicySlice> {
        get_or_insert(&self.slices, positions, |positions| {
            Arc::new(PolicySlice::new(self, positions))
        })
    }

    /// The rule whose policy has that name, with its place.
    pub(crate) fn rule(&self, id: &PolicyId) -> Option<(usize, &Rule)> {
        let position = *self.positions.get(id)?;
        Some((position, self.rules.get(position)?))
    }
}

impl Policy for Cedar {
    fn admission(self: &Arc<Self>, identity: &Identity, epoch: u64) -> Admitting {
        if self.upstream.is_none() {
            // A token that comes again needs not even be looked at.
            let (made_for, admission) = identity.keep(self.keeper, || {
                let view = self.view(Subject::of(identity), epoch);
                (epoch, Admission::new(Caller::new(self, view, identity)))
            });
            if made_for == epoch {
                return Admitting::Ready(admission);
            }
            let view = self.view(Subject::of(identity), epoch);
            return Admitting::Ready(Admission::new(Caller::new(self, view, identity)));
        }
        let (cedar, identity) = (Arc::clone(self), identity.clone());
        Admitting::Later(Box::pin(async move {
            let claims = match (&cedar.upstream, identity.upstream()) {
                (Some(upstream), Some(tokens)) => upstream.claims(&**tokens).await?,
                _ => None,
            };
            let view = match &claims {
                Some(claims) => {
                    let subject = Subject { name: &claims.subject, claims: Some(&claims.claims) };
                    cedar.view(subject, epoch)
                }
                None => Arc::new(CallerView::unknown(epoch)),
            };
            Ok(Admission::new(Caller::new(&cedar, view, &identity)))
        }))
    }
}

impl fmt::Debug for Cedar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cedar")
            .field("policies", &self.rules.len())
            .field("upstream", &self.upstream)
            .finish_non_exhaustive()
    }
}

// === impl Caller ===

impl Caller {
    pub(crate) fn new(cedar: &Arc<Cedar>, view: Arc<CallerView>, identity: &Identity) -> Self {
        let claims = identity.claims();
        let has = |scope: &str| claims.is_some_and(|claims| has(claims, scope));
        let token_scopes = cedar.policy_scopes.iter().filter(|scope| has(scope)).cloned().collect();
        Self { cedar: Arc::clone(cedar), view, token_scopes }
    }

    fn key(&self, item: &Item<'_>) -> ViewKey {
        match item.backend.filter(|_| self.cedar.reads_backend) {
            Some(of) => ViewKey::of(&(self.view.key, item.kind, item.name, item.hints, of)),
            None => ViewKey::of(&(self.view.key, item.kind, item.name, item.hints)),
        }
    }

    /// What is decided whatever the arguments are: once for all who look alike.
    fn cached_decision(&self, key: ViewKey, item: &Item<'_>) -> Arc<CachedDecision> {
        let decide = |_: &ViewKey| Arc::new(self.view.decide(&self.cedar, item));
        get_or_insert(&self.cedar.decisions, key, decide)
    }

    /// What is granted with `arguments`; `None` is denied.
    fn decide_with_arguments(
        &self,
        key: ViewKey,
        item: &Item<'_>,
        arguments: &Arguments,
    ) -> Option<MatchedPermits> {
        let ready = |_: &ViewKey| self.view.open(&self.cedar, item).map(Arc::new);
        let open = get_or_insert(&self.cedar.open, key, ready)?;
        self.view.with(&self.cedar, item, &open, arguments).filter(MatchedPermits::any)
    }

    fn with_scopes(&self, granted: &MatchedPermits) -> Verdict {
        let holds = |needed: &Scopes| needed.iter().all(|scope| self.token_scopes.contains(scope));
        match granted.scopes() {
            [(_, first), ..] if !granted.scopes().iter().any(|(_, needed)| holds(needed)) => {
                Verdict::NeedsScopes(first.to_vec())
            }
            _ => Verdict::Permitted,
        }
    }
}

impl Admit for Caller {
    fn visible(&self, item: &Item<'_>) -> bool {
        self.cached_decision(self.key(item), item).permitted
    }

    fn admit(&self, item: &Item<'_>, arguments: Option<&[u8]>) -> Verdict {
        let key = self.key(item);
        let decided = self.cached_decision(key, item);
        if !decided.permitted {
            return Verdict::Hidden;
        }
        if !decided.open {
            return self.with_scopes(&decided.granted);
        }
        match Arguments::parse(arguments, &self.cedar.referenced_arguments) {
            Ok(arguments) => match self.decide_with_arguments(key, item, &arguments) {
                Some(granted) => self.with_scopes(&granted),
                None => Verdict::Denied,
            },
            Err(error) => {
                tracing::debug!(%error, "denied");
                Verdict::Denied
            }
        }
    }

    fn view(&self) -> ViewKey {
        self.view.key
    }

    fn reads_backend(&self) -> bool {
        self.cedar.reads_backend
    }
}

/// Whether a token has a scope (RFC 8693 section 4.2; `scp` is what some issuers call it).
fn has(claims: &Claims, scope: &str) -> bool {
    ["scope", "scp"].into_iter().filter_map(|name| claims.get(name)).any(|claim| {
        match claim.text() {
            Some(scopes) => scopes.split_ascii_whitespace().any(|one| one == scope),
            None => claim.items().any(|one| one.text().as_deref() == Some(scope)),
        }
    })
}

/// What is kept under `key`, or else what `make` gives: it stays true for as long as these policies
/// are there, and room is what is scarce.
fn get_or_insert<K: Eq + Hash + Clone, V: Clone>(
    cache: &Cache<K, V>,
    key: K,
    make: impl FnOnce(&K) -> V,
) -> V {
    let now = SystemTime::UNIX_EPOCH;
    if let Some(kept) = cache.get(&key, now) {
        return kept;
    }
    let value = make(&key);
    cache.insert(key, value.clone(), now + Duration::from_secs(1), now);
    value
}

#[cfg(test)]
mod tests;

//! Policies in the Cedar language.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use cedar_policy::{PolicyId, PolicySet};
use vmcp_authz::{PermissionsFuture, Policy};
use vmcp_core::{
    Authorizer, Cache, CallerPermissions, Claims, Decision, Fingerprint, Identity,
    IdentityCacheKey, Item,
};

use crate::arguments::{Arguments, ReferencedArguments};
use crate::caller_view::{CachedDecision, CallerView, Subject};
use crate::dependencies::PolicyDependencies;
use crate::model::Model;
use crate::policy_error::{PolicyError, PolicyErrors};
use crate::policy_slice::{MatchedPermits, PolicySlice, Scopes};
use crate::prepared_caller::ArgumentDependentRequest;
use crate::rules::{self, Rule};
use crate::upstream::Upstream;

/// Maximum number of cached callers, distinguished by the attributes that policies reference.
const MAX_VIEWS: usize = 1024;

/// Maximum number of cached decisions.
const MAX_DECISIONS: usize = 65_536;

/// Maximum number of cached pairs of a caller and an item, prepared for the arguments of calls.
const MAX_ARGUMENT_REQUESTS: usize = 4096;

/// Maximum number of cached sets of policies.
const MAX_SLICES: usize = 1024;

/// Maximum number of entities in caches: each cached caller or pair holds the configured entities
/// as well.
const MAX_ENTITIES: usize = 1 << 20;

/// Cedar policies with their entities. See the [crate docs](crate) for the model.
///
/// Immutable: changed policies are a new value, in a new layer.
pub struct Cedar {
    pub(crate) model: Model,
    pub(crate) rules: Vec<Rule>,
    /// Positions of the rules, by policy identifier.
    positions: HashMap<PolicyId, usize>,
    /// All policies, as configured.
    pub(crate) all: PolicySet,
    /// Union of the policies' dependencies.
    pub(crate) reads: PolicyDependencies,
    /// Claims in the dependencies.
    pub(crate) claims: Vec<String>,
    /// Arguments in the dependencies.
    pub(crate) referenced_arguments: ReferencedArguments,
    /// `true` if a policy reads the backend of an item, or its generation.
    reads_backend: bool,
    /// Scopes in `@scopes` annotations.
    policy_scopes: BTreeSet<Box<str>>,
    pub(crate) authorizer: cedar_policy::Authorizer,
    upstream: Option<Upstream>,
    keeper: IdentityCacheKey,
    views: Cache<Fingerprint, Arc<CallerView>>,
    slices: Cache<Vec<usize>, Arc<PolicySlice>>,
    decisions: Cache<Fingerprint, Arc<CachedDecision>>,
    open: Cache<Fingerprint, Option<Arc<ArgumentDependentRequest>>>,
}

/// Permissions of one caller.
pub(crate) struct Caller {
    pub(crate) cedar: Arc<Cedar>,
    pub(crate) view: Arc<CallerView>,
    /// Scopes of the token, as far as policies require them. Not the identity: it may own this
    /// value, which would be a cycle.
    token_scopes: Box<[Box<str>]>,
}

// === impl Cedar ===

impl Cedar {
    /// Creates the policies of the server `server`, which is the parent `MCP::"<server>"` of all
    /// its items. Each text has one or several policies; `entities` is an array in Cedar's JSON
    /// format, and may be empty.
    ///
    /// # Errors
    /// All errors at once: malformed policies, templates, `@scopes` on a forbid or without scopes,
    /// malformed entities.
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
            authorizer: cedar_policy::Authorizer::new(),
            upstream: None,
            keeper: IdentityCacheKey::new(),
            views: Cache::new(room.min(MAX_VIEWS)),
            slices: Cache::new(MAX_SLICES),
            decisions: Cache::new(MAX_DECISIONS),
            open: Cache::new(room.min(MAX_ARGUMENT_REQUESTS)),
        })
    }

    /// Evaluates the claims of `provider`'s access token instead of those of the client's token.
    /// Denies everything without a token, or with one that is not a JWT with a `sub`.
    #[must_use]
    pub fn primary_upstream_provider(mut self, provider: &str) -> Self {
        self.upstream = Some(Upstream::new(provider));
        self
    }

    /// Returns the number of cached callers, decisions and sets of policies, for a gauge.
    #[must_use]
    pub fn cached_entries(&self) -> usize {
        let Self { views, slices, decisions, open, upstream, .. } = self;
        let known = upstream.as_ref().map_or(0, Upstream::len);
        views.len() + slices.len() + decisions.len() + open.len() + known
    }

    /// Returns the view of `subject`, shared by indistinguishable callers.
    fn view(&self, subject: Subject<'_>, epoch: u64) -> Arc<CallerView> {
        let key = subject.key(self, epoch);
        get_or_insert(&self.views, key, |key| Arc::new(CallerView::new(*key, subject, self)))
    }

    /// Returns the policies at `positions`, shared by all callers with these policies.
    pub(crate) fn slice(&self, positions: Vec<usize>) -> Arc<PolicySlice> {
        get_or_insert(&self.slices, positions, |positions| {
            Arc::new(PolicySlice::new(self, positions))
        })
    }

    /// Returns the rule of a policy, with its position.
    pub(crate) fn rule(&self, id: &PolicyId) -> Option<(usize, &Rule)> {
        let position = *self.positions.get(id)?;
        Some((position, self.rules.get(position)?))
    }
}

impl Policy for Cedar {
    fn permissions(self: &Arc<Self>, identity: &Identity, epoch: u64) -> PermissionsFuture {
        if self.upstream.is_none() {
            // A repeated token is not even inspected.
            let (made_for, permissions) = identity.get_or_insert_with(self.keeper, || {
                let view = self.view(Subject::of(identity), epoch);
                (epoch, CallerPermissions::new(Caller::new(self, view, identity)))
            });
            if made_for == epoch {
                return PermissionsFuture::Ready(permissions);
            }
            let view = self.view(Subject::of(identity), epoch);
            return PermissionsFuture::Ready(CallerPermissions::new(Caller::new(
                self, view, identity,
            )));
        }
        let (cedar, identity) = (Arc::clone(self), identity.clone());
        PermissionsFuture::Pending(Box::pin(async move {
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
            Ok(CallerPermissions::new(Caller::new(&cedar, view, &identity)))
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

    fn key(&self, item: &Item<'_>) -> Fingerprint {
        match item.backend.filter(|_| self.cedar.reads_backend) {
            Some(of) => {
                Fingerprint::of(&(self.view.key, item.kind, item.name, item.annotations, of))
            }
            None => Fingerprint::of(&(self.view.key, item.kind, item.name, item.annotations)),
        }
    }

    /// Returns the cached decision, independent of arguments.
    fn cached_decision(&self, key: Fingerprint, item: &Item<'_>) -> Arc<CachedDecision> {
        let decide = |_: &Fingerprint| Arc::new(self.view.decide(&self.cedar, item));
        get_or_insert(&self.cedar.decisions, key, decide)
    }

    /// Returns the permits that match with `arguments`; `None` denies.
    fn decide_with_arguments(
        &self,
        key: Fingerprint,
        item: &Item<'_>,
        arguments: &Arguments,
    ) -> Option<MatchedPermits> {
        let ready = |_: &Fingerprint| self.view.open(&self.cedar, item).map(Arc::new);
        let open = get_or_insert(&self.cedar.open, key, ready)?;
        self.view.with(&self.cedar, item, &open, arguments).filter(MatchedPermits::any)
    }

    fn with_scopes(&self, granted: &MatchedPermits) -> Decision {
        let holds = |needed: &Scopes| needed.iter().all(|scope| self.token_scopes.contains(scope));
        match granted.scopes() {
            [(_, first), ..] if !granted.scopes().iter().any(|(_, needed)| holds(needed)) => {
                Decision::InsufficientScope(first.to_vec())
            }
            _ => Decision::Allow,
        }
    }
}

impl Authorizer for Caller {
    fn is_visible(&self, item: &Item<'_>) -> bool {
        self.cached_decision(self.key(item), item).permitted
    }

    fn authorize(&self, item: &Item<'_>, arguments: Option<&[u8]>) -> Decision {
        let key = self.key(item);
        let decided = self.cached_decision(key, item);
        if !decided.permitted {
            return Decision::Hide;
        }
        if !decided.open {
            return self.with_scopes(&decided.granted);
        }
        match Arguments::parse(arguments, &self.cedar.referenced_arguments) {
            Ok(arguments) => match self.decide_with_arguments(key, item, &arguments) {
                Some(granted) => self.with_scopes(&granted),
                None => Decision::Deny,
            },
            Err(error) => {
                tracing::debug!(%error, "denied");
                Decision::Deny
            }
        }
    }

    fn visibility_key(&self) -> Fingerprint {
        self.view.key
    }

    fn reads_backend(&self) -> bool {
        self.cedar.reads_backend
    }
}

/// Returns whether a token has a scope (RFC 8693 section 4.2; some issuers use `scp`).
fn has(claims: &Claims, scope: &str) -> bool {
    ["scope", "scp"].into_iter().filter_map(|name| claims.get(name)).any(|claim| {
        match claim.text() {
            Some(scopes) => scopes.split_ascii_whitespace().any(|one| one == scope),
            None => claim.items().any(|one| one.text().as_deref() == Some(scope)),
        }
    })
}

/// Returns the cached value of `key`, or creates it. Values never become stale, because policies
/// are immutable; the cache only limits their number.
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

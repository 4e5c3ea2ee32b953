//! Policies in the Cedar language.

use std::fmt;
use std::sync::Arc;

use vmcp_authz::{PermissionsFuture, Policy};
use vmcp_core::{
    Authorizer, CallerPermissions, Claims, Decision, Fingerprint, Identity, IdentityCacheKey, Item,
};

use crate::arguments::Arguments;
use crate::caller_view::{CachedDecision, CallerView};
use crate::compiled_policies::CompiledPolicies;
use crate::evaluator::Evaluator;
use crate::immutable_cache::ImmutableCache;
use crate::policy_error::PolicyErrors;
use crate::policy_slice::{MatchedPermits, Scopes};
use crate::prepared_caller::ArgumentDependentRequest;
use crate::subject::Subject;
use crate::upstream::Upstream;

/// Maximum number of cached callers, distinguished by the attributes that policies reference.
const MAX_VIEWS: usize = 1024;

/// Maximum number of cached decisions.
const MAX_DECISIONS: usize = 65_536;

/// Maximum number of cached pairs of a caller and an item, prepared for the arguments of calls.
const MAX_ARGUMENT_REQUESTS: usize = 4096;

/// Maximum number of entities in caches: each cached caller or pair holds the configured entities
/// as well.
const MAX_ENTITIES: usize = 1 << 20;

/// Cedar policies with their entities. See the [crate docs](crate) for the model.
///
/// Immutable: changed policies are a new value, in a new layer.
pub struct Cedar {
    pub(crate) evaluator: Evaluator,
    upstream: Option<Upstream>,
    keeper: IdentityCacheKey,
    views: ImmutableCache<Fingerprint, Arc<CallerView>>,
    decisions: ImmutableCache<Fingerprint, Arc<CachedDecision>>,
    open: ImmutableCache<Fingerprint, Option<Arc<ArgumentDependentRequest>>>,
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
        let policies = CompiledPolicies::new(server, policies, entities)?;
        let room = MAX_ENTITIES / policies.model.statics.len().max(1);
        Ok(Self {
            evaluator: Evaluator::new(policies),
            upstream: None,
            keeper: IdentityCacheKey::new(),
            views: ImmutableCache::new(room.min(MAX_VIEWS)),
            decisions: ImmutableCache::new(MAX_DECISIONS),
            open: ImmutableCache::new(room.min(MAX_ARGUMENT_REQUESTS)),
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
        let Self { evaluator, views, decisions, open, upstream, keeper: _ } = self;
        let known = upstream.as_ref().map_or(0, Upstream::len);
        views.len() + evaluator.cached_slices() + decisions.len() + open.len() + known
    }

    pub(crate) fn policies(&self) -> &CompiledPolicies {
        self.evaluator.policies()
    }

    /// Returns the view of `subject`, shared by indistinguishable callers.
    fn view(&self, subject: Subject<'_>, epoch: u64) -> Arc<CallerView> {
        let key = subject.key(self.policies(), epoch);
        self.views.get_or_insert_with(key, |key| {
            Arc::new(CallerView::new(*key, subject, self.policies()))
        })
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
            .field("policies", &self.policies().rules.len())
            .field("upstream", &self.upstream)
            .finish_non_exhaustive()
    }
}

// === impl Caller ===

impl Caller {
    pub(crate) fn new(cedar: &Arc<Cedar>, view: Arc<CallerView>, identity: &Identity) -> Self {
        let claims = identity.claims();
        let has = |scope: &str| claims.is_some_and(|claims| has(claims, scope));
        let token_scopes =
            cedar.policies().scopes.iter().filter(|scope| has(scope)).cloned().collect();
        Self { cedar: Arc::clone(cedar), view, token_scopes }
    }

    fn key(&self, item: &Item<'_>) -> Fingerprint {
        match item.backend.filter(|_| self.cedar.policies().reads_backend) {
            Some(of) => {
                Fingerprint::of(&(self.view.key, item.kind, item.name, item.annotations, of))
            }
            None => Fingerprint::of(&(self.view.key, item.kind, item.name, item.annotations)),
        }
    }

    /// Returns the cached decision, independent of arguments.
    fn cached_decision(&self, key: Fingerprint, item: &Item<'_>) -> Arc<CachedDecision> {
        let decide = |_: &Fingerprint| Arc::new(self.view.decide(&self.cedar.evaluator, item));
        self.cedar.decisions.get_or_insert_with(key, decide)
    }

    /// Returns the permits that match with `arguments`; `None` denies.
    fn decide_with_arguments(
        &self,
        key: Fingerprint,
        item: &Item<'_>,
        arguments: &Arguments,
    ) -> Option<MatchedPermits> {
        let Cedar { evaluator, open, .. } = &*self.cedar;
        let ready = |_: &Fingerprint| self.view.open(evaluator, item).map(Arc::new);
        let open = open.get_or_insert_with(key, ready)?;
        let matched = self.view.with(evaluator.policies(), item, &open, arguments);
        matched.filter(MatchedPermits::any)
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
        match Arguments::parse(arguments, &self.cedar.policies().referenced_arguments) {
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
        self.cedar.policies().reads_backend
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

#[cfg(test)]
mod tests;

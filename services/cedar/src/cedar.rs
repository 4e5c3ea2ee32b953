//! Policies in Cedar's language.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use cedar_policy::{Authorizer, PolicySet};
use serde_json::Value;
use vmcp_authz::{Admitting, Policy};
use vmcp_core::{Admission, Admit, Cache, Identity, Item, Verdict, ViewKey};

use crate::arguments::{Arguments, Wanted};
use crate::fault::{Fault, PolicyFaults};
use crate::model::Model;
use crate::reads::Reads;
use crate::rules::{self, Rule};
use crate::upstream::Upstream;
use crate::view::{Decided, Question, Subject, View};

/// The most callers, told apart by what the policies look at, that are kept ready.
const VIEWS: usize = 1024;

/// The most decisions that are kept.
const DECISIONS: usize = 65_536;

/// Cedar policies and the entities that they speak of. See the [crate docs](crate) for the model.
///
/// Immutable: other policies are another one, in another layer.
pub struct Cedar {
    pub(crate) model: Model,
    pub(crate) rules: Vec<Rule>,
    /// All policies, as they were written.
    pub(crate) all: PolicySet,
    /// What any of them looks at.
    pub(crate) reads: Reads,
    /// The claims among that.
    pub(crate) claims: Vec<String>,
    /// The arguments among that.
    pub(crate) wanted: Wanted,
    pub(crate) authorizer: Authorizer,
    upstream: Option<Upstream>,
    views: Cache<ViewKey, Arc<View>>,
    decisions: Cache<ViewKey, Decided>,
}

/// One caller before the policies.
pub(crate) struct Caller {
    pub(crate) cedar: Arc<Cedar>,
    pub(crate) view: Arc<View>,
    /// Whose token has to have the scopes.
    pub(crate) identity: Identity,
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
    ) -> Result<Self, PolicyFaults> {
        let (mut rules, mut faults) = (Vec::new(), Vec::new());
        if policies.is_empty() {
            faults.push(Fault::NoPolicies);
        }
        for (index, text) in policies.iter().enumerate() {
            match rules::read(index, text.as_ref()) {
                Ok(read) => rules.extend(read),
                Err(found) => faults.extend(found),
            }
        }
        let model = match Model::new(server, entities) {
            Ok(model) if faults.is_empty() => model,
            Ok(_) => return Err(PolicyFaults(faults)),
            Err(fault) => {
                faults.push(fault);
                return Err(PolicyFaults(faults));
            }
        };
        let all = PolicySet::from_policies(rules.iter().map(|rule| rule.policy.clone()));
        let all = all.map_err(|error| PolicyFaults(vec![Fault::policy(0, error.to_string())]))?;
        let mut reads = Reads { principal: model.mentions_clients, ..Reads::default() };
        for rule in &rules {
            reads.join(&rule.reads);
        }
        let claims = reads.attributes.iter().filter_map(|name| name.strip_prefix("claim_"));
        Ok(Self {
            claims: claims.map(str::to_owned).collect(),
            wanted: Wanted::of(&reads),
            model,
            rules,
            all,
            reads,
            authorizer: Authorizer::new(),
            upstream: None,
            views: Cache::new(VIEWS),
            decisions: Cache::new(DECISIONS),
        })
    }

    /// Evaluates the claims of `provider`'s access token instead of those of the token that the client
    /// presented. Who has none, or one that is no JWT with a `sub`, is denied everything.
    #[must_use]
    pub fn primary_upstream_provider(mut self, provider: &str) -> Self {
        self.upstream = Some(Upstream::new(provider));
        self
    }

    /// The caller that looks like `subject`; the same one for all that look alike.
    fn view(&self, subject: Subject<'_>, epoch: u64) -> Arc<View> {
        let key = subject.key(self, epoch);
        keep(&self.views, key, || Arc::new(View::new(key, subject, self)))
    }

    fn admission_of(self: &Arc<Self>, view: Arc<View>, identity: Identity) -> Admission {
        Admission::new(Caller { cedar: Arc::clone(self), view, identity })
    }
}

impl Policy for Cedar {
    fn admission(self: &Arc<Self>, identity: &Identity, epoch: u64) -> Admitting {
        if self.upstream.is_none() {
            let view = self.view(Subject::of(identity), epoch);
            return Admitting::Ready(self.admission_of(view, identity.clone()));
        }
        let (cedar, identity) = (Arc::clone(self), identity.clone());
        Admitting::Later(Box::pin(async move {
            let said = match (&cedar.upstream, identity.upstream()) {
                (Some(upstream), Some(tokens)) => upstream.said(&**tokens).await?,
                _ => None,
            };
            let view = match &said {
                Some(said) => {
                    let subject = Subject { name: &said.subject, claims: Some(&said.claims) };
                    cedar.view(subject, epoch)
                }
                None => Arc::new(View::unknown(epoch)),
            };
            Ok(cedar.admission_of(view, identity))
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
    /// What is decided whatever the arguments are: once for all who look alike.
    fn look(&self, item: &Item<'_>) -> Decided {
        let key = ViewKey::of(&(self.view.key, item.kind, item.name, item.hints));
        let decide = || self.view.decide(&self.cedar, item, Question::Possible);
        keep(&self.cedar.decisions, key, decide)
    }

    fn with_scopes(&self, decided: &Decided) -> Verdict {
        let has = |needed: &Arc<[Box<str>]>| needed.iter().all(|scope| self.has(scope));
        match decided.scopes.first() {
            Some(first) if !decided.scopes.iter().any(has) => Verdict::NeedsScopes(first.to_vec()),
            _ => Verdict::Permitted,
        }
    }

    /// Whether the token has a scope (RFC 8693 section 4.2; `scp` is what some issuers call it).
    fn has(&self, scope: &str) -> bool {
        let claims = self.identity.claims();
        let claim = |name: &str| claims.and_then(|claims| claims.get(name));
        [claim("scope"), claim("scp")].into_iter().flatten().any(|claim| match claim {
            Value::String(scopes) => scopes.split_ascii_whitespace().any(|one| one == scope),
            Value::Array(scopes) => scopes.iter().any(|one| one.as_str() == Some(scope)),
            _ => false,
        })
    }
}

impl Admit for Caller {
    fn visible(&self, item: &Item<'_>) -> bool {
        self.look(item).permitted
    }

    fn admit(&self, item: &Item<'_>, arguments: Option<&[u8]>) -> Verdict {
        let decided = self.look(item);
        if !decided.permitted {
            return Verdict::Hidden;
        }
        if !decided.open {
            return self.with_scopes(&decided);
        }
        match Arguments::read(arguments, &self.cedar.wanted) {
            Ok(arguments) => {
                let decided = self.view.decide(&self.cedar, item, Question::With(&arguments));
                if decided.permitted { self.with_scopes(&decided) } else { Verdict::Denied }
            }
            Err(unclear) => {
                tracing::debug!(%unclear, "denied");
                Verdict::Denied
            }
        }
    }

    fn view(&self) -> ViewKey {
        self.view.key
    }
}

/// What is kept under `key`, or else what `make` gives: it stays true for as long as these policies
/// are there, and room is what is scarce.
fn keep<V: Clone>(cache: &Cache<ViewKey, V>, key: ViewKey, make: impl FnOnce() -> V) -> V {
    let now = SystemTime::UNIX_EPOCH;
    if let Some(kept) = cache.get(&key, now) {
        return kept;
    }
    let value = make();
    cache.insert(key, value.clone(), now + Duration::from_secs(1), now);
    value
}

#[cfg(test)]
mod tests;

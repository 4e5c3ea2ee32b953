//! Properties of a caller that policies reference, and the decisions for it.

use std::hash::{Hash, Hasher};
use std::sync::OnceLock;

use cedar_policy::{Entities, Request};
use serde_json::Value;
use vmcp_core::{Claim, Claims, Fingerprint, Identity, Item};

use crate::arguments::Arguments;
use crate::cedar::Cedar;
use crate::policy_slice::MatchedPermits;
use crate::prepared_caller::{ArgumentDependentRequest, PreparedCaller};

/// Claims with the groups, by precedence. The first one that is present counts, even if it is
/// empty.
const GROUP_CLAIMS: [&str; 3] = ["groups", "roles", "cognito:groups"];

/// Maximum number of groups of a caller, and of claims if policies reference the whole context. A
/// caller with more is denied everything: a dropped one could match a forbid.
const MAX_GROUPS_AND_CLAIMS: usize = 1024;

/// Claims of a caller as policies see them.
#[derive(Clone, Copy)]
pub(crate) struct Subject<'a> {
    pub(crate) name: &'a str,
    pub(crate) claims: Option<&'a Claims>,
}

/// Hash of a caller by the dependencies of `cedar`'s policies.
struct CallerFingerprint<'a> {
    subject: Subject<'a>,
    cedar: &'a Cedar,
    epoch: u64,
}

/// Callers that the policies cannot distinguish.
pub(crate) struct CallerView {
    pub(crate) key: Fingerprint,
    facts: Option<CallerFacts>,
    prepared: OnceLock<Option<PreparedCaller>>,
}

/// Properties of a caller that policies reference.
pub(crate) struct CallerFacts {
    pub(crate) name: String,
    pub(crate) claims: Vec<(String, Value)>,
    pub(crate) groups: Vec<String>,
}

/// Decision of policies, independent of arguments.
#[derive(Debug, Default)]
pub(crate) struct CachedDecision {
    /// `true` if some arguments are permitted.
    pub(crate) permitted: bool,
    /// `true` if the decision depends on the arguments.
    pub(crate) open: bool,
    pub(crate) granted: MatchedPermits,
}

impl<'a> Subject<'a> {
    /// Creates the subject of the caller's own token. Without a subject, its name is `anonymous`.
    pub(crate) fn of(identity: &'a Identity) -> Self {
        let name = identity.subject().unwrap_or("anonymous");
        Self { name, claims: identity.claims() }
    }

    fn claim(&self, name: &str) -> Option<Claim<'a>> {
        self.claims.and_then(|claims| claims.get(name))
    }

    pub(crate) fn groups(&self) -> Option<Claim<'a>> {
        let usable = |claim: &Claim<'_>| claim.is_array() || claim.is_string();
        GROUP_CLAIMS.iter().find_map(|name| self.claim(name).filter(usable))
    }

    /// Returns the key of all callers that `cedar`'s policies cannot distinguish.
    pub(crate) fn key(&self, cedar: &Cedar, epoch: u64) -> Fingerprint {
        Fingerprint::of(&CallerFingerprint { subject: *self, cedar, epoch })
    }

    fn facts(&self, cedar: &Cedar) -> Option<CallerFacts> {
        let name = if cedar.reads.principal { self.name } else { "" };
        let claims: Vec<_> = match self.claims {
            Some(all) if cedar.reads.context => {
                all.iter().map(|(name, claim)| (name.into_owned(), claim.value())).collect()
            }
            _ => {
                let claim = |name: &String| Some((name.clone(), self.claim(name)?.value()));
                cedar.claims.iter().filter_map(claim).collect()
            }
        };
        let groups: Vec<_> = match self.groups().filter(|_| cedar.reads.groups) {
            Some(claim) => match claim.text() {
                Some(one) => vec![one.into_owned()],
                None => claim.items().filter_map(|one| Some(one.text()?.into_owned())).collect(),
            },
            None => Vec::new(),
        };
        if groups.len() > MAX_GROUPS_AND_CLAIMS || claims.len() > MAX_GROUPS_AND_CLAIMS {
            tracing::warn!("caller denied: more than {MAX_GROUPS_AND_CLAIMS} groups or claims");
            return None;
        }
        Some(CallerFacts { name: name.to_owned(), claims, groups })
    }
}

impl Hash for CallerFingerprint<'_> {
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
            // Hashes the JSON text, which may differ for equal claims: then they are decided twice.
            subject.claims.into_iter().flat_map(Claims::iter).for_each(|claim| claim.hash(state));
        } else {
            cedar.claims.iter().for_each(|name| subject.claim(name).hash(state));
        }
    }
}

impl CallerView {
    pub(crate) fn new(key: Fingerprint, subject: Subject<'_>, cedar: &Cedar) -> Self {
        Self { key, facts: subject.facts(cedar), prepared: OnceLock::new() }
    }

    /// Creates the view of an unknown caller, which is denied everything.
    pub(crate) fn unknown(epoch: u64) -> Self {
        Self { key: Fingerprint::of(&("unknown", epoch)), facts: None, prepared: OnceLock::new() }
    }

    /// Evaluates the policies independent of arguments.
    pub(crate) fn decide(&self, cedar: &Cedar, item: &Item<'_>) -> CachedDecision {
        self.decided(cedar, item).unwrap_or_default()
    }

    fn decided(&self, cedar: &Cedar, item: &Item<'_>) -> Option<CachedDecision> {
        let prepared = self.prepared(cedar)?;
        let (request, entities) = prepared.request(cedar, item, &Arguments::default())?;
        let slice = prepared.slice(cedar, item);
        // Evaluates all policies, even if a permit matches: an error in any denies.
        let granted = slice.fixed(cedar, &request, &entities)?;
        let permitted = granted.any() || slice.possible(cedar, &request, &entities);
        Some(CachedDecision { permitted, open: slice.is_open(), granted })
    }

    /// Prepares `item` for the arguments of calls.
    pub(crate) fn open(&self, cedar: &Cedar, item: &Item<'_>) -> Option<ArgumentDependentRequest> {
        self.prepared(cedar)?.open(cedar, item)
    }

    /// Returns the permits that match with `arguments`; `None` denies. `open` is that of this
    /// caller and `item`.
    pub(crate) fn with(
        &self,
        cedar: &Cedar,
        item: &Item<'_>,
        open: &ArgumentDependentRequest,
        arguments: &Arguments,
    ) -> Option<MatchedPermits> {
        self.prepared(cedar)?.with(cedar, item, open, arguments)
    }

    /// Builds the complete request, for other evaluations.
    pub(crate) fn request(
        &self,
        cedar: &Cedar,
        item: &Item<'_>,
        arguments: &Arguments,
    ) -> Option<(Request, Entities)> {
        self.prepared(cedar)?.request(cedar, item, arguments)
    }

    fn prepared(&self, cedar: &Cedar) -> Option<&PreparedCaller> {
        let prepared =
            self.prepared.get_or_init(|| PreparedCaller::new(cedar, self.facts.as_ref()?));
        prepared.as_ref()
    }
}

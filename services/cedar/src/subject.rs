//! Claims of a caller, as far as policies reference them.

use std::hash::{Hash, Hasher};

use serde_json::Value;
use vmcp_core::{Claim, Claims, Fingerprint, Identity};

use crate::compiled_policies::CompiledPolicies;

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

/// Hash of a caller by the dependencies of policies.
struct CallerFingerprint<'a> {
    subject: Subject<'a>,
    policies: &'a CompiledPolicies,
    epoch: u64,
}

/// Properties of a caller that policies reference.
pub(crate) struct CallerFacts {
    pub(crate) name: String,
    pub(crate) claims: Vec<(String, Value)>,
    pub(crate) groups: Vec<String>,
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

    /// Returns the key of all callers that the policies cannot distinguish.
    pub(crate) fn key(&self, policies: &CompiledPolicies, epoch: u64) -> Fingerprint {
        Fingerprint::of(&CallerFingerprint { subject: *self, policies, epoch })
    }

    /// Returns the properties that policies reference; `None` if there are too many.
    pub(crate) fn facts(&self, policies: &CompiledPolicies) -> Option<CallerFacts> {
        let name = if policies.reads.principal { self.name } else { "" };
        let claims: Vec<_> = match self.claims {
            Some(all) if policies.reads.context => {
                all.iter().map(|(name, claim)| (name.into_owned(), claim.value())).collect()
            }
            _ => {
                let claim = |name: &String| Some((name.clone(), self.claim(name)?.value()));
                policies.claims.iter().filter_map(claim).collect()
            }
        };
        let groups: Vec<_> = match self.groups().filter(|_| policies.reads.groups) {
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
        let Self { subject, policies, epoch } = self;
        epoch.hash(state);
        if policies.reads.principal {
            subject.name.hash(state);
        }
        if policies.reads.groups {
            subject.groups().hash(state);
        }
        if policies.reads.context {
            // Hashes the JSON text, which may differ for equal claims: then they are decided twice.
            subject.claims.into_iter().flat_map(Claims::iter).for_each(|claim| claim.hash(state));
        } else {
            policies.claims.iter().for_each(|name| subject.claim(name).hash(state));
        }
    }
}

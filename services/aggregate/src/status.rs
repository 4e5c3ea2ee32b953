//! What is known of the backends and of what they offer together, for people and their dashboards.

mod entries;
mod health;

use std::sync::Arc;

pub use self::health::{CheckError, Checked};
use vmcp_core::{Generation, Hints, ItemBackend, LATEST_STATEFUL, STATELESS};

use crate::backend::own::Owns;
use crate::backend::{Link, Speaks, Status};
use crate::catalog::{Conflict, Hides};
use crate::hub::{Combined, Hub, Snapshot};
use crate::settings::{Sharing, Transport};

/// A snapshot of everything that is worth showing.
#[derive(Clone, Debug)]
pub struct Report {
    /// The server's name.
    pub name: String,
    /// The backends, in the order of the configuration.
    pub backends: Vec<BackendReport>,
    /// What clients are offered.
    pub entries: Vec<Entry>,
    /// Names that several backends wanted.
    pub conflicts: Vec<Conflict>,
    /// What `aggregation.tools` says of tools that their backend does not have.
    pub idle_rules: Vec<IdleRule>,
    /// Names under which clients see tools and that MCP advises against: some clients refuse them.
    pub odd_names: Vec<String>,
    /// Sessions of stateful clients.
    pub sessions: usize,
    /// Calls that wait for a stateless client's answer.
    pub parked_calls: usize,
    /// Notifications that were dropped since the process began, because their clients did not read.
    pub dropped_messages: u64,
    /// Calls of sessions that go on while their client is not connected.
    pub detached_calls: usize,
    /// Calls that were ended since the gateway began because their client was away for too long, or too much waited for it;
    /// suspended ones too.
    pub detached_calls_ended: u64,
    /// The catalogs that the entries are of.
    catalogs: Arc<Combined>,
}

/// What is kept in memory for a while, besides what [`Counts`] has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// Lists as single callers see them.
    pub list_views: usize,
    /// Sessions with stateful backends on behalf of stateless clients.
    pub shared_sessions: usize,
    /// Offers of single callers, of backends that offer each caller something else.
    pub caller_offers: usize,
    /// How many of them differ.
    pub different_offers: usize,
    /// Catalogs that were made with such offers.
    pub caller_catalogs: usize,
    /// Open `subscriptions/listen` streams of stateless clients.
    pub listeners: usize,
    /// Bytes that wait for clients that are not connected, with a charge for each call that goes on.
    pub detached_bytes: usize,
}

/// What is counted: cheap enough for every scrape of metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// As [`Report::sessions`].
    pub sessions: usize,
    /// As [`Report::parked_calls`].
    pub parked_calls: usize,
    /// As [`Report::dropped_messages`].
    pub dropped_messages: u64,
    /// As [`Report::detached_calls`].
    pub detached_calls: usize,
    /// As [`Report::detached_calls_ended`].
    pub detached_calls_ended: u64,
}

/// One backend.
#[derive(Clone, Debug)]
pub struct BackendReport {
    /// Its name.
    pub name: String,
    /// How it is spoken to.
    pub transport: Transport,
    /// The newest revision that it speaks, as far as the gateway speaks it too; `None` while that is unknown.
    pub revision: Option<&'static str>,
    /// The newest revision of each generation that it speaks, the newer one first.
    pub revisions: Vec<&'static str>,
    /// Whether what it offers is known, if only from before. Of one whose offer depends on who calls, whether
    /// it has ever answered.
    pub offered: bool,
    /// Whose its offer is. The entries show what is offered to everybody only.
    pub catalog: Sharing,
    /// Whether it refuses the gateway's own credentials, or asks it for a caller's: with [`Sharing::PerCaller`] nothing
    /// is wrong.
    pub unauthenticated: bool,
    /// Why it could not be asked the last time, if it could not.
    pub failure: Option<String>,
    /// The same with addresses, causes and the remedy, if there is more to say: for who runs the gateway, not for its clients.
    pub detail: Option<String>,
    /// Whether its first answer is still awaited.
    pub pending: bool,
    /// The breaker in front of it, if it has one: how the circuit stands.
    pub breaker: Option<vmcp_breaker::CircuitHandle>,
    /// What checks have seen of it; `None` while its health is not watched.
    pub checked: Option<Checked>,
}

/// Something on offer, or hidden.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// `tool`, `prompt`, `resource` or `resource template`.
    pub kind: &'static str,
    /// What clients call it, or would if they saw it.
    pub name: String,
    /// Whose it is.
    pub backend: String,
    /// What the backend calls it.
    pub original: String,
    /// What it is called after overrides and before conflicts are settled.
    pub wanted: String,
    /// What a tool's server says that it does, with what is overridden.
    pub hints: Hints,
    /// Whether clients see it.
    pub shown: bool,
    /// Why it is hidden; `None` when it is shown.
    pub because: Option<Because>,
    /// The generation of the clients that it is offered to; `None` is both alike. A backend that speaks both may offer
    /// them something else.
    pub generation: Option<Generation>,
}

impl Report {
    /// Whether clients get lists: from all backends if `is_strict`, else from any, if there are any.
    #[must_use]
    pub fn serves_lists(&self, is_strict: bool) -> bool {
        let mut offered = self.backends.iter().map(|backend| backend.offered);
        if is_strict {
            offered.all(|it| it)
        } else {
            self.backends.is_empty() || offered.any(|it| it)
        }
    }

    /// Returns the backend that answers clients of one generation for a URI, listed or of a template.
    #[must_use]
    pub fn resource_backend(&self, uri: &str, client: Generation) -> Option<String> {
        let link = self.catalogs.of(client).resource(uri)?;
        Some(link.name().to_owned())
    }

    /// Returns what policies are told of a backend of this name, for a client of one generation.
    #[must_use]
    pub fn item_backend<'a>(&self, backend: &'a str, client: Generation) -> ItemBackend<'a> {
        let generation = self.catalogs.of(client).spoken(backend, client);
        ItemBackend { name: backend, generation }
    }

    /// Counts the entries of one kind that clients of one generation see.
    #[must_use]
    pub fn shown(&self, kind: &str, generation: Generation) -> usize {
        let to = |entry: &&Entry| entry.generation.is_none_or(|only| only == generation);
        self.entries.iter().filter(to).filter(|entry| entry.shown && entry.kind == kind).count()
    }
}

/// A name in `aggregation.tools` that is no tool's. Backends whose offer is not known, or depends on who asks, are
/// not looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdleRule {
    /// The backend.
    pub backend: String,
    /// `filter` or `overrides`.
    pub list: &'static str,
    /// The name.
    pub name: String,
}

/// Why clients don't see something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Because {
    /// A rule hides it. Composite tools still reach it.
    Hidden(Hides),
    /// Its name went to another, or to nobody; in the words of [`Conflict::settled`].
    NameTaken(String),
}

pub(crate) fn counts(hub: &Hub) -> Counts {
    let detached = hub.detached.counts();
    Counts {
        detached_calls: detached.calls,
        detached_calls_ended: detached.ended,
        sessions: hub.sessions.len(),
        parked_calls: hub.parked.len(),
        dropped_messages: crate::stream::dropped(),
    }
}

pub(crate) fn kept(hub: &Hub) -> Kept {
    let snapshot = hub.snapshot();
    let own = snapshot.links.iter().filter_map(|link| link.own.as_ref()).map(Owns::count);
    let (caller_offers, different_offers) =
        own.fold((0, 0), |sum, count| (sum.0 + count.0, sum.1 + count.1));
    Kept {
        list_views: hub.views.len(),
        shared_sessions: hub.shared.len(),
        caller_offers,
        different_offers,
        caller_catalogs: hub.mixed.len(),
        listeners: hub.listeners.len(),
        detached_bytes: hub.detached.counts().bytes,
    }
}

pub(crate) fn backends(snapshot: &Snapshot) -> Vec<BackendReport> {
    let report = |link: &Arc<Link>| {
        let status = link.status();
        let (failure, detail, unauthenticated) = match &status {
            Status::Failed { reason, detail, remedy, is_unauthorized } => {
                let more = detail.clone().or_else(|| remedy.as_ref().map(|_| reason.clone()));
                let detail = more.map(|detail| match remedy {
                    Some(remedy) => format!("{detail}: {remedy}"),
                    None => detail,
                });
                (Some(reason.clone()), detail, *is_unauthorized)
            }
            Status::Fetching { .. } | Status::Ready => (None, None, link.asks_for_caller()),
        };
        BackendReport {
            name: link.name().to_owned(),
            transport: link.transport,
            revision: link.speaks().map(|speaks| match speaks {
                Speaks::Stateful => LATEST_STATEFUL,
                Speaks::Stateless | Speaks::Both => STATELESS,
            }),
            revisions: match link.speaks() {
                None => Vec::new(),
                Some(Speaks::Stateful) => vec![LATEST_STATEFUL],
                Some(Speaks::Stateless) => vec![STATELESS],
                Some(Speaks::Both) => vec![STATELESS, LATEST_STATEFUL],
            },
            offered: link.has_answered(),
            catalog: if link.shared() { Sharing::Shared } else { Sharing::PerCaller },
            unauthenticated,
            pending: matches!(status, Status::Fetching { .. }),
            breaker: link.breaker(),
            checked: link.vitals.report(),
            failure,
            detail,
        }
    };
    snapshot.links.iter().map(report).collect()
}

pub(crate) fn report(hub: &Arc<Hub>) -> Report {
    let snapshot = hub.snapshot();
    let catalogs = snapshot.catalogs();
    let Counts { sessions, parked_calls, dropped_messages, detached_calls, detached_calls_ended } =
        counts(hub);
    let entries = entries::entries(&snapshot, &catalogs);
    Report {
        name: snapshot.name.clone(),
        backends: backends(&snapshot),
        idle_rules: idle_rules(&snapshot, &entries),
        odd_names: odd_names(&entries),
        entries,
        conflicts: catalogs.conflicts().to_vec(),
        sessions,
        parked_calls,
        dropped_messages,
        detached_calls,
        detached_calls_ended,
        catalogs,
    }
}

/// MCP 2025-11-25, Tools, Tool Names.
fn odd_names(entries: &[Entry]) -> Vec<String> {
    let advised = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    let good = |name: &str| (1..=128).contains(&name.len()) && name.bytes().all(advised);
    let shown = entries.iter().filter(|entry| entry.shown && entry.kind == "tool");
    let mut odd: Vec<_> =
        shown.map(|entry| &entry.name).filter(|name| !good(name)).cloned().collect();
    // The entries are in the order of their names: one for each generation can follow each other.
    odd.dedup();
    odd
}

fn idle_rules(snapshot: &Snapshot, entries: &[Entry]) -> Vec<IdleRule> {
    let mut idle = Vec::new();
    for link in snapshot.links.iter().filter(|link| link.offers.load().is_known()) {
        let Some(rules) = snapshot.rules.workloads.get(link.name()) else { continue };
        let tools = entries.iter().filter(|entry| entry.kind == "tool");
        let tools: Vec<_> = tools.filter(|entry| entry.backend == link.name()).collect();
        let rule = |list, name: &String| IdleRule {
            backend: link.name().to_owned(),
            list,
            name: name.clone(),
        };
        let filter = rules.filter.iter().flatten();
        let unseen = filter.filter(|name| !tools.iter().any(|tool| tool.wanted == **name));
        let unused = rules.overrides.keys();
        let unused = unused.filter(|name| !tools.iter().any(|tool| tool.original == **name));
        let mut found: Vec<_> = unseen.map(|name| rule("filter", name)).collect();
        found.extend(unused.map(|name| rule("overrides", name)));
        found.sort_by(|a, b| (a.list, &a.name).cmp(&(b.list, &b.name)));
        idle.extend(found);
    }
    idle
}

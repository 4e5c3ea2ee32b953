//! Status report on the backends and the aggregated catalog, for operators and dashboards.

mod composites;
mod entries;
mod health;

use std::sync::Arc;

pub use self::composites::CompositeEntry;
pub use crate::backend::health::report::{CheckError, HealthReport};
use vmcp_core::{Generation, ItemBackend, LATEST_STATEFUL, STATELESS, ToolAnnotations};
use vmcp_optimize::{EmbedderStatus, IndexCounts};

use crate::backend::{BackendHandle, FetchStatus, SupportedModes};
use crate::catalog::{Conflict, HideRule};
use crate::settings::{Sharing, Transport};
use crate::snapshot::{BackendCatalogs, Snapshot};

/// Snapshot of the gateway's state.
#[derive(Clone, Debug)]
pub struct Report {
    /// Name of the server.
    pub name: String,
    /// Backends, in configuration order.
    pub backends: Vec<BackendReport>,
    /// Items of the aggregated catalog.
    pub entries: Vec<Entry>,
    /// Names claimed by several backends.
    pub conflicts: Vec<Conflict>,
    /// Rules in `aggregation.tools` for tools that their backend does not have.
    pub unmatched_rules: Vec<UnmatchedRule>,
    /// Advertised tool names that do not conform to MCP's recommendation; some clients reject them.
    pub nonconforming_names: Vec<String>,
    /// Number of stateful client sessions.
    pub sessions: usize,
    /// Number of suspended calls of stateless clients.
    pub parked_calls: usize,
    /// Number of notifications dropped since the process started because their clients did not read.
    pub dropped_messages: u64,
    /// Number of session calls whose client is disconnected.
    pub detached_calls: usize,
    /// Number of calls, including suspended ones, that were ended since the process started because their client was away for
    /// too long or their messages exceeded the budget.
    pub detached_calls_ended: u64,
    /// Catalogs from which the entries are derived.
    catalogs: Arc<BackendCatalogs>,
}

/// Number of requests that were forwarded to other replicas since the process started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForwardCount {
    /// Target of the requests: `response`, `resumption`, `cancellation`, `suspended_call`, `workflow_run` or `task`.
    pub kind: &'static str,
    /// `responded`, `gone` if the replica is gone, or `failed`.
    pub outcome: &'static str,
    /// Number of requests.
    pub requests: u64,
}

/// Sizes of caches and queues, in addition to [`Counts`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheSizes {
    /// Cached lists of single callers.
    pub list_views: usize,
    /// Sessions with stateful backends on behalf of stateless clients.
    pub stateless_sessions: usize,
    /// Ended sessions whose sealed ids have not expired.
    pub ended_sessions: usize,
    /// Cached per-caller offers.
    pub caller_offers: usize,
    /// Number of distinct ones among them.
    pub distinct_offers: usize,
    /// Cached catalogs built with such offers.
    pub caller_catalogs: usize,
    /// Open `subscriptions/listen` streams of stateless clients.
    pub listeners: usize,
    /// Bytes buffered for disconnected clients, including a charge for each detached call.
    pub detached_bytes: usize,
}

/// Runs of composite tools in this process, and runs and steps that ended since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkflowCounts {
    /// Runs that this process runs, those that wait for the user in place included.
    pub running: usize,
    /// Runs that wait for the user in place, without those that are suspended in the store.
    pub waiting: usize,
    /// Runs that succeeded.
    pub completed: u64,
    /// Runs that failed.
    pub failed: u64,
    /// Steps that succeeded.
    pub steps_completed: u64,
    /// Steps that failed or were cancelled.
    pub steps_failed: u64,
    /// Steps that were skipped.
    pub steps_skipped: u64,
    /// Duration of all runs together, in milliseconds.
    pub milliseconds: u64,
}

/// Searches for tools since the process started, by mode, and their tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SearchCounts {
    /// Searches by keywords and meaning.
    pub hybrid: u64,
    /// Searches by meaning only.
    pub semantic: u64,
    /// Searches by keywords only, as configured.
    pub keyword: u64,
    /// Searches by keywords only because the embeddings were not there.
    pub fallback: u64,
    /// Tokens of all tools that the callers see, summed over the searches.
    pub baseline_tokens: u64,
    /// Tokens of the tools that were returned.
    pub returned_tokens: u64,
}

/// State of the tool search.
#[derive(Clone, Debug)]
pub struct OptimizerReport {
    /// Cached views of callers.
    pub views: usize,
    /// Numbers of searches.
    pub searches: SearchCounts,
    /// Number of entries in the index.
    pub index: IndexCounts,
    /// State of the embeddings; `None` without an embedding service.
    pub embedder: Option<EmbedderStatus>,
}

/// Counters that are cheap enough for every scrape of metrics.
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

/// Report on one backend.
#[derive(Clone, Debug)]
pub struct BackendReport {
    /// Name of the backend.
    pub name: String,
    /// Transport of the backend.
    pub transport: Transport,
    /// Newest revision that both the backend and the gateway support; `None` while unknown.
    pub revision: Option<&'static str>,
    /// Newest supported revision of each generation, newest first.
    pub revisions: Vec<&'static str>,
    /// `true` if an offer is known, even an outdated one. For per-caller backends, `true` if the backend has ever responded.
    pub offered: bool,
    /// Sharing of the offer. The entries only contain shared offers.
    pub catalog: Sharing,
    /// `true` if the backend rejects the gateway's own credentials or requires a caller's; the latter is expected with
    /// [`Sharing::PerCaller`].
    pub unauthenticated: bool,
    /// Reason of the last failed fetch, if it failed.
    pub failure: Option<String>,
    /// The same with addresses, causes and the remedy, if known: for operators, not for clients.
    pub detail: Option<String>,
    /// `true` while the first response is pending.
    pub pending: bool,
    /// Handle of the circuit breaker, if the backend has one.
    pub breaker: Option<vmcp_breaker::CircuitHandle>,
    /// Results of health checks; `None` if they are disabled.
    pub checked: Option<HealthReport>,
}

/// Visible or hidden item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// `tool`, `prompt`, `resource` or `resource template`.
    pub kind: &'static str,
    /// Advertised name, or the one it would have if it were visible.
    pub name: String,
    /// Backend of the item; `compositeTools` for a composite tool.
    pub backend: String,
    /// The backend's own name of the item.
    pub original: String,
    /// Name after overrides and before conflict resolution.
    pub wanted: String,
    /// Annotations declared by the server, with overrides applied.
    pub annotations: ToolAnnotations,
    /// `true` if clients see the item.
    pub shown: bool,
    /// Reason for hiding the item; `None` if it is visible.
    pub hidden_reason: Option<HiddenReason>,
    /// Generation of the clients that see the item; `None` for both. A backend that supports both may offer different items to
    /// each.
    pub generation: Option<Generation>,
    /// Facts about a composite tool; `None` for the item of a backend.
    pub composite: Option<Arc<CompositeEntry>>,
}

impl Report {
    /// Returns `true` if clients receive lists: from all backends if `is_strict`, otherwise from at least one, if any are
    /// configured.
    #[must_use]
    pub fn serves_lists(&self, is_strict: bool) -> bool {
        let mut offered = self.backends.iter().map(|backend| backend.offered);
        if is_strict {
            offered.all(|it| it)
        } else {
            self.backends.is_empty() || offered.any(|it| it)
        }
    }

    /// Returns the backend that serves a URI to clients of one generation, either listed or by template.
    #[must_use]
    pub fn resource_backend(&self, uri: &str, client: Generation) -> Option<String> {
        let backend = self.catalogs.of(client).resource(uri)?;
        Some(backend.name().to_owned())
    }

    /// Returns the policy attributes of a backend, for a client of one generation.
    #[must_use]
    pub fn item_backend<'a>(&self, backend: &'a str, client: Generation) -> ItemBackend<'a> {
        let generation = self.catalogs.of(client).spoken(backend, client);
        ItemBackend { name: backend, generation }
    }

    /// Returns the number of entries of one kind that clients of one generation see.
    #[must_use]
    pub fn shown(&self, kind: &str, generation: Generation) -> usize {
        let to = |entry: &&Entry| entry.generation.is_none_or(|only| only == generation);
        self.entries.iter().filter(to).filter(|entry| entry.shown && entry.kind == kind).count()
    }
}

/// Name in `aggregation.tools` that matches no tool. Backends with unknown or per-caller offers are not checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnmatchedRule {
    /// Backend of the rule.
    pub backend: String,
    /// `filter` or `overrides`.
    pub list: &'static str,
    /// Name that matches no tool.
    pub name: String,
}

/// Reason for which clients do not see an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HiddenReason {
    /// A rule hides it. Composite tools can still call it.
    Rule(HideRule),
    /// Its name was assigned to another item or to none; the text is that of [`Conflict::resolution`].
    NameTaken(String),
    /// Another item has the name of these tools of a composite tool's steps.
    ToolNamesTaken(Vec<String>),
    /// No backend has these tools of a composite tool's steps for these clients. Empty if only other clients have them.
    MissingTools(Vec<String>),
}

pub(crate) fn backends(snapshot: &Snapshot) -> Vec<BackendReport> {
    let report = |backend: &Arc<BackendHandle>| {
        let status = backend.status();
        let (failure, detail, unauthenticated) = match &status {
            FetchStatus::Failed { reason, detail, remedy, is_unauthorized } => {
                let more = detail.clone().or_else(|| remedy.as_ref().map(|_| reason.clone()));
                let detail = more.map(|detail| match remedy {
                    Some(remedy) => format!("{detail}: {remedy}"),
                    None => detail,
                });
                (Some(reason.clone()), detail, *is_unauthorized)
            }
            FetchStatus::Fetching { .. } | FetchStatus::Ready => {
                (None, None, backend.requires_caller_credentials())
            }
        };
        BackendReport {
            name: backend.name().to_owned(),
            transport: backend.transport,
            revision: backend.modes().map(|modes| match modes {
                SupportedModes::Stateful => LATEST_STATEFUL,
                SupportedModes::Stateless | SupportedModes::Both => STATELESS,
            }),
            revisions: match backend.modes() {
                None => Vec::new(),
                Some(SupportedModes::Stateful) => vec![LATEST_STATEFUL],
                Some(SupportedModes::Stateless) => vec![STATELESS],
                Some(SupportedModes::Both) => vec![STATELESS, LATEST_STATEFUL],
            },
            offered: backend.has_responded(),
            catalog: if backend.shared() { Sharing::Shared } else { Sharing::PerCaller },
            unauthenticated,
            pending: matches!(status, FetchStatus::Fetching { .. }),
            breaker: backend.breaker(),
            checked: backend.health.report(),
            failure,
            detail,
        }
    };
    snapshot.backends.iter().map(report).collect()
}

pub(crate) fn report(snapshot: &Snapshot, counts: Counts) -> Report {
    let catalogs = snapshot.catalogs();
    let Counts { sessions, parked_calls, dropped_messages, detached_calls, detached_calls_ended } =
        counts;
    let entries = entries::entries(snapshot, &catalogs);
    Report {
        name: snapshot.name.clone(),
        backends: backends(snapshot),
        unmatched_rules: unmatched_rules(snapshot, &entries),
        nonconforming_names: nonconforming_names(&entries),
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

/// Returns the names that violate MCP 2025-11-25, Tools, Tool Names.
fn nonconforming_names(entries: &[Entry]) -> Vec<String> {
    let advised = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    let good = |name: &str| (1..=128).contains(&name.len()) && name.bytes().all(advised);
    let shown = entries.iter().filter(|entry| entry.shown && entry.kind == "tool");
    let mut odd: Vec<_> =
        shown.map(|entry| &entry.name).filter(|name| !good(name)).cloned().collect();
    // Entries are sorted by name, so those of both generations are adjacent.
    odd.dedup();
    odd
}

fn unmatched_rules(snapshot: &Snapshot, entries: &[Entry]) -> Vec<UnmatchedRule> {
    let mut idle = Vec::new();
    for backend in snapshot.backends.iter().filter(|backend| backend.offers.load().is_known()) {
        let Some(rules) = snapshot.rules.workloads.get(backend.name()) else { continue };
        let tools = entries.iter().filter(|entry| entry.kind == "tool");
        let tools: Vec<_> = tools.filter(|entry| entry.backend == backend.name()).collect();
        let rule = |list, name: &String| UnmatchedRule {
            backend: backend.name().to_owned(),
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

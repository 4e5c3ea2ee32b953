//! Fetches the offers of the backends of a configuration, as the server would.

use std::time::Duration;

use serde_json::{Map, Value, json};
use vmcp_aggregate::settings::{Limits, PartialFailure, Settings};
use vmcp_aggregate::status::{BackendReport, Entry, Report, UnmatchedRule};
use vmcp_aggregate::{Conflict, Gateway};
use vmcp_cedar::NamedItem;
use vmcp_core::{Generation, LATEST_STATEFUL};
use vmcp_seal::KeyRing;
use vmcp_server::parts::{Parts, transport_name};

use super::output::Failure;

/// Report of the backends after the first contact.
#[derive(Debug)]
pub(crate) struct BackendSurvey {
    timeout: Duration,
    pub(crate) report: Report,
    /// Reason why clients would get no lists; `None` if they would.
    pub(crate) broken: Option<&'static str>,
    /// Items that policies name and no backend offers.
    pub(crate) unmatched: Vec<NamedItem>,
}

const KINDS: [(&str, &str); 4] = [
    ("tool", "tools"),
    ("prompt", "prompts"),
    ("resource", "resources"),
    ("resource template", "resourceTemplates"),
];

/// Default time limit for the response of a backend.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(5);

/// Starts the service without a listener, waits until every backend has responded or failed, and stops the service.
pub(crate) async fn connect(parts: Parts, timeout: Duration) -> Result<BackendSurvey, Failure> {
    let Parts { settings, incoming_auth, .. } = parts;
    let named = incoming_auth.policy_evaluator().named_items();
    // The command fetches each offer once, so periodic checks are unnecessary.
    let settings = Settings { checks: None, ..settings };
    let strict = settings.partial_failure == PartialFailure::Fail;
    let limits = Limits::default();
    let ring = KeyRing::ephemeral(limits.clock.clone())
        .map_err(|error| Failure::Error(error.to_string()))?;
    let gateway = Gateway::new(settings, limits, ring);
    gateway.wait_ready_within(timeout).await;
    let report = gateway.report();
    let broken = no_lists(&report, strict);
    let unmatched = super::unmatched::unmatched(named, &report);
    Ok(BackendSurvey { timeout, report, broken, unmatched })
}

/// Returns the reason why clients would get no lists, in which case `validate --connect`, `inspect` and `list` fail.
/// Returns `None` if clients would get lists.
pub(crate) fn no_lists(report: &Report, is_strict: bool) -> Option<&'static str> {
    (!report.serves_lists(is_strict)).then_some(if is_strict {
        "not every backend answers, and lists fail as long as that is so \
         (operational.failureHandling.partialFailureMode: fail)"
    } else {
        "no backend answers"
    })
}

impl BackendSurvey {
    /// Counts the items that a backend offers to clients of one generation, by kind. Hidden items count, too.
    fn offers(
        &self,
        backend: &str,
        generation: Generation,
    ) -> impl Iterator<Item = (&'static str, usize)> {
        KINDS.into_iter().map(move |(kind, name)| {
            let of = self.report.entries.iter();
            let of = of.filter(|entry| entry.kind == kind && entry.backend == backend);
            (name, of.filter(|entry| is_offered(entry, generation)).count())
        })
    }

    /// Describes the number of items of each kind that a backend offers to stateless clients. Numbers for stateful
    /// clients are added if they differ.
    fn offers_in_words(&self, backend: &str) -> String {
        let counts = self.offers(backend, Generation::Stateless);
        let counts = counts.zip(self.offers(backend, Generation::Stateful));
        let words = counts.filter_map(|((kind, count), (_, older))| match (count, older) {
            (0, 0) => None,
            (count, older) if count == older => Some(format!("{kind}: {count}")),
            (count, older) => Some(format!("{kind}: {count} ({LATEST_STATEFUL}: {older})")),
        });
        words.collect::<Vec<_>>().join(", ")
    }

    /// Describes the number of items of each kind that clients see.
    pub(crate) fn offered(&self) -> String {
        let counts = KINDS.into_iter().map(|(kind, _)| {
            let count = self.report.shown(kind, Generation::Stateless);
            let older = self.report.shown(kind, Generation::Stateful);
            let plural = if count == 1 { "" } else { "s" };
            let differs = (count != older).then(|| format!(" ({LATEST_STATEFUL}: {older})"));
            format!("{count} {kind}{plural}{}", differs.unwrap_or_default())
        });
        counts.collect::<Vec<_>>().join(", ")
    }

    /// Returns a row for each backend: name, transport, revision, health, and its offer or its error.
    pub(crate) fn rows(&self) -> Vec<Vec<String>> {
        let row = |backend: &BackendReport| {
            vec![
                backend.name.clone(),
                transport_name(backend.transport).to_owned(),
                backend.revisions.join(", "),
                backend.health().name().to_owned(),
                error_message(backend, self.timeout)
                    .unwrap_or_else(|| self.offers_in_words(&backend.name)),
            ]
        };
        self.report.backends.iter().map(row).collect()
    }

    /// Returns the backends as JSON.
    pub(crate) fn backends_json(&self) -> Vec<Value> {
        let backend = |backend: &BackendReport| {
            let offers = |generation| -> Map<String, Value> {
                let offers = self.offers(&backend.name, generation);
                offers.map(|(kind, count)| (kind.to_owned(), count.into())).collect()
            };
            json!({
                "name": backend.name,
                "transport": transport_name(backend.transport),
                "revision": backend.revision,
                "revisions": backend.revisions,
                "reachable": backend.offered,
                "status": backend.health().name(),
                "message": error_message(backend, self.timeout),
                "offers": offers(Generation::Stateless),
                "offersToStateful": offers(Generation::Stateful),
            })
        };
        self.report.backends.iter().map(backend).collect()
    }
}

/// Returns `true` if the entry is offered to clients of this generation.
pub(crate) fn is_offered(entry: &Entry, generation: Generation) -> bool {
    entry.generation.is_none_or(|only| only == generation)
}

/// Returns the reason why a backend offers nothing.
fn error_message(backend: &BackendReport, timeout: Duration) -> Option<String> {
    let silent = (!backend.offered).then(|| format!("no answer within {timeout:?}"));
    backend.detail.clone().or_else(|| backend.failure.clone()).or(silent)
}

/// Describes a rule that matches no tool, as text.
pub(crate) fn unmatched_rule(rule: &UnmatchedRule) -> String {
    let UnmatchedRule { backend, list, name } = rule;
    let fault = match *list {
        "filter" => "names {name}: no tool is called so after overrides",
        _ => "name {name}: the backend itself has no tool of that name",
    };
    let fault = fault.replace("{name}", name);
    super::table::plain(&format!("aggregation.tools: {list} of {backend} {fault}"))
}

/// Describes a name that clients may reject, as text.
pub(crate) fn nonconforming_name(name: &str) -> String {
    let advice = "some clients refuse names that are not 1 to 128 of A-Z, a-z, 0-9, _, - and .; give it another \
                  in aggregation.tools[].overrides, or in compositeTools[].name";
    super::table::plain(&format!("tool {name}: {advice}"))
}

/// Returns a rule that matches no tool as JSON.
pub(crate) fn unmatched_rule_json(rule: &UnmatchedRule) -> Value {
    let UnmatchedRule { backend, list, name } = rule;
    json!({"backend": backend, "list": list, "name": name})
}

/// Describes the conflicts, one per line.
pub(crate) fn conflict(conflict: &Conflict) -> String {
    let Conflict { kind, name, contenders, resolution } = conflict;
    super::table::plain(&format!(
        "{kind} {name}: wanted by {}: {resolution}",
        contenders.join(", ")
    ))
}

/// Returns a conflict as JSON.
pub(crate) fn conflict_json(conflict: &Conflict) -> Value {
    let Conflict { kind, name, contenders, resolution } = conflict;
    json!({"kind": kind, "name": name, "contenders": contenders, "resolution": resolution})
}

//! `vmcp inspect`.

use clap::Args;
use serde_json::{Value, json};
use vmcp_aggregate::HideRule;
use vmcp_aggregate::status::{Entry, HiddenReason};
use vmcp_core::Generation;

use super::config::{ConfigFile, Loaded};
use super::output::{Failure, Form, Printed, block_on, complain, print, print_json};
use super::survey::{
    Seen, TIMEOUT, conflict, conflict_json, connect, nonconforming_name, unmatched_rule,
    unmatched_rule_json,
};
use super::table::table;
use crate::parts::{About, AboutBackend, Found, Report, Stored};

#[derive(Debug, Args)]
pub(crate) struct Inspect {
    #[command(flatten)]
    config: ConfigFile,
    #[command(flatten)]
    printed: Printed,
}

impl Inspect {
    pub(crate) fn run(self) -> Result<(), Failure> {
        block_on(self.look())
    }

    async fn look(self) -> Result<(), Failure> {
        let Loaded { text: _, named: _, file: _, parts, warnings, egress: _ } =
            self.config.require()?;
        for warning in warnings {
            complain(&format!("warning: {warning}"));
        }
        let about = parts.about.clone();
        let issuer = match &parts.issuing {
            Some(issuing) => Some(issuing.look().await),
            None => None,
        };
        let seen = connect(parts, TIMEOUT).await?;
        match self.printed.form {
            Form::Text => print(&as_text(&about, issuer.as_ref(), &seen)),
            Form::Json => print_json(&as_json(&about, issuer.as_ref(), &seen)),
        }
        seen.broken.map_or(Ok(()), |reason| Err(Failure::Fault(reason.to_owned())))
    }
}

/// Returns the configuration rule that changed the name of an item.
fn renamed(entry: &Entry) -> Vec<&'static str> {
    let overridden = (entry.wanted != entry.original).then_some("override");
    let prefixed = (entry.name != entry.wanted).then_some("prefix");
    overridden.into_iter().chain(prefixed).collect()
}

/// Describes the reason why clients do not see the entry.
pub(crate) fn hidden_reason(entry: &Entry) -> Option<String> {
    entry.hidden_reason.as_ref().map(|hidden_reason| match hidden_reason {
        HiddenReason::Rule(HideRule::ExcludeAllTools) => "aggregation.excludeAllTools".to_owned(),
        HiddenReason::Rule(HideRule::ExcludeAll) => {
            format!("excludeAll of {} in aggregation.tools", entry.backend)
        }
        HiddenReason::Rule(HideRule::Filter) => {
            // Filters apply after overrides, to the overridden names.
            format!(
                "{} is not in the filter of {} in aggregation.tools",
                entry.wanted, entry.backend
            )
        }
        HiddenReason::NameTaken(resolution) => format!("name conflict: {resolution}"),
    })
}

fn as_text(about: &About, issuer: Option<&Report>, seen: &Seen) -> String {
    let About { name, group, metadata, is_strict: _, backends } = about;
    let title = format!("{name} (group {group}) {}", pairs(metadata));
    let mut out = super::table::plain(title.trim_end());
    out.push_str("\n\n");
    let mut rows = seen.rows();
    for row in &mut rows {
        let known = backends.get(&row[0]);
        let entry = known.is_some_and(|backend| backend.entry);
        row.insert(1, if entry { "entry" } else { "" }.to_owned());
        row.push(known.map(|backend| pairs(&backend.metadata)).unwrap_or_default());
    }
    let heading = ["BACKEND", "TYPE", "TRANSPORT", "REVISION", "STATUS", "OFFERS", "METADATA"];
    out.push_str(&table(&heading, &rows));
    out.push('\n');
    if let Some(issuer) = issuer {
        out.push_str(&front(issuer));
        out.push('\n');
    }
    let mut rows: Vec<Vec<String>> = seen.report.entries.iter().map(row).collect();
    let mut heading = vec!["KIND", "NAME", "BACKEND", "ORIGINAL NAME", "RENAMED BY", "SHOWN"];
    // Most backends offer the same items to both generations.
    if seen.report.entries.iter().any(|entry| entry.generation.is_some()) {
        heading.push("CLIENTS");
        for (row, entry) in rows.iter_mut().zip(&seen.report.entries) {
            row.push(entry.generation.map_or("all", clients).to_owned());
        }
    }
    out.push_str(&table(&heading, &rows));
    for one in &seen.report.conflicts {
        out.push('\n');
        out.push_str(&conflict(one));
    }
    for one in &seen.report.unmatched_rules {
        out.push('\n');
        out.push_str(&unmatched_rule(one));
    }
    for name in &seen.report.nonconforming_names {
        out.push('\n');
        out.push_str(&nonconforming_name(name));
    }
    out.trim_end().to_owned() + "\n"
}

/// Describes the authorization server: its store and its providers.
pub(crate) fn front(issuer: &Report) -> String {
    let Report { issuer, storage: Stored { kind, status, message }, upstreams } = issuer;
    let trouble = |message: &Option<String>| message.clone().unwrap_or_default();
    let stored = ["storage", "", kind, "", status].map(str::to_owned);
    let mut rows = vec![stored.into_iter().chain([trouble(message)]).collect()];
    rows.extend(upstreams.iter().map(|found| {
        let Found { name, kind, at, status, message } = found;
        let words = ["upstream", name, kind, at, status].map(str::to_owned);
        words.into_iter().chain([trouble(message)]).collect()
    }));
    let heading = ["PART", "NAME", "TYPE", "URL", "STATUS", "MESSAGE"];
    let title = super::table::plain(&format!("authorization server {issuer}"));
    format!("{title}\n{}", table(&heading, &rows))
}

/// Returns the generations of the clients that see the item.
fn clients(generation: Generation) -> &'static str {
    match generation {
        Generation::Stateful => "stateful",
        Generation::Stateless => "stateless",
    }
}

fn row(entry: &Entry) -> Vec<String> {
    vec![
        entry.kind.to_owned(),
        entry.name.clone(),
        entry.backend.clone(),
        entry.original.clone(),
        renamed(entry).join(", "),
        hidden_reason(entry).map_or_else(|| "yes".to_owned(), |why| format!("no: {why}")),
    ]
}

fn pairs(metadata: &std::collections::BTreeMap<String, String>) -> String {
    metadata.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ")
}

fn as_json(about: &About, issuer: Option<&Report>, seen: &Seen) -> Value {
    let About { name, group, metadata, is_strict: _, backends } = about;
    let mut found = seen.backends_json();
    for (backend, report) in found.iter_mut().zip(&seen.report.backends) {
        let known = backends.get(&report.name).cloned().unwrap_or_default();
        let AboutBackend { url, entry, auth, metadata } = known;
        backend["url"] = url.into();
        backend["authType"] = auth.into();
        backend["type"] = if entry { "entry" } else { "" }.into();
        backend["metadata"] = json!(metadata);
    }
    let entries = seen.report.entries.iter().map(|entry| {
        json!({
            "kind": entry.kind,
            "name": entry.name,
            "backend": entry.backend,
            "originalName": entry.original,
            "renamedBy": renamed(entry),
            "shown": entry.shown,
            "hiddenReason": hidden_reason(entry),
            "clients": entry.generation.map(clients),
        })
    });
    json!({
        "name": name,
        "group": group,
        "metadata": metadata,
        "backends": found,
        "authorizationServer": issuer.map(Report::to_json),
        "entries": entries.collect::<Vec<_>>(),
        "conflicts": seen.report.conflicts.iter().map(conflict_json).collect::<Vec<_>>(),
        "nonconformingNames": seen.report.nonconforming_names,
        "unmatchedRules": seen.report.unmatched_rules.iter().map(unmatched_rule_json).collect::<Vec<_>>(),
    })
}

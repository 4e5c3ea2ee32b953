//! `vmcp inspect`.

use clap::Args;
use serde_json::{Value, json};
use vmcp_aggregate::HideRule;
use vmcp_aggregate::status::{Entry, HiddenReason};
use vmcp_core::Generation;
use vmcp_server::parts::{
    AuthServerReport, BackendInfo, LeftOutBackend, ProviderStatus, ServerInfo, StorageStatus,
};

use super::config::{ConfigFile, LoadedConfig};
use super::output::{Failure, OutputArgs, OutputFormat, block_on, eprint_line, print, print_json};
use super::survey::{
    BackendSurvey, TIMEOUT, conflict, conflict_json, connect, nonconforming_name, unmatched_rule,
    unmatched_rule_json,
};
use super::table::table;

/// Remark on the lists of clients if the configuration has an optimizer.
const OPTIMIZER_NOTE: &str = "\nThe optimizer is on: clients list find_tool, call_tool and the tools with a user \
                              interface, and find the others with find_tool.\n";

#[derive(Debug, Args)]
pub(crate) struct Inspect {
    #[command(flatten)]
    config: ConfigFile,
    #[command(flatten)]
    output: OutputArgs,
}

impl Inspect {
    pub(crate) fn run(self) -> Result<(), Failure> {
        block_on(self.inspect())
    }

    async fn inspect(self) -> Result<(), Failure> {
        let LoadedConfig { text: _, named: _, file: _, parts, warnings, egress: _ } =
            self.config.require()?;
        for warning in warnings {
            eprint_line(&format!("warning: {warning}"));
        }
        let info = parts.info.clone();
        let has_optimizer = parts.settings.optimizer.is_some();
        let issuer = match &parts.auth_server {
            Some(auth_server) => Some(auth_server.check().await),
            None => None,
        };
        let survey = connect(parts, TIMEOUT).await?;
        match self.output.format {
            OutputFormat::Text => {
                print(&as_text(&info, issuer.as_ref(), &survey));
                if has_optimizer {
                    print(OPTIMIZER_NOTE);
                }
            }
            OutputFormat::Json => {
                let mut json = as_json(&info, issuer.as_ref(), &survey);
                json["optimizerTools"] =
                    if has_optimizer { json!(["find_tool", "call_tool"]) } else { json!([]) };
                print_json(&json);
            }
        }
        survey.broken.map_or(Ok(()), |reason| Err(Failure::Error(reason.to_owned())))
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
        HiddenReason::ToolNamesTaken(tools) => format!(
            "other tools have the names of those of its steps: {}: rename them with overrides in \
             aggregation.tools",
            tools.join(", ")
        ),
        HiddenReason::MissingTools(tools) if tools.is_empty() => {
            "only clients of the other generation have the tools of its steps".to_owned()
        }
        HiddenReason::MissingTools(tools) => {
            format!("its steps call tools that no backend has: {}", tools.join(", "))
        }
    })
}

fn as_text(info: &ServerInfo, issuer: Option<&AuthServerReport>, survey: &BackendSurvey) -> String {
    let ServerInfo {
        name,
        group,
        metadata,
        is_strict: _,
        backends,
        left_out,
        is_discovered: _,
        report_interval: _,
    } = info;
    let title = format!("{name} (group {group}) {}", pairs(metadata));
    let mut out = super::table::plain(title.trim_end());
    out.push_str("\n\n");
    let mut rows = survey.rows();
    for row in &mut rows {
        let known = backends.get(&row[0]);
        let entry = known.is_some_and(|backend| backend.entry);
        row.insert(1, if entry { "entry" } else { "" }.to_owned());
        row.push(known.map(|backend| pairs(&backend.metadata)).unwrap_or_default());
    }
    let heading = ["BACKEND", "TYPE", "TRANSPORT", "REVISION", "STATUS", "OFFERS", "METADATA"];
    out.push_str(&table(&heading, &rows));
    out.push('\n');
    for LeftOutBackend { backend, reason, message } in left_out {
        out.extend([backend, " is left out (", reason.name(), "): ", message, "\n"]);
    }
    if let Some(issuer) = issuer {
        out.push_str(&auth_server_text(issuer));
        out.push('\n');
    }
    let mut rows: Vec<Vec<String>> = survey.report.entries.iter().map(row).collect();
    let mut heading = vec!["KIND", "NAME", "BACKEND", "ORIGINAL NAME", "RENAMED BY", "SHOWN"];
    // Most backends offer the same items to both generations.
    if survey.report.entries.iter().any(|entry| entry.generation.is_some()) {
        heading.push("CLIENTS");
        for (row, entry) in rows.iter_mut().zip(&survey.report.entries) {
            row.push(entry.generation.map_or("all", clients).to_owned());
        }
    }
    out.push_str(&table(&heading, &rows));
    for one in &survey.report.conflicts {
        out.push('\n');
        out.push_str(&conflict(one));
    }
    for one in &survey.report.unmatched_rules {
        out.push('\n');
        out.push_str(&unmatched_rule(one));
    }
    for name in &survey.report.nonconforming_names {
        out.push('\n');
        out.push_str(&nonconforming_name(name));
    }
    out.trim_end().to_owned() + "\n"
}

/// Describes the authorization server: its store and its providers.
pub(crate) fn auth_server_text(issuer: &AuthServerReport) -> String {
    let AuthServerReport { issuer, storage: StorageStatus { kind, status, message }, upstreams } =
        issuer;
    let error_message = |message: &Option<String>| message.clone().unwrap_or_default();
    let stored = ["storage", "", kind, "", status].map(str::to_owned);
    let mut rows = vec![stored.into_iter().chain([error_message(message)]).collect()];
    rows.extend(upstreams.iter().map(|found| {
        let ProviderStatus { name, kind, at, status, message } = found;
        let words = ["upstream", name, kind, at, status].map(str::to_owned);
        words.into_iter().chain([error_message(message)]).collect()
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

fn left_out_json(left_out: &LeftOutBackend) -> Value {
    let LeftOutBackend { backend, reason, message } = left_out;
    json!({"name": backend, "reason": reason.name(), "message": message})
}

fn pairs(metadata: &std::collections::BTreeMap<String, String>) -> String {
    metadata.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ")
}

fn as_json(info: &ServerInfo, issuer: Option<&AuthServerReport>, survey: &BackendSurvey) -> Value {
    let ServerInfo {
        name,
        group,
        metadata,
        is_strict: _,
        backends,
        left_out,
        is_discovered: _,
        report_interval: _,
    } = info;
    let mut found = survey.backends_json();
    for (backend, report) in found.iter_mut().zip(&survey.report.backends) {
        let known = backends.get(&report.name).cloned().unwrap_or_default();
        let BackendInfo { url, entry, auth, metadata } = known;
        backend["url"] = url.into();
        backend["authType"] = auth.into();
        backend["type"] = if entry { "entry" } else { "" }.into();
        backend["metadata"] = json!(metadata);
    }
    let entries = survey.report.entries.iter().map(|entry| {
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
        "leftOutBackends": left_out.iter().map(left_out_json).collect::<Vec<_>>(),
        "authorizationServer": issuer.map(AuthServerReport::to_json),
        "entries": entries.collect::<Vec<_>>(),
        "conflicts": survey.report.conflicts.iter().map(conflict_json).collect::<Vec<_>>(),
        "nonconformingNames": survey.report.nonconforming_names,
        "unmatchedRules": survey.report.unmatched_rules.iter().map(unmatched_rule_json).collect::<Vec<_>>(),
    })
}

//! `vmcp validate`.

mod listen;

use std::fmt::Write as _;

use clap::Args;
use serde_json::{Value, json};
use vmcp_config::{
    Authz, ConfigError, ConflictResolution, Duration, File, IncomingMethod, PartialFailureMode,
    SessionStorage,
};

use self::listen::ListenArgs;
use super::arguments::positive;
use super::config::{ConfigFile, Faults, Loaded, warning};
use super::output::{Failure, Form, Printed, block_on, complain, print, print_json};
use super::survey::{
    Seen, conflict, conflict_json, connect, nonconforming_name, unmatched_rule, unmatched_rule_json,
};
use super::table::table;
use super::unmatched::{unmatched_name, unmatched_name_json};
use crate::parts::{Measures, Report};

#[derive(Debug, Args)]
pub(crate) struct Validate {
    #[command(flatten)]
    config: ConfigFile,
    /// Ask the backends too: whether each answers, and which names collide.
    #[arg(long)]
    connect: bool,
    /// Time limit for each backend to respond, such as 30s.
    #[arg(long, value_name = "DURATION", default_value = "5s", requires = "connect", value_parser = positive)]
    timeout: Duration,
    #[command(flatten)]
    listen: ListenArgs,
    #[command(flatten)]
    printed: Printed,
}

impl Validate {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let loaded = match self.load() {
            Ok(loaded) => loaded,
            Err(faults) if self.printed.form == Form::Json => {
                print_json(&faults.to_json());
                return Err(Failure::Told);
            }
            Err(faults) => return Err(Failure::Fault(faults.describe(self.config.path()))),
        };
        if self.connect {
            return block_on(self.with_backends(loaded));
        }
        self.tell(&loaded.file, &loaded.warnings, None, None)
    }

    /// Checks the file, and whether `serve` could start with it.
    fn load(&self) -> Result<Loaded, Faults> {
        let loaded = self.config.load();
        let tried = self.listen.try_out(loaded.as_ref().ok().map(|loaded| &loaded.file));
        let mut more = tried.errors;
        let measures = loaded.as_ref().ok().and_then(|loaded| loaded.parts.measures.clone());
        more.extend(measures.and_then(unmeasured));
        match loaded {
            Ok(_) if !more.is_empty() => Err(Faults { errors: more, ..Faults::default() }),
            Ok(mut loaded) => {
                loaded.warnings.extend(tried.warning);
                Ok(loaded)
            }
            Err(mut faults) => {
                faults.errors.extend(more);
                Err(faults)
            }
        }
    }

    async fn with_backends(self, loaded: Loaded) -> Result<(), Failure> {
        let Loaded { text: _, named: _, file, parts, warnings, egress: _ } = loaded;
        let issuer = match &parts.issuing {
            Some(issuing) => Some(issuing.look().await),
            None => None,
        };
        let seen = connect(parts, self.timeout.into()).await?;
        self.tell(&file, &warnings, Some(&seen), issuer.as_ref())
    }

    fn tell(
        &self,
        file: &File,
        warnings: &[vmcp_config::Warning],
        seen: Option<&Seen>,
        issuer: Option<&Report>,
    ) -> Result<(), Failure> {
        // Without its store, the authorization server does not start.
        let stored = issuer.map(|issuer| &issuer.storage);
        let unstored = stored.filter(|stored| stored.status == "unavailable");
        match self.printed.form {
            Form::Json => {
                let mut told = as_json(file, warnings, seen);
                if let Some(issuer) = issuer {
                    told["authorizationServer"] = issuer.to_json();
                }
                if unstored.is_some() {
                    told["valid"] = false.into();
                }
                print_json(&told);
            }
            Form::Text => {
                for warning in warnings {
                    complain(&format!("warning: {warning}"));
                }
                print(&format!("{} is valid\n\n", self.config.path().display()));
                print(&summary(file));
                if let Some(seen) = seen {
                    print(&found(seen));
                }
                if let Some(issuer) = issuer {
                    print(&format!("\n{}", super::inspect::front(issuer)));
                }
            }
        }
        if let Some(message) = unstored.and_then(|stored| stored.message.clone()) {
            let is_text = self.printed.form == Form::Text;
            return Err(if is_text { Failure::Fault(message) } else { Failure::Told });
        }
        match seen.and_then(|seen| seen.broken) {
            Some(_) if self.printed.form == Form::Json => Err(Failure::Told),
            Some(reason) => Err(Failure::Fault(reason.to_owned())),
            None => Ok(()),
        }
    }
}

/// Summarizes the settings that users most often get wrong, as name and value.
fn facts(file: &File) -> [(&'static str, String); 8] {
    let failures = &file.operational.failure_handling;
    [
        ("name", file.name.clone()),
        ("group", file.group().to_owned()),
        ("backends", file.backends.len().to_string()),
        ("clients", clients(file).to_owned()),
        ("conflicts", conflicts(file)),
        ("timeout", file.operational.timeouts.default.to_string()),
        (
            "partial failure",
            match failures.partial_failure_mode {
                PartialFailureMode::Fail => "fail".to_owned(),
                PartialFailureMode::BestEffort => "best_effort".to_owned(),
            },
        ),
        (
            "sessions",
            match file.session_storage {
                SessionStorage::Memory => "in memory".to_owned(),
                SessionStorage::Redis(_) => "in Redis".to_owned(),
            },
        ),
    ]
}

fn clients(file: &File) -> &'static str {
    match (&file.incoming_auth.method, &file.incoming_auth.authz) {
        (IncomingMethod::Anonymous, Authz::None) => "anonymous",
        (IncomingMethod::Anonymous, Authz::Cedar(_)) => "anonymous, with policies",
        (_, Authz::None) => "authenticated",
        (_, Authz::Cedar(_)) => "authenticated, with policies",
    }
}

fn conflicts(file: &File) -> String {
    match &file.aggregation.conflict_resolution {
        ConflictResolution::Prefix { format } => format!("prefix {format}"),
        ConflictResolution::Priority { order } => format!("priority {}", order.join(", ")),
        ConflictResolution::Manual => "manual".to_owned(),
    }
}

fn summary(file: &File) -> String {
    let mut out = String::new();
    for (name, value) in facts(file) {
        // Writing to a string cannot fail.
        _ = writeln!(out, "{name:16} {}", super::table::plain(&value));
    }
    out
}

/// Starts the telemetry, and returns the reason if it does not start.
fn unmeasured(measures: Measures) -> Option<ConfigError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
    let started = runtime.block_on(async { measures.start() });
    let error = started.err()?;
    Some(ConfigError::new("telemetry", error.to_string(), "settings that the exporter takes"))
}

fn found(seen: &Seen) -> String {
    let heading = ["BACKEND", "TRANSPORT", "REVISION", "STATUS", "OFFERS"];
    let mut out = format!("\n{}\nclients see {}\n", table(&heading, &seen.rows()), seen.offered());
    for one in &seen.report.conflicts {
        out.push_str(&conflict(one));
        out.push('\n');
    }
    for one in &seen.report.unmatched_rules {
        out.push_str(&unmatched_rule(one));
        out.push('\n');
    }
    for one in &seen.unmatched {
        out.push_str(&unmatched_name(one));
        out.push('\n');
    }
    for name in &seen.report.nonconforming_names {
        out.push_str(&nonconforming_name(name));
        out.push('\n');
    }
    out
}

fn as_json(file: &File, warnings: &[vmcp_config::Warning], seen: Option<&Seen>) -> Value {
    let summary: serde_json::Map<_, _> = facts(file)
        .into_iter()
        .map(|(name, value)| (name.replace(" f", "F"), Value::String(value)))
        .collect();
    let mut out = json!({
        "valid": true,
        "summary": summary,
        "warnings": warnings.iter().map(warning).collect::<Vec<_>>(),
    });
    if let Some(seen) = seen {
        out["valid"] = seen.broken.is_none().into();
        out["backends"] = seen.backends_json().into();
        out["conflicts"] = seen.report.conflicts.iter().map(conflict_json).collect();
        out["nonconformingNames"] = seen.report.nonconforming_names.clone().into();
        out["unmatchedPolicyNames"] = seen.unmatched.iter().map(unmatched_name_json).collect();
        out["unmatchedRules"] =
            seen.report.unmatched_rules.iter().map(unmatched_rule_json).collect();
    }
    out
}

//! `vmcp validate`.

use std::fmt::Write as _;

use clap::Args;
use serde_json::{Value, json};
use vmcp_config::{
    Authz, ConflictResolution, File, IncomingMethod, PartialFailureMode, SessionStorage,
};

use super::config::{ConfigFile, Loaded, warning};
use super::connect::{Seen, conflict, conflict_json, connect, idle_rule, idle_rule_json, odd_name};
use super::outcome::{Failure, Form, Printed, block_on, complain, print, print_json};
use super::table::table;

#[derive(Debug, Args)]
pub(crate) struct Validate {
    #[command(flatten)]
    config: ConfigFile,
    /// Ask the backends too: whether each answers, and which names collide.
    #[arg(long)]
    connect: bool,
    #[command(flatten)]
    printed: Printed,
}

impl Validate {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let loaded = match self.config.load() {
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
        self.tell(&loaded.file, &loaded.warnings, None)
    }

    async fn with_backends(self, loaded: Loaded) -> Result<(), Failure> {
        let Loaded { text: _, named: _, file, parts, warnings, egress: _ } = loaded;
        let seen = connect(parts).await?;
        self.tell(&file, &warnings, Some(&seen))
    }

    fn tell(
        &self,
        file: &File,
        warnings: &[vmcp_config::Warning],
        seen: Option<&Seen>,
    ) -> Result<(), Failure> {
        match self.printed.form {
            Form::Json => print_json(&as_json(file, warnings, seen)),
            Form::Text => {
                for warning in warnings {
                    complain(&format!("warning: {warning}"));
                }
                print(&format!("{} is valid\n\n", self.config.path().display()));
                print(&summary(file));
                if let Some(seen) = seen {
                    print(&found(seen));
                }
            }
        }
        match seen {
            Some(seen) if seen.broken && self.printed.form == Form::Json => Err(Failure::Told),
            Some(seen) if seen.broken => Err(Failure::Fault(
                "not every backend answers, and lists fail as long as that is so \
                 (operational.failureHandling.partialFailureMode: fail)"
                    .to_owned(),
            )),
            _ => Ok(()),
        }
    }
}

/// What the file comes to: a word for each thing that is often wrong.
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

fn found(seen: &Seen) -> String {
    let heading = ["BACKEND", "TRANSPORT", "REVISION", "STATUS", "OFFERS"];
    let mut out = format!("\n{}\nclients see {}\n", table(&heading, &seen.rows()), seen.offered());
    for one in &seen.report.conflicts {
        out.push_str(&conflict(one));
        out.push('\n');
    }
    for one in &seen.report.idle_rules {
        out.push_str(&idle_rule(one));
        out.push('\n');
    }
    for name in &seen.report.odd_names {
        out.push_str(&odd_name(name));
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
        out["valid"] = (!seen.broken).into();
        out["backends"] = seen.backends_json().into();
        out["conflicts"] = seen.report.conflicts.iter().map(conflict_json).collect();
        out["oddNames"] = seen.report.odd_names.clone().into();
        out["idleRules"] = seen.report.idle_rules.iter().map(idle_rule_json).collect();
    }
    out
}

//! `vmcp validate`.

mod listen;

use std::fmt::Write as _;

use clap::Args;
use serde_json::{Value, json};
use vmcp_config::{
    Authz, ConfigError, ConflictResolution, Duration, File, IncomingMethod, PartialFailureMode,
    SessionStorage,
};
use vmcp_server::parts::{self, AuthServerReport};

use self::listen::ListenArgs;
use super::arguments::positive;
use super::config::{ConfigFile, LoadErrors, LoadedConfig, warning};
use super::output::{Failure, OutputArgs, OutputFormat, block_on, eprint_line, print, print_json};
use super::survey::{
    BackendSurvey, conflict, conflict_json, connect, nonconforming_name, unmatched_rule,
    unmatched_rule_json,
};
use super::table::table;
use super::unmatched::{unmatched_name, unmatched_name_json};

#[derive(Debug, Args)]
pub(crate) struct Validate {
    #[command(flatten)]
    config: ConfigFile,
    /// Connect to the backends too, and report failures and name conflicts.
    #[arg(long)]
    connect: bool,
    /// Time limit for each backend to respond, such as 30s.
    #[arg(long, value_name = "DURATION", default_value = "5s", requires = "connect", value_parser = positive)]
    timeout: Duration,
    #[command(flatten)]
    listen: ListenArgs,
    #[command(flatten)]
    output: OutputArgs,
}

impl Validate {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let loaded = match self.load() {
            Ok(loaded) => loaded,
            Err(load_errors) if self.output.format == OutputFormat::Json => {
                print_json(&load_errors.to_json());
                return Err(Failure::AlreadyReported);
            }
            Err(load_errors) => {
                return Err(Failure::Error(load_errors.describe(self.config.path())));
            }
        };
        if self.connect {
            return block_on(self.with_backends(loaded));
        }
        self.report(&loaded.file, &loaded.warnings, None, None)
    }

    /// Checks the file, and whether `serve` could start with it.
    fn load(&self) -> Result<LoadedConfig, LoadErrors> {
        let loaded = self.config.load();
        let check = self.listen.check(loaded.as_ref().ok().map(|loaded| &loaded.file));
        let mut more = check.errors;
        more.extend(loaded.as_ref().ok().and_then(|loaded| self.telemetry_error(loaded)));
        match loaded {
            Ok(_) if !more.is_empty() => Err(LoadErrors { errors: more, ..LoadErrors::default() }),
            Ok(mut loaded) => {
                loaded.warnings.extend(check.warning);
                Ok(loaded)
            }
            Err(mut load_errors) => {
                load_errors.errors.extend(more);
                Err(load_errors)
            }
        }
    }

    /// Returns the reason if telemetry would not start.
    fn telemetry_error(&self, loaded: &LoadedConfig) -> Option<ConfigError> {
        let environment = self.config.environment();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
        runtime
            .block_on(async { parts::telemetry_error(&loaded.file, &loaded.egress, &environment) })
    }

    async fn with_backends(self, loaded: LoadedConfig) -> Result<(), Failure> {
        let LoadedConfig { text: _, named: _, file, parts, warnings, egress: _ } = loaded;
        let issuer = match &parts.auth_server {
            Some(auth_server) => Some(auth_server.check().await),
            None => None,
        };
        let survey = connect(parts, self.timeout.into()).await?;
        self.report(&file, &warnings, Some(&survey), issuer.as_ref())
    }

    fn report(
        &self,
        file: &File,
        warnings: &[vmcp_config::Warning],
        survey: Option<&BackendSurvey>,
        issuer: Option<&AuthServerReport>,
    ) -> Result<(), Failure> {
        // Without its store, the authorization server does not start.
        let stored = issuer.map(|issuer| &issuer.storage);
        let unavailable = stored.filter(|stored| stored.status == "unavailable");
        match self.output.format {
            OutputFormat::Json => {
                let mut output = as_json(file, warnings, survey);
                if let Some(issuer) = issuer {
                    output["authorizationServer"] = issuer.to_json();
                }
                if unavailable.is_some() {
                    output["valid"] = false.into();
                }
                print_json(&output);
            }
            OutputFormat::Text => {
                for warning in warnings {
                    eprint_line(&format!("warning: {warning}"));
                }
                print(&format!("{} is valid\n\n", self.config.path().display()));
                print(&summary(file));
                if let Some(survey) = survey {
                    print(&found(survey));
                }
                if let Some(issuer) = issuer {
                    print(&format!("\n{}", super::inspect::auth_server_text(issuer)));
                }
            }
        }
        if let Some(message) = unavailable.and_then(|stored| stored.message.clone()) {
            let is_text = self.output.format == OutputFormat::Text;
            return Err(if is_text { Failure::Error(message) } else { Failure::AlreadyReported });
        }
        match survey.and_then(|survey| survey.broken) {
            Some(_) if self.output.format == OutputFormat::Json => Err(Failure::AlreadyReported),
            Some(reason) => Err(Failure::Error(reason.to_owned())),
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

fn found(survey: &BackendSurvey) -> String {
    let heading = ["BACKEND", "TRANSPORT", "REVISION", "STATUS", "OFFERS"];
    let mut out =
        format!("\n{}\nclients see {}\n", table(&heading, &survey.rows()), survey.offered());
    for one in &survey.report.conflicts {
        out.push_str(&conflict(one));
        out.push('\n');
    }
    for one in &survey.report.unmatched_rules {
        out.push_str(&unmatched_rule(one));
        out.push('\n');
    }
    for one in &survey.unmatched {
        out.push_str(&unmatched_name(one));
        out.push('\n');
    }
    for name in &survey.report.nonconforming_names {
        out.push_str(&nonconforming_name(name));
        out.push('\n');
    }
    out
}

fn as_json(
    file: &File,
    warnings: &[vmcp_config::Warning],
    survey: Option<&BackendSurvey>,
) -> Value {
    let summary: serde_json::Map<_, _> = facts(file)
        .into_iter()
        .map(|(name, value)| (name.replace(" f", "F"), Value::String(value)))
        .collect();
    let mut out = json!({
        "valid": true,
        "summary": summary,
        "warnings": warnings.iter().map(warning).collect::<Vec<_>>(),
    });
    if let Some(survey) = survey {
        out["valid"] = survey.broken.is_none().into();
        out["backends"] = survey.backends_json().into();
        out["conflicts"] = survey.report.conflicts.iter().map(conflict_json).collect();
        out["nonconformingNames"] = survey.report.nonconforming_names.clone().into();
        out["unmatchedPolicyNames"] = survey.unmatched.iter().map(unmatched_name_json).collect();
        out["unmatchedRules"] =
            survey.report.unmatched_rules.iter().map(unmatched_rule_json).collect();
    }
    out
}

//! `vmcp workflow check`.

use clap::Args;
use serde_json::{Value, json};
use vmcp_aggregate::status::Entry;
use vmcp_compose::{Finding, Severity, ToolInfo, Workflow};
use vmcp_config::File;
use vmcp_core::ToolAnnotations;

use crate::config::{ConfigFile, LoadedConfig};
use crate::inspect::hidden_reason;
use crate::output::{Failure, OutputArgs, OutputFormat, block_on, eprint_line, print, print_json};
use crate::survey::{TIMEOUT, connect};
use crate::table::{plain, table};

/// Arguments of `vmcp workflow check`. The exit code is 1 if a composite tool cannot work.
#[derive(Debug, Args)]
pub(crate) struct Check {
    #[command(flatten)]
    config: ConfigFile,
    /// Check one composite tool only.
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    /// Connect to the backends too, and check the steps against their tools.
    #[arg(long)]
    connect: bool,
    #[command(flatten)]
    output: OutputArgs,
}

/// Composite tool with the findings of its check.
struct Checked<'a> {
    workflow: &'a Workflow,
    findings: Vec<Finding>,
    /// Reason why clients do not see it. `None` without requests to backends.
    hidden_reason: Option<String>,
}

impl Check {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let loaded = match self.config.load() {
            Ok(loaded) => loaded,
            Err(load_errors) if self.output.format == OutputFormat::Json => {
                print_json(&load_errors.to_json());
                return Err(Failure::AlreadyReported);
            }
            Err(load_errors) => {
                return Err(Failure::Error(load_errors.describe(self.config.path())));
            }
        };
        block_on(self.check(loaded))
    }

    async fn check(self, loaded: LoadedConfig) -> Result<(), Failure> {
        let LoadedConfig { text: _, named: _, file, parts, warnings, egress: _ } = loaded;
        for warning in warnings {
            eprint_line(&format!("warning: {warning}"));
        }
        let mut workflows = parts.settings.rules.workflows.clone();
        if let Some(name) = &self.tool {
            workflows = vec![super::find(&workflows, name)?.clone()];
        }
        let survey = if self.connect { Some(connect(parts, TIMEOUT).await?) } else { None };
        let entries = survey.as_ref().map(|survey| &survey.report.entries[..]);
        let checked: Vec<_> = workflows.iter().map(|it| checked(it, &file, entries)).collect();
        match self.output.format {
            OutputFormat::Json => print_json(&json!({
                "valid": checked.iter().all(Checked::is_valid),
                "workflows": checked.iter().map(Checked::json).collect::<Vec<_>>(),
            })),
            OutputFormat::Text if checked.is_empty() => print("no composite tools\n"),
            OutputFormat::Text => {
                let texts: Vec<_> = checked.iter().map(Checked::text).collect();
                print(&texts.join("\n"));
            }
        }
        if checked.iter().all(Checked::is_valid) { Ok(()) } else { Err(Failure::AlreadyReported) }
    }
}

/// Checks a composite tool against the tools of the backends, or as far as that is possible without them.
fn checked<'a>(workflow: &'a Workflow, file: &File, entries: Option<&[Entry]>) -> Checked<'a> {
    let Some(entries) = entries else {
        // The tools are unknown: assume that each that a backend may have exists, and may be retried.
        let annotations = ToolAnnotations { read_only: Some(true), ..ToolAnnotations::default() };
        let info = ToolInfo { annotations, ..ToolInfo::default() };
        let tools = |tool: &str| file.may_have_tool(tool).then(|| info.clone());
        return Checked { workflow, findings: workflow.check(&tools), hidden_reason: None };
    };
    let mut findings = Vec::new();
    let mut hidden = None;
    for entry in entries.iter().filter(|entry| entry.name == workflow.name()) {
        let Some(composite) = &entry.composite else { continue };
        let new = composite.findings.iter().filter(|finding| !findings.contains(*finding));
        findings.extend(new.cloned().collect::<Vec<_>>());
        hidden = hidden.or_else(|| hidden_reason(entry));
    }
    Checked { workflow, findings, hidden_reason: hidden }
}

impl Checked<'_> {
    fn is_valid(&self) -> bool {
        self.hidden_reason.is_none()
            && self.findings.iter().all(|finding| finding.severity != Severity::Error)
    }

    /// Returns the identifiers of the steps, in the order of the definition.
    fn ids(&self) -> Vec<&str> {
        self.workflow.steps().map(|step| step.id).collect()
    }

    fn critical_path(&self) -> Vec<&str> {
        let ids = self.ids();
        self.workflow.critical_path(|_| 1).into_iter().map(|step| ids[step]).collect()
    }

    fn text(&self) -> String {
        let Self { workflow, findings, hidden_reason } = self;
        let (ids, steps) = (self.ids(), workflow.steps().collect::<Vec<_>>());
        let rows: Vec<Vec<String>> = workflow
            .order()
            .iter()
            .map(|&number| {
                let step = steps[number];
                let after: Vec<_> = workflow.dependencies(number).map(|on| ids[on]).collect();
                vec![
                    step.id.to_owned(),
                    step.kind.to_owned(),
                    step.tool.unwrap_or_default().to_owned(),
                    after.join(", "),
                    format!("{:?}", step.timeout),
                ]
            })
            .collect();
        let title = format!("{} (timeout {:?})", workflow.name(), workflow.timeout());
        let mut out = format!(
            "{}\n{}critical path: {}\n",
            plain(&title),
            table(&["STEP", "TYPE", "TOOL", "AFTER", "TIMEOUT"], &rows),
            plain(&self.critical_path().join(", ")),
        );
        let hidden = hidden_reason.iter().map(|why| format!("hidden: {why}"));
        let findings = findings.iter().map(|finding| {
            let Finding { severity, path, message } = finding;
            format!("{}: {path}: {message}", word(*severity))
        });
        for line in hidden.chain(findings) {
            out.push_str(&plain(&line));
            out.push('\n');
        }
        out
    }

    fn json(&self) -> Value {
        let Self { workflow, findings, hidden_reason } = self;
        let ids = self.ids();
        let steps = workflow.steps().enumerate().map(|(number, step)| {
            json!({
                "id": step.id,
                "type": step.kind,
                "tool": step.tool,
                "dependsOn": workflow.dependencies(number).map(|on| ids[on]).collect::<Vec<_>>(),
                "timeoutSeconds": step.timeout.as_secs_f64(),
            })
        });
        let findings = findings.iter().map(|finding| {
            let Finding { severity, path, message } = finding;
            json!({"severity": word(*severity), "path": path, "message": message})
        });
        json!({
            "name": workflow.name(),
            "path": workflow.path(),
            "timeoutSeconds": workflow.timeout().as_secs_f64(),
            "steps": steps.collect::<Vec<_>>(),
            "order": workflow.order().iter().map(|&step| ids[step]).collect::<Vec<_>>(),
            "criticalPath": self.critical_path(),
            "findings": findings.collect::<Vec<_>>(),
            "hiddenReason": hidden_reason,
        })
    }
}

fn word(severity: Severity) -> &'static str {
    match severity {
        Severity::Warning => "warning",
        Severity::Error => "error",
    }
}

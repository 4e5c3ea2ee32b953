//! `vmcp-operator check`.

use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use vmcp_operator::Settings;
use vmcp_operator::manifests::{Finding, Manifests, ServerReport};

use super::files::{Documents, FileArgs};
use super::output::{Failure, eprint_line, print};
use super::settings::DefaultsArgs;

/// Image for the plan of pods, which no finding depends on.
const IMAGE: &str = "vmcp";

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    files: FileArgs,
    #[command(flatten)]
    defaults: DefaultsArgs,
    /// Format of the result.
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    output: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people.
    Text,
    /// For programs.
    Json,
}

// === impl CheckArgs ===

impl CheckArgs {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let (documents, objects) = self.files.read()?;
        let count = objects.len();
        let settings = Settings { defaults: self.defaults.defaults(), ..Settings::new(IMAGE) };
        let manifests = Manifests::read(objects, settings);
        let findings = manifests.check();
        let reports = manifests.render();
        match self.output {
            Format::Json => {
                print(&format!("{:#}\n", as_json(&documents, &manifests, &findings, &reports)));
            }
            Format::Text => {
                for report in &reports {
                    eprint_notes(report);
                }
                for (object, message) in manifests.advice() {
                    eprint_line(&format!("warning for {object}: {message}"));
                }
                for finding in &findings {
                    print(&format!("{}\n", line(&documents, finding)));
                }
                if findings.is_empty() {
                    let checked = count - manifests.ignored();
                    let ignored = manifests.ignored();
                    print(&format!("valid: {checked} objects; {ignored} of other kinds ignored\n"));
                }
            }
        }
        if findings.is_empty() { Ok(()) } else { Err(Failure::Reported) }
    }
}

/// Writes a finding as one line: `file:line: kind namespace/name: path: message`.
pub(super) fn line(documents: &Documents, finding: &Finding) -> String {
    let Finding { document, object, path, message } = finding;
    let place = documents.place(*document, path);
    let separator = if path.is_empty() { "" } else { ": " };
    format!("{place}: {object}: {path}{separator}{message}")
}

/// Prints what is assumed for a server, and what has no effect.
pub(super) fn eprint_notes(report: &ServerReport) {
    let server = &report.server;
    for missing in &report.missing {
        eprint_line(&format!("missing for VirtualMCPServer {server}: {missing}"));
    }
    for warning in &report.warnings {
        eprint_line(&format!("warning for VirtualMCPServer {server}: {warning}"));
    }
}

fn as_json(
    documents: &Documents,
    manifests: &Manifests,
    findings: &[Finding],
    reports: &[ServerReport],
) -> Value {
    let findings: Vec<Value> = findings
        .iter()
        .map(|Finding { document, object, path, message }| {
            let (file, line) = documents.file_and_line(*document, path).unzip();
            json!({
                "file": file, "line": line, "object": object, "path": path, "message": message,
            })
        })
        .collect();
    let notes = |texts: fn(&ServerReport) -> &Vec<String>| -> Vec<Value> {
        let each = reports.iter().flat_map(|report| {
            texts(report).iter().map(|text| json!({"server": report.server, "message": text}))
        });
        each.collect()
    };
    let advice = manifests.advice().into_iter();
    let advice: Vec<_> =
        advice.map(|(object, message)| json!({"object": object, "message": message})).collect();
    json!({
        "valid": findings.is_empty(),
        "findings": findings,
        "missing": notes(|report| &report.missing),
        "warnings": notes(|report| &report.warnings),
        "advice": advice,
        "ignored": manifests.ignored(),
    })
}

//! `vmcp doctor auth`.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use url::Url;
use vmcp_doctor::{Client, Outcome, Report, Step, examine};
use vmcp_egress::{Egress, FetchAddresses, FetchPolicy, Fetcher};

use crate::output::{Failure, OutputArgs, OutputFormat, block_on, print, print_json};
use crate::table::plain;

/// Time limit for each response. Claude documents that it waits no longer.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug, Args)]
pub(crate) struct Auth {
    /// The URL of the MCP endpoint, as typed into the client.
    #[arg(value_parser = address)]
    url: Url,
    /// The client to imitate.
    #[arg(long)]
    client: ClientArg,
    /// Register at the authorization server if the client would. Without it, the output shows the registration request.
    #[arg(long)]
    register: bool,
    /// A PEM file of certificates to trust in addition to the system's.
    #[arg(long, value_name = "FILE")]
    ca_bundle: Option<PathBuf>,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ClientArg {
    Claude,
    Chatgpt,
    Cursor,
    Vscode,
    Inspector,
}

impl Auth {
    pub(crate) fn run(self) -> Result<(), Failure> {
        block_on(self.diagnose())
    }

    async fn diagnose(self) -> Result<(), Failure> {
        let Self { url, client, register, ca_bundle, output } = self;
        let client = match client {
            ClientArg::Claude => Client::Claude,
            ClientArg::Chatgpt => Client::ChatGpt,
            ClientArg::Cursor => Client::Cursor,
            ClientArg::Vscode => Client::VsCode,
            ClientArg::Inspector => Client::Inspector,
        };
        // The operator starts this check, and the server may be in a private network.
        let policy = FetchPolicy {
            addresses: FetchAddresses::Any,
            http: true,
            ca_bundle,
            deadline: RESPONSE_TIMEOUT,
            ..FetchPolicy::supplied()
        };
        let http = Fetcher::new(Egress::default(), policy)
            .map_err(|error| Failure::Usage(error.to_string()))?;
        let report = examine(http, client, &url, register).await;
        match output.format {
            OutputFormat::Json => print_json(&as_json(&report)),
            OutputFormat::Text => print(&as_text(&report)),
        }
        match report.mismatch() {
            None => Ok(()),
            Some(_) if output.format == OutputFormat::Json => Err(Failure::AlreadyReported),
            Some(Step { what, found, change, outcome: _ }) => {
                let change = change.as_deref().unwrap_or_default();
                let name = client.name();
                let says = format!("{name} stops at: {what}: {found}");
                Err(Failure::Error(format!("{}\nchange: {}", plain(&says), plain(change))))
            }
        }
    }
}

fn address(text: &str) -> Result<Url, String> {
    let wanted = || "it must be an http or https URL, such as https://mcp.example/mcp".to_owned();
    let url = Url::parse(text).map_err(|_| wanted())?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err(wanted());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("it must not have a user name or a password in it".to_owned());
    }
    Ok(url)
}

fn as_text(report: &Report) -> String {
    let Report { client, server, steps } = report;
    let mut out = format!("{} at {}\n\n", client.name(), plain(server));
    for Step { what, outcome, found, change } in steps {
        // Writing to a string cannot fail.
        _ = writeln!(out, "{:8}  {}", word(*outcome), plain(what));
        _ = writeln!(out, "          {}", plain(found));
        if let Some(change) = change {
            _ = writeln!(out, "          change: {}", plain(change));
        }
    }
    out
}

fn as_json(report: &Report) -> Value {
    let Report { client, server, steps } = report;
    let step = |Step { what, outcome, found, change }: &Step| json!({"what": what, "outcome": word(*outcome), "found": found, "change": change});
    json!({
        "client": client.name(),
        "server": server,
        "steps": steps.iter().map(step).collect::<Vec<_>>(),
        "mismatch": report.mismatch().map(step),
    })
}

fn word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Pass => "ok",
        Outcome::Note => "note",
        Outcome::Mismatch => "mismatch",
    }
}

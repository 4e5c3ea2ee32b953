//! `vmcp version`.

use clap::Args;
use serde_json::json;
use vmcp_core::{STATEFUL, STATELESS};
use vmcp_server::serve::VirtualServer;

use super::output::{Failure, OutputArgs, OutputFormat, print, print_json};

#[derive(Debug, Args)]
pub(crate) struct Version {
    #[command(flatten)]
    output: OutputArgs,
}

impl Version {
    #[allow(clippy::unnecessary_wraps)] // The signature is that of every command.
    pub(crate) fn run(self) -> Result<(), Failure> {
        let version = env!("CARGO_PKG_VERSION");
        let mut revisions = vec![STATELESS];
        revisions.extend(STATEFUL);
        let features = features();
        match self.output.format {
            OutputFormat::Text => {
                let mut lines = format!("vmcp {version}\nMCP {}\n", revisions.join(", "));
                if !features.is_empty() {
                    lines.extend(["features ", &features.join(", "), "\n"]);
                }
                print(&lines);
            }
            OutputFormat::Json => print_json(&json!({
                "name": "vmcp",
                "version": version,
                "mcpRevisions": revisions,
                "features": features,
            })),
        }
        Ok(())
    }
}

/// Returns the optional features that the program was built with.
fn features() -> Vec<&'static str> {
    [("demo", cfg!(feature = "demo")), ("kubernetes", VirtualServer::is_available())]
        .into_iter()
        .filter_map(|(name, is_built)| is_built.then_some(name))
        .collect()
}

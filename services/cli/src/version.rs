//! `vmcp version`.

use clap::Args;
use serde_json::json;
use vmcp_core::{STATEFUL, STATELESS};

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
        match self.output.format {
            OutputFormat::Text => print(&format!("vmcp {version}\nMCP {}\n", revisions.join(", "))),
            OutputFormat::Json => {
                print_json(&json!({"name": "vmcp", "version": version, "mcpRevisions": revisions}));
            }
        }
        Ok(())
    }
}

//! `vmcp authz`.

pub(crate) mod args;
mod explain;
mod output;
mod target;

use clap::{Args, Subcommand};

use super::output::Failure;

#[derive(Debug, Args)]
pub(crate) struct Authz {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show the decision for a caller, the policies that determine it, and the items that the caller sees.
    Explain(explain::Explain),
}

impl Authz {
    pub(crate) fn run(self) -> Result<(), Failure> {
        match self.command {
            Command::Explain(explain) => explain.run(),
        }
    }
}

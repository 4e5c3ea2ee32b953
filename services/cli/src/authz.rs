//! `vmcp authz`.

mod args;
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
    /// Show what the policies decide for a caller, which of them decide, and what the caller sees.
    Explain(explain::Explain),
}

impl Authz {
    pub(crate) fn run(self) -> Result<(), Failure> {
        match self.command {
            Command::Explain(explain) => explain.run(),
        }
    }
}

//! `vmcp tools`.

mod search;

use clap::{Args, Subcommand};

use super::output::Failure;

#[derive(Debug, Args)]
pub(crate) struct Tools {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show what find_tool returns to a caller, with the rank of each tool by keywords and by meaning.
    Search(search::Search),
}

impl Tools {
    pub(crate) fn run(self) -> Result<(), Failure> {
        match self.command {
            Command::Search(search) => search.run(),
        }
    }
}

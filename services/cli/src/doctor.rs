//! `vmcp doctor`.

mod auth;

use clap::{Args, Subcommand};

use super::output::Failure;

#[derive(Debug, Args)]
pub(crate) struct Doctor {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Perform the login steps of a client at a server, and name the first step that fails.
    Auth(auth::Auth),
}

impl Doctor {
    pub(crate) fn run(self) -> Result<(), Failure> {
        match self.command {
            Command::Auth(auth) => auth.run(),
        }
    }
}

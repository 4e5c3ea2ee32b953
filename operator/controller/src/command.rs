//! Subcommands of the operator's binary.

mod run;
mod settings;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use self::run::RunArgs;

/// Kubernetes operator of vmcp: from VirtualMCPServer resources to running gateways.
#[derive(Debug, Parser)]
#[command(name = "vmcp-operator", version, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the operator in a cluster.
    Run(RunArgs),
}

impl Cli {
    /// Runs the subcommand, and returns the exit code of the process.
    pub(crate) fn run(self) -> ExitCode {
        match self.command {
            Command::Run(run) => run.run(),
        }
    }
}

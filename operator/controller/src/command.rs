//! Subcommands of the operator's binary.

mod check;
mod files;
mod import;
mod install;
mod lines;
mod output;
mod render;
mod run;
mod settings;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use self::{
    check::CheckArgs, import::ImportArgs, install::InstallArgs, render::RenderArgs, run::RunArgs,
};

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
    /// Print what the operator would generate for manifests, without a cluster.
    Render(RenderArgs),
    /// Check manifests without a cluster.
    Check(CheckArgs),
    /// Convert resources of ToolHive into those of vmcp.
    Import(ImportArgs),
    /// Print the manifests that install the operator, for clusters without Helm.
    Install(InstallArgs),
}

impl Cli {
    /// Runs the subcommand, and returns the exit code of the process.
    pub(crate) fn run(self) -> ExitCode {
        match self.command {
            Command::Run(run) => run.run(),
            Command::Render(render) => output::exit(render.run()),
            Command::Check(check) => output::exit(check.run()),
            Command::Import(import) => output::exit(import.run()),
            Command::Install(install) => output::exit(install.run()),
        }
    }
}

//! `vmcp workflow`.

mod answers;
mod check;
mod dry_run;
mod run;

use clap::{Args, Subcommand};
use vmcp_compose::Workflow;

use super::output::Failure;

#[derive(Debug, Args)]
pub(crate) struct WorkflowArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Check the composite tools of a configuration, and show their steps.
    Check(check::Check),
    /// Run a composite tool with the backends of a configuration, or without any.
    Run(Box<run::Run>),
}

impl WorkflowArgs {
    pub(crate) fn run(self) -> Result<(), Failure> {
        match self.command {
            Command::Check(check) => check.run(),
            Command::Run(run) => run.run(),
        }
    }
}

/// Returns the composite tool of this name.
fn find<'a>(workflows: &'a [Workflow], name: &str) -> Result<&'a Workflow, Failure> {
    let found = workflows.iter().find(|workflow| workflow.name() == name);
    found.ok_or_else(|| {
        let names: Vec<_> = workflows.iter().map(Workflow::name).collect();
        let hint = match vmcp_config::nearest(name, names.iter().copied()) {
            Some(nearest) => format!("did you mean {nearest}?"),
            None if names.is_empty() => "the configuration has no compositeTools".to_owned(),
            None => format!("there are {}", names.join(", ")),
        };
        Failure::Usage(format!("there is no composite tool \"{name}\": {hint}"))
    })
}

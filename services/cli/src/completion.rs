//! `vmcp completion`.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::Cli;
use super::output::{Failure, print};

#[derive(Debug, Args)]
pub(crate) struct Completion {
    /// The shell that reads the script.
    shell: Shell,
}

impl Completion {
    #[allow(clippy::unnecessary_wraps)] // The signature is that of every command.
    pub(crate) fn run(self) -> Result<(), Failure> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "vmcp", &mut script);
        print(&String::from_utf8_lossy(&script));
        Ok(())
    }
}

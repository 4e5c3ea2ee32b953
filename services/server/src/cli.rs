//! The command line.

pub mod log;
mod serve;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Many MCP servers behind one endpoint.
#[derive(Debug, Parser)]
#[command(name = "vmcp", version, about, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve the backends of a configuration file.
    Serve(serve::Serve),
}

/// Runs the command line and tells how it went.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let Cli { command } = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => {
            // There is nothing to do about a closed terminal.
            _ = error.print();
            return ExitCode::from(if error.use_stderr() { 2 } else { 0 });
        }
    };
    match command {
        Command::Serve(serve) => serve.run(),
    }
}

//! Exit status and output of commands.

use std::future::Future;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use serde_json::Value;

/// Reason why a command failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The configuration, the backends or the machine are at fault.
    Error(String),
    /// Like [`Failure::Error`], but the printed result already contains the error.
    AlreadyReported,
    /// The command was used wrongly.
    Usage(String),
}

/// Output format of a result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputFormat {
    /// For people.
    #[default]
    Text,
    /// For programs.
    Json,
}

/// Option that selects the output format.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct OutputArgs {
    /// Output format.
    #[arg(short = 'o', long = "format", value_name = "FORMAT", default_value = "text")]
    pub(crate) format: OutputFormat,
}

/// Prints the error and returns the exit code.
pub(crate) fn exit(outcome: Result<(), Failure>) -> ExitCode {
    let (message, code) = match outcome {
        Ok(()) => return ExitCode::SUCCESS,
        Err(Failure::AlreadyReported) => return ExitCode::FAILURE,
        Err(Failure::Error(message)) => (message, 1),
        Err(Failure::Usage(message)) => (message, 2),
    };
    eprint_line(&message);
    ExitCode::from(code)
}

/// Prints a part of the result. Ignores errors of a closed pipe.
pub(crate) fn print(text: &str) {
    let mut out = io::stdout().lock();
    _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Prints a JSON document.
pub(crate) fn print_json(value: &Value) {
    print(&format!("{value:#}\n"));
}

/// Prints a line to standard error.
pub(crate) fn eprint_line(message: &str) {
    _ = writeln!(io::stderr().lock(), "{message}");
}

/// Runs an asynchronous command.
pub(crate) fn block_on<F>(command: F) -> Result<(), Failure>
where
    F: Future<Output = Result<(), Failure>>,
{
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::Error(format!("cannot start: {error}")))?
        .block_on(command)
}

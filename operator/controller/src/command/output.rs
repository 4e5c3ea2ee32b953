//! Output and exit codes of the commands that need no cluster.

use std::io::{self, Write as _};
use std::process::ExitCode;

/// Reason for which a command failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// A file cannot be read, or is not a manifest.
    Error(String),
    /// The command printed what is wrong.
    Reported,
}

/// Prints the error and returns the exit code: 0 for success, 1 for mistakes in the manifests. Wrong usage is 2.
pub(crate) fn exit(outcome: Result<(), Failure>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Reported) => ExitCode::FAILURE,
        Err(Failure::Error(message)) => {
            eprint_line(&message);
            ExitCode::FAILURE
        }
    }
}

/// Prints a part of the result. Errors of a closed pipe have no remedy.
pub(crate) fn print(text: &str) {
    let mut out = io::stdout().lock();
    _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Prints a line to standard error.
pub(crate) fn eprint_line(message: &str) {
    _ = writeln!(io::stderr().lock(), "{message}");
}

/// Returns an object as a YAML document, with a comment in front of each line of `comment`.
pub(crate) fn document(comment: &[String], object: &serde_json::Value) -> Result<String, Failure> {
    let yaml = serde_saphyr::to_string(object)
        .map_err(|error| Failure::Error(format!("cannot write an object as YAML: {error}")))?;
    let mut text = "---\n".to_owned();
    for line in comment {
        text.extend(["# ", line.as_str(), "\n"]);
    }
    text.push_str(&yaml);
    Ok(text)
}

//! The `vmcp` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    vmcp::cli::run(std::env::args_os())
}

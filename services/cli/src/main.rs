//! The `vmcp` command.
//!
//! Results go to standard output, everything else to standard error. The exit code is 0 for success, 1 for errors of the
//! configuration or the backends, 2 for wrong usage.

mod arguments;
mod authz;
mod call;
mod completion;
mod config;
#[cfg(feature = "demo")]
mod demo;
#[cfg(not(feature = "demo"))]
#[path = "demo/unavailable.rs"]
mod demo;
mod doctor;
mod file_limit;
mod init;
mod inspect;
mod list;
mod log;
mod output;
mod schema;
mod serve;
mod server_args;
mod session;
mod survey;
mod table;
mod tools;
mod unmatched;
mod validate;
mod version;
mod workflow;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// A request makes some dozens of small allocations and two of a connection's buffer size, on whichever
/// worker it happens to be: with the system's allocator that is a sixth of its time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Many MCP servers behind one endpoint.
#[derive(Debug, Parser)]
#[command(name = "vmcp", version, about, max_term_width = 100, propagate_version = false)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve the backends of a configuration file.
    Serve(Box<serve::Serve>),
    /// Validate a configuration file and the files that it names.
    Validate(validate::Validate),
    /// Write a starter configuration file, or convert the mcp.json of a client.
    Init(init::Init),
    /// Show the tools, prompts and resources that clients see, with reasons.
    Inspect(inspect::Inspect),
    /// List the tools, prompts and resources of a configuration, or of the server at a URL.
    List(list::List),
    /// Call a tool of a configuration, or of the server at a URL.
    Call(call::Call),
    /// Check or run the composite tools of a configuration.
    Workflow(workflow::WorkflowArgs),
    /// Evaluate the policies for a caller.
    Authz(authz::Authz),
    /// Search the tools of a configuration as clients do.
    Tools(tools::Tools),
    /// Run the gateway in front of built-in example servers.
    #[cfg_attr(not(feature = "demo"), command(hide = true))]
    Demo(demo::Demo),
    /// Diagnose why a client cannot use a server.
    Doctor(doctor::Doctor),
    /// Print the JSON Schema of the configuration file.
    Schema,
    /// Print a completion script for a shell.
    Completion(completion::Completion),
    /// Print the version and the supported MCP revisions.
    Version(version::Version),
}

fn main() -> ExitCode {
    run(std::env::args_os())
}

/// Runs the command line and returns its exit code.
fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let Cli { command } = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => {
            // An error of a closed terminal has no remedy.
            _ = error.print();
            return ExitCode::from(if error.use_stderr() { 2 } else { 0 });
        }
    };
    let outcome = match command {
        Command::Serve(serve) => serve.run(),
        Command::Validate(validate) => validate.run(),
        Command::Init(init) => init.run(),
        Command::Inspect(inspect) => inspect.run(),
        Command::List(list) => list.run(),
        Command::Call(call) => call.run(),
        Command::Workflow(workflow) => workflow.run(),
        Command::Authz(authz) => authz.run(),
        Command::Tools(tools) => tools.run(),
        Command::Demo(demo) => demo.run(),
        Command::Doctor(doctor) => doctor.run(),
        Command::Schema => schema::run(),
        Command::Completion(completion) => completion.run(),
        Command::Version(version) => version.run(),
    };
    output::exit(outcome)
}

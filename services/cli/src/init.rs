//! `vmcp init`.

mod bridge;
mod client_file;
mod client_server;
mod import;
mod placeholder;
mod secrets;
mod starter;
mod write;

use std::path::{Path, PathBuf};

use clap::Args;

use self::client_file::ClientFile;
use self::import::ImportResult;
pub(super) use self::starter::quoted;
use super::output::{Failure, eprint_line, print, print_json};

#[derive(Debug, Args)]
pub(crate) struct Init {
    /// Convert the servers of a client's file: mcp.json, settings.json or config.toml of Claude, Cursor, VS Code,
    /// Windsurf, Zed or Codex.
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
    /// Print one server of the client's file as JSON for its bridge, with placeholders filled from the environment and
    /// secrets in plain text. NAME is the name of the backend.
    #[arg(long, value_name = "NAME", requires = "from", conflicts_with_all = ["output", "force"])]
    server: Option<String>,
    /// The name of the server.
    #[arg(long, default_value = "my-tools")]
    name: String,
    /// File to write; standard output if absent.
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Overwrite the file if it exists.
    #[arg(long, requires = "output")]
    force: bool,
}

impl Init {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let Self { from, server, name, output, force } = self;
        if name.is_empty() {
            return Err(Failure::Usage("--name must not be empty".to_owned()));
        }
        let Some(from) = from else {
            return starter(&name, output.as_deref(), force);
        };
        let file = ClientFile::read(&from).map_err(Failure::Error)?;
        if let Some(server) = server {
            return print_server(&file, &server);
        }
        let imported = import::import(&file, &name);
        match &output {
            Some(path) => write::write(path, &imported.text, force).map_err(Failure::Error)?,
            None => print(&imported.text),
        }
        eprint_line(&next_steps(&imported, output.as_deref()));
        Ok(())
    }
}

fn starter(name: &str, output: Option<&Path>, force: bool) -> Result<(), Failure> {
    let text = starter::starter(name);
    let Some(path) = output else {
        print(&text);
        return Ok(());
    };
    write::write(path, &text, force).map_err(Failure::Error)?;
    let path = path.display();
    eprint_line(&format!("wrote {path}; check it with: vmcp validate --config {path}"));
    Ok(())
}

/// Prints the settings of the server with the backend's name.
fn print_server(file: &ClientFile, name: &str) -> Result<(), Failure> {
    let servers = import::named(file);
    let Some((_, server)) = servers.iter().find(|(backend, _)| backend == name) else {
        let names: Vec<_> = servers.iter().map(|(backend, _)| backend.as_str()).collect();
        let path = file.path.display();
        return Err(Failure::Error(format!(
            "{path} has no server {name}: choose one of {}",
            names.join(", ")
        )));
    };
    let lookup = |name: &str| std::env::var(name).ok();
    let settings = bridge::settings(&server.connection, &file.folders, lookup);
    print_json(&settings.map_err(|error| Failure::Error(format!("{name}: {error}")))?);
    Ok(())
}

/// Describes the result and the remaining steps.
fn next_steps(imported: &ImportResult, output: Option<&Path>) -> String {
    let ImportResult { text: _, variables, servers, backends, bridges } = imported;
    let mut steps = Vec::new();
    if backends < servers {
        let left = servers - backends;
        steps.push(format!("see the comments for the {left} others"));
    }
    if *bridges > 0 {
        let commands = if *bridges == 1 { "command" } else { "commands" };
        steps.push(format!("start {bridges} with the {commands} in the comments"));
    }
    if !variables.is_empty() {
        steps.push(format!("set {}", variables.join(", ")));
    }
    if let Some(path) = output {
        steps.push(format!("check with: vmcp validate --config {}", path.display()));
    }
    let written = output.map(|path| format!("wrote {}: ", path.display())).unwrap_or_default();
    let steps = steps.join("; then ");
    let separator = if steps.is_empty() { "" } else { "; " };
    format!("{written}{backends} of {servers} servers taken over{separator}{steps}")
}

//! Bridges from stdio to HTTP: the command that starts one, and the server's settings that it reads.
//!
//! The command reads the server from standard input, where `vmcp init --from FILE --server NAME` prints it with its
//! placeholders filled: what is secret in the client's file stays there.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use super::client_server::{Connection, Stdio};
use super::placeholder::{Folders, PlaceholderError, fill};

/// Python program that serves a stdio server over HTTP. Most stdio servers support only the older generation of MCP, so
/// the bridge uses it for all of them.
const PROGRAM: &str = "import json, os, sys; from fastmcp.server import create_proxy; server = json.load(sys.stdin); \
                       server[\"env\"] = {**os.environ, **server.get(\"env\", {})}; \
                       create_proxy({\"mcpServers\": {\"server\": server}}, mode=\"legacy\")\
                       .run(transport=\"http\", host=\"127.0.0.1\", port=";

/// Returns the command that serves one server of the client's file at a port of this machine.
pub(super) fn command(file: &Path, name: &str, port: u16) -> String {
    let (file, name) = (shell(&file.to_string_lossy()), shell(name));
    let program = shell(&format!("{PROGRAM}{port})"));
    format!("vmcp init --from {file} --server {name} | python3 -c {program}")
}

/// Returns the settings of one server in FastMCP's format, with placeholders filled from the environment.
pub(super) fn settings(
    connection: &Connection,
    folders: &Folders,
    lookup: impl Fn(&str) -> Option<String>,
) -> Result<Value, String> {
    let fill = |text: &str| {
        fill(text, folders, &lookup).map_err(|error| match error {
            PlaceholderError::Unset(name) => {
                format!("the environment variable {name} is not set: set it to what the client asks for")
            }
            PlaceholderError::Unknown(placeholder) => {
                format!("{placeholder} is known to the client alone: write its value into the client's file")
            }
        })
    };
    let all = |texts: &BTreeMap<String, String>| {
        let filled = texts.iter().map(|(name, text)| Ok((name.clone(), fill(text)?)));
        filled.collect::<Result<BTreeMap<_, _>, String>>()
    };
    match connection {
        Connection::Remote { url, is_sse, headers } => {
            let transport = if *is_sse { "sse" } else { "http" };
            Ok(json!({"url": fill(url)?, "transport": transport, "headers": all(headers)?}))
        }
        Connection::Stdio(stdio) if stdio.has_placeholders => process(stdio, folders, fill),
        Connection::Stdio(stdio) => process(stdio, folders, |text| Ok(text.to_owned())),
        Connection::Unsupported(reason) => Err(reason.clone()),
    }
}

fn process(
    stdio: &Stdio,
    folders: &Folders,
    fill: impl Fn(&str) -> Result<String, String>,
) -> Result<Value, String> {
    let Stdio { command, arguments, environment, environment_file, folder, has_placeholders: _ } =
        stdio;
    let mut variables = BTreeMap::new();
    if let Some(file) = environment_file {
        let path = folders.workspace.join(fill(file)?);
        let read = |error: dotenvy::Error| format!("failed to read {}: {error}", path.display());
        for pair in dotenvy::from_path_iter(&path).map_err(read)? {
            let (name, value) = pair.map_err(read)?;
            variables.insert(name, value);
        }
    }
    for (name, value) in environment {
        variables.insert(name.clone(), fill(value)?);
    }
    let arguments =
        arguments.iter().map(|argument| fill(argument)).collect::<Result<Vec<_>, _>>()?;
    let mut settings = json!({"command": fill(command)?, "args": arguments, "env": variables});
    if let Some(folder) = folder {
        settings["cwd"] = folders.workspace.join(fill(folder)?).to_string_lossy().into();
    }
    Ok(settings)
}

/// Quotes text as one argument of a POSIX shell.
fn shell(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lookup(name: &str) -> Option<String> {
        (name == "TOKEN").then(|| "t".to_owned())
    }

    fn stdio(has_placeholders: bool) -> Connection {
        Connection::Stdio(Stdio {
            command: "npx".to_owned(),
            arguments: vec!["${TOKEN}".to_owned()],
            environment: [("A".to_owned(), "${env:TOKEN}".to_owned())].into(),
            folder: Some("sub".to_owned()),
            has_placeholders,
            ..Stdio::default()
        })
    }

    #[test]
    fn fills_placeholders_where_the_client_does() {
        let folders = Folders { workspace: "/w".into(), home: None };
        let filled = settings(&stdio(true), &folders, lookup).unwrap();
        assert_eq!(
            filled,
            json!({"command": "npx", "args": ["t"], "env": {"A": "t"}, "cwd": "/w/sub"})
        );
        let plain = settings(&stdio(false), &folders, lookup).unwrap();
        assert_eq!(plain["args"], json!(["${TOKEN}"]));
    }

    #[test]
    fn names_the_variable_that_is_missing() {
        let error = settings(&stdio(true), &Folders::default(), |_| None).unwrap_err();
        assert!(error.contains("TOKEN is not set"), "{error}");
    }

    #[test]
    fn quotes_paths_for_the_shell() {
        let line = command(Path::new("/o'hara/my mcp.json"), "files", 8101);
        assert!(line.starts_with(r"vmcp init --from '/o'\''hara/my mcp.json' --server files | "));
        assert!(line.ends_with("port=8101)'"));
    }
}

//! A configuration from a client's file.
//!
//! What can be taken over becomes a backend. What cannot stands in a comment that says what to do;
//! values of `env` and `headers` are never copied: a header's value comes from a variable of the environment.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::path::Path;

use vmcp_header_injection::CredentialHeader;

use super::client_file::{ClientFile, Kind, Server};
use super::lenient;
use super::starter::{head, quoted};

/// The port of the first bridge; the next one has the next.
const BRIDGES: u16 = 8101;

/// What is in front of the headers that backends want.
const CREDENTIALS: &str = "\n# The headers of the client's file. Each variable has to hold a header's whole value, such \
                           as \"Bearer ...\".\noutgoingAuth:\n  source: inline\n  backends:\n";

/// A configuration file.
pub(super) struct Imported {
    pub(super) text: String,
    /// The variables of the environment that it wants.
    pub(super) variables: Vec<String>,
}

/// The file's servers as a configuration file.
pub(super) fn import(path: &Path, name: &str) -> Result<Imported, String> {
    let shown = path.display();
    let text =
        std::fs::read_to_string(path).map_err(|error| format!("cannot read {shown}: {error}"))?;
    let document = lenient::parse(&text).map_err(|error| format!("{shown} is no JSON: {error}"))?;
    let file = ClientFile::new(&document).ok_or_else(|| {
        format!("{shown} has no servers: neither mcpServers nor servers nor mcp.servers")
    })?;
    // The comments below name the file: whoever runs their commands may do so anywhere.
    let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    Ok(render(&file, &path, name))
}

fn render(file: &ClientFile, path: &Path, name: &str) -> Imported {
    let mut names = HashSet::new();
    let mut ports = BRIDGES..;
    let mut backends = String::new();
    let mut comments = String::new();
    let mut credentials = String::new();
    let mut variables = Vec::new();
    for server in &file.servers {
        let name = unique(&server.name, &mut names);
        match (entry(server, &name), bridged(server)) {
            (Ok(entry), None) => {
                backends.push_str(&entry);
                if let [header] = headers(server) {
                    let variable = variable(&name, header, &variables);
                    credentials.push_str(&credential(&name, header, &variable));
                    variables.push(variable);
                }
            }
            (_, Some(why)) => {
                let port = ports.next().unwrap_or_default();
                comments.push_str(&bridge(file, server, path, &name, &why, port));
            }
            (Err(why), None) => {
                // Writing to a string cannot fail.
                _ = write!(comments, "\n  # {}: {why}\n", one_line(&server.name));
            }
        }
    }
    let list = if backends.is_empty() {
        "backends: [] # instead of []: the entries below\n"
    } else {
        "backends:\n"
    };
    let mut text =
        head(name) + "\n# Taken from the file of a client.\n" + list + &backends + &comments;
    if !credentials.is_empty() {
        text += CREDENTIALS;
        text += &credentials;
    }
    Imported { text, variables }
}

/// The headers that a server wants.
fn headers(server: &Server) -> &[String] {
    match &server.kind {
        Kind::Remote { headers, .. } => headers,
        Kind::Stdio | Kind::Unknown => &[],
    }
}

/// Has a backend shown the header that it wants.
fn credential(name: &str, header: &str, variable: &str) -> String {
    format!(
        "    {}:\n      type: header_injection\n      headerInjection: {{headerName: {}, headerValueEnv: {variable}}}\n",
        quoted(name),
        quoted(header)
    )
}

/// A variable that none of those `taken` is: two backends never share a secret by accident.
fn variable(name: &str, header: &str, taken: &[String]) -> String {
    let upper = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    let plain: String = format!("MCP_{name}_{header}").chars().map(upper).collect();
    let numbered = (2..).map(|number| format!("{plain}_{number}"));
    let mut names = std::iter::once(plain.clone()).chain(numbered);
    names.find(|name| !taken.contains(name)).unwrap_or(plain)
}

/// The backend that a server becomes, or why it cannot be one.
fn entry(server: &Server, name: &str) -> Result<String, String> {
    let Kind::Remote { url, sse, headers: _ } = &server.kind else {
        return Err("neither url nor command: nothing to connect to".to_owned());
    };
    if server.disabled {
        return Err("switched off in the client's file".to_owned());
    }
    if url.contains("${") {
        return Err(
            "its url has a placeholder that only the client can fill: add it here written out"
                .to_owned(),
        );
    }
    let transport = if *sse { "sse" } else { "streamable-http" };
    let entry = format!(
        "  - name: {}\n    url: {}\n    transport: {transport}\n",
        quoted(name),
        quoted(url)
    );
    // What the parser refuses would make the whole file unusable.
    let probe = format!("name: x\nincomingAuth: {{type: anonymous}}\nbackends:\n{entry}");
    match crate::cli::config::load(probe) {
        Ok(_) => Ok(entry),
        Err(_) => Err("its url cannot be used: it must be http or https, without credentials, \
                       and without a fragment"
            .to_owned()),
    }
}

/// Why a server needs something in between, if it does.
fn bridged(server: &Server) -> Option<String> {
    match &server.kind {
        _ if server.disabled => None,
        Kind::Stdio => Some("speaks stdio, which needs a bridge to HTTP".to_owned()),
        Kind::Remote { headers, .. } => match headers.as_slice() {
            [] => None,
            [header] if header.parse::<CredentialHeader>().is_ok() => None,
            headers => Some(format!(
                "wants the headers {}, and a backend can be shown one that is not the transport's; a bridge adds them",
                headers.iter().map(|name| one_line(name)).collect::<Vec<_>>().join(", ")
            )),
        },
        Kind::Unknown => None,
    }
}

/// A comment with the command that serves one server of the client's file over HTTP on this
/// machine. The command reads that file, so what is secret in it stays there.
fn bridge(
    file: &ClientFile,
    server: &Server,
    path: &Path,
    name: &str,
    why: &str,
    port: u16,
) -> String {
    let keys = file.keys.iter().map(|key| quoted(key)).collect::<Vec<_>>().join("][");
    let own = quoted(&server.name);
    let path = quoted(&path.to_string_lossy());
    let program = format!(
        "import json; from fastmcp.server import create_proxy; \
         server = json.load(open({path}))[{keys}][{own}]; \
         create_proxy({{\"mcpServers\": {{\"server\": server}}}})\
         .run(transport=\"http\", host=\"127.0.0.1\", port={port})"
    );
    let unfilled = if server.placeholders {
        "\n  # Its placeholders have to be written out in that file first."
    } else {
        ""
    };
    format!(
        "\n  # {}: {why}.{unfilled}\n  # Start one with the Python package fastmcp (pip install fastmcp):\n  \
         #   python3 -c {}\n  # and add:\n  # - name: {}\n  #   url: http://127.0.0.1:{port}/mcp\n  \
         #   transport: streamable-http\n",
        one_line(&server.name),
        shell(&program),
        quoted(name)
    )
}

/// Text as one argument of a POSIX shell.
fn shell(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Text that cannot leave its comment.
fn one_line(text: &str) -> String {
    crate::cli::table::plain(text)
}

/// A name that is good as a prefix of tools: lower-case letters, digits and hyphens, at most 32, and
/// no other's.
fn unique(name: &str, taken: &mut HashSet<String>) -> String {
    let mut plain = String::new();
    for c in name.to_lowercase().chars() {
        if c.is_ascii_alphanumeric() {
            plain.push(c);
        } else if !plain.is_empty() && !plain.ends_with('-') {
            plain.push('-');
        }
    }
    plain.truncate(32);
    let plain = plain.trim_end_matches('-');
    let plain = if plain.is_empty() { "server" } else { plain };
    let mut unique = plain.to_owned();
    let mut number = 2;
    while !taken.insert(unique.clone()) {
        unique = format!("{plain}-{number}");
        number += 1;
    }
    unique
}

#[cfg(test)]
mod tests;

//! Conversion of a client's file to a configuration.
//!
//! Each server becomes a backend, or a comment with instructions. Values of `env`, and of `headers` that may be secret,
//! are never copied: environment variables replace them.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write as _;

use vmcp_config::{File, Format};
use vmcp_header_injection::CredentialHeader;

use super::bridge;
use super::client_file::ClientFile;
use super::client_server::{ClientServer, Connection};
use super::placeholder::{Folders, PlaceholderError, to_template, variable_name};
use super::secrets::{SecretFreeUrl, is_harmless, without_secrets};
use super::starter::{head, quoted};

/// Port of the first bridge. Each further bridge has the next port.
const FIRST_PORT: u16 = 8101;

/// Converted configuration file.
#[derive(Debug)]
pub(super) struct ImportResult {
    pub(super) text: String,
    /// The environment variables of the file.
    pub(super) variables: Vec<String>,
    /// The number of servers in the client's file.
    pub(super) servers: usize,
    /// The number of backends; the other servers are comments.
    pub(super) backends: usize,
    /// The number of backends that need a bridge.
    pub(super) bridges: usize,
}

/// Parts of the configuration under construction.
#[derive(Debug, Default)]
struct Builder {
    /// For each variable, the origin of its value.
    variables: BTreeMap<String, String>,
    backends: String,
    /// Comments of servers that are not backends.
    comments: String,
    filters: String,
    entries: usize,
    bridges: usize,
}

/// HTTP backend.
struct Remote {
    url: String,
    is_sse: bool,
    headers: BTreeMap<String, String>,
    /// Variables with the origins of their values.
    variables: Vec<(String, String)>,
}

/// Pairs the servers with the names of their backends.
pub(super) fn named(file: &ClientFile) -> Vec<(String, &ClientServer)> {
    let mut names = HashSet::new();
    file.servers.iter().map(|server| (unique(&server.name, &mut names), server)).collect()
}

/// Converts the file's servers to a configuration file.
pub(super) fn import(file: &ClientFile, name: &str) -> ImportResult {
    let mut builder = Builder::default();
    for (name, server) in named(file) {
        builder.add(file, &name, server);
    }
    let Builder { variables, backends, comments, filters, entries, bridges } = builder;
    let mut text = head(name) + "\n# From " + &one_line(&file.path.to_string_lossy()) + "\n";
    if !variables.is_empty() {
        text += "# Environment variables that ${NAME} below reads: set them before the server starts.\nvariables:\n";
        for (name, note) in &variables {
            let note = file.inputs.get(name).unwrap_or(note);
            _ = writeln!(text, "  - {name} # {}", one_line(note));
        }
    }
    text += if backends.is_empty() { "backends: []\n" } else { "backends:\n" };
    text += &(backends + &comments);
    if !file.unused_inputs.is_empty() {
        let inputs = one_line(&file.unused_inputs.join(", "));
        _ = writeln!(text, "  # not taken over: inputs that no server reads: {inputs}");
    }
    if !filters.is_empty() {
        text += "\naggregation:\n  tools:\n";
        text += &filters;
    }
    text += "\noperational:\n  failureHandling:\n    partialFailureMode: best_effort # lists go on without a backend \
             that is away\n";
    let variables = variables.into_keys().collect();
    ImportResult { text, variables, servers: file.servers.len(), backends: entries, bridges }
}

impl Builder {
    fn add(&mut self, file: &ClientFile, name: &str, server: &ClientServer) {
        let title = match &server.project {
            Some(project) => format!("{} of {}", one_line(&server.name), one_line(project)),
            None => one_line(&server.name),
        };
        let ignored = match server.ignored.as_slice() {
            [] => String::new(),
            keys => format!("; not taken over: {}", one_line(&keys.join(", "))),
        };
        if server.is_disabled {
            _ = writeln!(self.comments, "  # {title}: disabled in the client's file{ignored}");
            return;
        }
        let added = match &server.connection {
            Connection::Unsupported(reason) => Err(reason.clone()),
            Connection::Stdio(_) => {
                self.bridge(file, name, &format!("{title}: speaks stdio{ignored}"));
                Ok(())
            }
            Connection::Remote { url, is_sse, headers } => {
                match remote(name, url, *is_sse, headers, &file.folders) {
                    Ok(remote) => {
                        self.remote(name, &format!("{title}{ignored}"), remote);
                        Ok(())
                    }
                    Err(RemoteError::Header(header)) => {
                        let title = format!(
                            "{title}: wants the header {header}, which a backend cannot have{ignored}"
                        );
                        self.bridge(file, name, &title);
                        Ok(())
                    }
                    Err(RemoteError::Url(reason)) => Err(reason),
                }
            }
        };
        match added {
            Ok(()) => {
                self.entries += 1;
                self.filter(name, &server.tools);
            }
            Err(reason) => {
                _ = writeln!(self.comments, "  # {title}: {}{ignored}", one_line(&reason));
            }
        }
    }

    fn remote(&mut self, name: &str, title: &str, remote: Remote) {
        let Remote { url, is_sse, headers, variables } = remote;
        _ = writeln!(self.backends, "  # {title}");
        self.backends += &entry(name, &url, is_sse, &headers);
        for (variable, note) in variables {
            self.variables.entry(variable).or_insert_with(|| format!("{note} ({name})"));
        }
    }

    fn bridge(&mut self, file: &ClientFile, name: &str, title: &str) {
        let number = u16::try_from(self.bridges).unwrap_or(u16::MAX);
        let port = FIRST_PORT.saturating_add(number);
        self.bridges += 1;
        let command = bridge::command(&file.path, name, port);
        _ = writeln!(
            self.backends,
            "  # {title}. Start its bridge to HTTP (pip install 'fastmcp>=4,<5'):\n  #   {}",
            one_line(&command)
        );
        let url = format!("http://127.0.0.1:{port}/mcp");
        self.backends += &entry(name, &url, false, &BTreeMap::new());
    }

    fn filter(&mut self, name: &str, tools: &[String]) {
        if tools.is_empty() {
            return;
        }
        let tools = tools.iter().map(|tool| quoted(tool)).collect::<Vec<_>>().join(", ");
        _ = writeln!(self.filters, "    - {{workload: {}, filter: [{tools}]}}", quoted(name));
    }
}

fn entry(name: &str, url: &str, is_sse: bool, headers: &BTreeMap<String, String>) -> String {
    let transport = if is_sse { "sse" } else { "streamable-http" };
    let mut entry = format!(
        "  - name: {}\n    url: {}\n    transport: {transport}\n",
        quoted(name),
        quoted(url)
    );
    if !headers.is_empty() {
        entry += "    headers:\n";
        for (name, value) in headers {
            _ = writeln!(entry, "      {}: {}", quoted(name), quoted(value));
        }
    }
    entry
}

/// Reason why a remote server cannot become a backend.
enum RemoteError {
    /// The URL is unusable, with the reason.
    Url(String),
    /// The header belongs to the transport.
    Header(String),
}

fn remote(
    name: &str,
    url: &str,
    is_sse: bool,
    headers: &BTreeMap<String, String>,
    folders: &Folders,
) -> Result<Remote, RemoteError> {
    let prefix = format!("MCP_{name}");
    let mut remote =
        Remote { url: String::new(), is_sse, headers: BTreeMap::new(), variables: Vec::new() };
    if url.contains("${") {
        let (template, variables) = to_template(url, folders).map_err(|error| match error {
            PlaceholderError::Unknown(placeholder) | PlaceholderError::Unset(placeholder) => {
                RemoteError::Url(format!(
                    "its url has {placeholder}, which is known to the client alone"
                ))
            }
        })?;
        remote.url = template;
        remote.add_variables(variables, "in its url");
    } else {
        let SecretFreeUrl { template, variables, authorization } = without_secrets(url, &prefix);
        remote.url = template;
        remote.variables = variables;
        if let Some(variable) = authorization {
            remote.headers.insert("Authorization".to_owned(), format!("${{{variable}}}"));
            let note = "Basic and user:password of its URL in Base64".to_owned();
            remote.variables.push((variable, note));
        }
    }
    for (header, value) in headers {
        remote.add_header(header, value, &prefix, folders)?;
    }
    remote.check(name)?;
    Ok(remote)
}

impl Remote {
    fn add_header(
        &mut self,
        header: &str,
        value: &str,
        prefix: &str,
        folders: &Folders,
    ) -> Result<(), RemoteError> {
        if header.parse::<CredentialHeader>().is_err() {
            return Err(RemoteError::Header(one_line(header)));
        }
        match to_template(value, folders) {
            Ok((template, variables)) if !variables.is_empty() => {
                self.headers.insert(header.to_owned(), template);
                self.add_variables(variables, &format!("in the header {header}"));
            }
            Ok((template, _)) if is_harmless(header, value) => {
                self.headers.insert(header.to_owned(), template);
            }
            Ok(_) | Err(_) => {
                let variable = variable_name(&format!("{prefix}_{header}"));
                self.headers.insert(header.to_owned(), format!("${{{variable}}}"));
                self.variables.push((variable, format!("the whole value of the header {header}")));
            }
        }
        Ok(())
    }

    fn add_variables(&mut self, variables: Vec<String>, place: &str) {
        self.variables.extend(variables.into_iter().map(|name| (name, place.to_owned())));
    }

    /// Rejects values that the parser rejects, since they would make the whole file unusable.
    fn check(&self, name: &str) -> Result<(), RemoteError> {
        let names: Vec<_> = self.variables.iter().map(|(name, _)| name.as_str()).collect();
        let probe = format!(
            "name: x\nincomingAuth: {{type: anonymous}}\nvariables: [{}]\nbackends:\n{}",
            names.join(", "),
            entry(name, &self.url, self.is_sse, &self.headers)
        );
        match File::parse(&probe, Format::Yaml) {
            Ok(_) => Ok(()),
            Err(_) => Err(RemoteError::Url(
                "its url cannot be used: it must be http or https, without a fragment".to_owned(),
            )),
        }
    }
}

/// Formats text so that it stays within its comment.
fn one_line(text: &str) -> String {
    crate::table::plain(text)
}

/// Returns a unique name for use as a prefix of tools: at most 32 lower-case letters, digits and hyphens.
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

//! MCP server in the configuration file of a client.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// MCP server.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ClientServer {
    /// The name in the file.
    pub(super) name: String,
    /// The project of the server; `None` for all projects.
    pub(super) project: Option<String>,
    pub(super) connection: Connection,
    /// `true` if the server is disabled in the client.
    pub(super) is_disabled: bool,
    /// The tools that the client uses; empty for all.
    pub(super) tools: Vec<String>,
    /// The keys without an equivalent in the configuration.
    pub(super) ignored: Vec<String>,
}

/// Connection from a client to a server. Texts may have placeholders.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Connection {
    /// Streamable HTTP, or HTTP+SSE.
    Remote { url: String, is_sse: bool, headers: BTreeMap<String, String> },
    /// A process on this machine.
    Stdio(Stdio),
    /// An unsupported connection, with the reason.
    Unsupported(String),
}

/// Server that the client starts as a process.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Stdio {
    pub(super) command: String,
    pub(super) arguments: Vec<String>,
    pub(super) environment: BTreeMap<String, String>,
    pub(super) environment_file: Option<String>,
    pub(super) folder: Option<String>,
    /// `true` if the client fills placeholders in these texts.
    pub(super) has_placeholders: bool,
}

/// Format of a client's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    /// The JSON of most clients.
    Json,
    /// The TOML of Codex, without placeholders.
    Codex,
}

/// Converted keys, for all clients.
const KNOWN: &[&str] = &[
    "args",
    "bearer_token_env_var",
    "command",
    "cwd",
    "disabled",
    "enabled",
    "enabled_tools",
    "env",
    "envFile",
    "env_http_headers",
    "headers",
    "httpUrl",
    "http_headers",
    "serverUrl",
    "transport",
    "type",
    "url",
];

impl ClientServer {
    pub(super) fn new(name: &str, value: &Value, dialect: Dialect) -> Self {
        let keys = value.as_object().into_iter().flat_map(Map::keys);
        let mut ignored: Vec<_> =
            keys.filter(|key| !KNOWN.contains(&key.as_str())).cloned().collect();
        ignored.sort();
        Self {
            name: name.to_owned(),
            project: None,
            connection: Connection::new(value, dialect),
            is_disabled: value["disabled"] == true || value["enabled"] == false,
            tools: texts(&value["enabled_tools"]),
            ignored,
        }
    }

    /// Returns `true` if both describe the same server, regardless of the project.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let project = self.project.clone();
        *self == Self { project, ..other.clone() }
    }
}

impl Connection {
    fn new(value: &Value, dialect: Dialect) -> Self {
        let url = ["url", "serverUrl", "httpUrl"].into_iter().find_map(|key| value[key].as_str());
        if let Some(url) = url {
            let kind = value["type"].as_str().or_else(|| value["transport"].as_str());
            if let Some(kind) = kind.filter(|kind| kind.to_ascii_lowercase().contains("ws")) {
                return Self::Unsupported(format!(
                    "it speaks {kind}, which no server of MCP has to"
                ));
            }
            let is_sse = is_sse(kind, url);
            return Self::Remote { url: url.to_owned(), is_sse, headers: headers(value) };
        }
        // Zed has the command in an object.
        let nested = &value["command"];
        let (command, source) =
            if nested.is_object() { (&nested["path"], nested) } else { (nested, value) };
        match command.as_str() {
            Some(command) => Self::Stdio(Stdio::new(command, source, value, dialect)),
            None => Self::Unsupported("it has neither url nor command".to_owned()),
        }
    }
}

impl Stdio {
    fn new(command: &str, source: &Value, value: &Value, dialect: Dialect) -> Self {
        let text = |key: &str| value[key].as_str().map(ToOwned::to_owned);
        Self {
            command: command.to_owned(),
            arguments: texts(&source["args"]),
            environment: pairs(&source["env"]),
            environment_file: text("envFile"),
            folder: text("cwd"),
            has_placeholders: dialect == Dialect::Json,
        }
    }
}

/// Returns `true` for the deprecated HTTP+SSE transport. If the file does not name a transport, the conventional path
/// of the URL decides.
fn is_sse(kind: Option<&str>, url: &str) -> bool {
    match kind {
        Some(kind) => kind.eq_ignore_ascii_case("sse"),
        None => url.split(['?', '#']).next().is_some_and(|path| path.ends_with("/sse")),
    }
}

/// Returns the headers of a remote server, with the variables of Codex as placeholders.
fn headers(value: &Value) -> BTreeMap<String, String> {
    let mut headers = pairs(&value["headers"]);
    headers.extend(pairs(&value["http_headers"]));
    let from_variables = pairs(&value["env_http_headers"]).into_iter();
    headers.extend(from_variables.map(|(name, variable)| (name, format!("${{env:{variable}}}"))));
    if let Some(variable) = value["bearer_token_env_var"].as_str() {
        headers.insert("Authorization".to_owned(), format!("Bearer ${{env:{variable}}}"));
    }
    headers
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().map(text).collect()
}

fn pairs(value: &Value) -> BTreeMap<String, String> {
    let pairs = value.as_object().into_iter().flat_map(Map::iter);
    pairs.map(|(key, value)| (key.clone(), text(value))).collect()
}

/// Converts numbers and booleans to text for an environment variable or argument.
fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn server(value: &Value, dialect: Dialect) -> ClientServer {
        ClientServer::new("a", value, dialect)
    }

    #[test]
    fn transport_follows_type_or_path() {
        let is_sse = |value: Value| {
            matches!(
                server(&value, Dialect::Json).connection,
                Connection::Remote { is_sse: true, .. }
            )
        };
        assert!(is_sse(json!({"url": "https://a.test/sse?x=1"})));
        assert!(is_sse(json!({"type": "sse", "url": "https://a.test/mcp"})));
        assert!(!is_sse(json!({"type": "http", "url": "https://a.test/sse"})));
        assert!(!is_sse(json!({"serverUrl": "https://a.test/mcp"})));
    }

    #[test]
    fn codex_variables_become_headers() {
        let value = json!({
            "url": "https://a.test/mcp",
            "bearer_token_env_var": "TOKEN",
            "http_headers": {"X-Region": "eu"},
            "env_http_headers": {"X-Key": "KEY"},
            "startup_timeout_sec": 20,
        });
        let ClientServer { connection, ignored, .. } = server(&value, Dialect::Codex);
        let Connection::Remote { headers, .. } = connection else { panic!("{connection:?}") };
        assert_eq!(headers["Authorization"], "Bearer ${env:TOKEN}");
        assert_eq!(headers["X-Key"], "${env:KEY}");
        assert_eq!(headers["X-Region"], "eu");
        assert_eq!(ignored, ["startup_timeout_sec"]);
    }

    #[test]
    fn unsupported_connections_state_reason() {
        for value in
            [json!({}), json!({"type": "http"}), json!(1), json!({"url": "ws://a", "type": "ws"})]
        {
            let connection = server(&value, Dialect::Json).connection;
            assert!(matches!(connection, Connection::Unsupported(_)), "{connection:?}");
        }
    }

    #[test]
    fn reads_processes_with_all_their_settings() {
        let value = json!({"command": "npx", "args": ["-y", 1], "env": {"A": true}, "cwd": "/w",
                           "envFile": ".env", "disabled": true, "timeout": 3});
        let found = server(&value, Dialect::Json);
        assert!(found.is_disabled);
        assert_eq!(found.ignored, ["timeout"]);
        let Connection::Stdio(stdio) = found.connection else { panic!() };
        assert_eq!(
            (stdio.arguments, &*stdio.environment["A"]),
            (vec!["-y".into(), "1".into()], "true")
        );
        let zed = json!({"command": {"path": "x", "args": ["y"]}});
        let Connection::Stdio(stdio) = server(&zed, Dialect::Json).connection else { panic!() };
        assert_eq!((&*stdio.command, stdio.arguments), ("x", vec!["y".to_owned()]));
    }
}

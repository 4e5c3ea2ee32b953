//! The servers in a client's file, whatever the client.

use serde_json::{Map, Value};

/// The servers of a file, and where in it they stand.
#[derive(Debug)]
pub(super) struct ClientFile {
    /// The keys that lead to the servers: `mcpServers` (Claude, Cursor), `servers` (VS Code),
    /// `mcp.servers` (VS Code's settings).
    pub(super) keys: &'static [&'static str],
    pub(super) servers: Vec<Server>,
}

/// One server.
#[derive(Debug)]
pub(super) struct Server {
    /// What the file calls it.
    pub(super) name: String,
    pub(super) kind: Kind,
    /// Whether parts of it are placeholders (`${input:token}`) that only the client can fill.
    pub(super) placeholders: bool,
    /// Whether the client has it switched off.
    pub(super) disabled: bool,
}

/// How the client reaches it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Over HTTP, with headers of these names.
    Remote { url: String, sse: bool, headers: Vec<String> },
    /// By starting it.
    Stdio,
    /// In a way that is not known.
    Unknown,
}

const PLACES: [&[&str]; 3] = [&["mcpServers"], &["servers"], &["mcp", "servers"]];

impl ClientFile {
    /// The servers of a file that was read, if it has a place for them.
    pub(super) fn new(document: &Value) -> Option<Self> {
        PLACES.into_iter().find_map(|keys| {
            let found = keys.iter().try_fold(document, |value, key| value.get(key))?;
            let servers = found.as_object()?.iter().map(|(name, value)| Server::new(name, value));
            Some(Self { keys, servers: servers.collect() })
        })
    }
}

impl Server {
    fn new(name: &str, value: &Value) -> Self {
        let url = ["url", "serverUrl", "httpUrl"].into_iter().find_map(|key| value[key].as_str());
        let kind = match url {
            Some(url) => Kind::Remote {
                url: url.to_owned(),
                sse: is_sse(value, url),
                headers: value["headers"].as_object().map(names).unwrap_or_default(),
            },
            None if value["command"].is_string() => Kind::Stdio,
            None => Kind::Unknown,
        };
        let disabled = value["disabled"] == true || value["enabled"] == false;
        let placeholders = value.to_string().contains("${");
        Self { name: name.to_owned(), kind, placeholders, disabled }
    }
}

fn names(headers: &Map<String, Value>) -> Vec<String> {
    headers.keys().cloned().collect()
}

/// Whether the deprecated transport is spoken. Clients that don't say find out by trying; where the
/// file doesn't, its customary path does.
fn is_sse(value: &Value, url: &str) -> bool {
    match value["type"].as_str().or_else(|| value["transport"].as_str()) {
        Some(transport) => transport.eq_ignore_ascii_case("sse"),
        None => url.split(['?', '#']).next().is_some_and(|path| path.ends_with("/sse")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn kind(server: &Value) -> Kind {
        let file = ClientFile::new(&json!({"servers": {"x": server}})).unwrap();
        file.servers.into_iter().next().unwrap().kind
    }

    #[test]
    fn each_clients_file_has_its_own_place_for_servers() {
        for document in [
            json!({"mcpServers": {"a": {"command": "x"}}}),
            json!({"servers": {"a": {"type": "stdio", "command": "x"}}, "inputs": []}),
            json!({"mcp": {"servers": {"a": {"command": "x"}}}}),
        ] {
            let file = ClientFile::new(&document).unwrap();
            assert_eq!(file.servers[0].name, "a");
            assert_eq!(file.servers[0].kind, Kind::Stdio);
        }
        assert!(ClientFile::new(&json!({"projects": {}})).is_none());
    }

    #[test]
    fn the_transport_is_what_the_file_says_else_what_the_path_suggests() {
        let sse = |server: Value| matches!(kind(&server), Kind::Remote { sse: true, .. });
        assert!(sse(json!({"url": "https://a.test/sse?x=1"})));
        assert!(sse(json!({"type": "sse", "url": "https://a.test/mcp"})));
        assert!(!sse(json!({"type": "http", "url": "https://a.test/sse"})));
        assert!(!sse(json!({"url": "https://a.test/mcp"})));
        assert_eq!(kind(&json!({"type": "http"})), Kind::Unknown);
    }
}

//! MCP servers in the configuration file of a client.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use jsonc_parser::ParseOptions;
use serde_json::{Map, Value};

use super::client_server::{ClientServer, Dialect};
use super::placeholder::{Folders, variable_name};

/// Maximum size of a file, in bytes. `~/.claude.json` also contains the history of its projects.
const MAX_BYTES: u64 = 64 << 20;

/// Servers of a client's file.
#[derive(Debug)]
pub(super) struct ClientFile {
    pub(super) path: PathBuf,
    pub(super) folders: Folders,
    pub(super) servers: Vec<ClientServer>,
    /// The descriptions of VS Code's inputs, by the variables that replace them.
    pub(super) inputs: BTreeMap<String, String>,
    /// The ids of those inputs that no server reads.
    pub(super) unused_inputs: Vec<String>,
}

/// Keys of the servers: Claude, Cursor, Windsurf, Gemini; VS Code; VS Code's settings; Zed; Codex.
const PLACES: [&[&str]; 6] = [
    &["mcpServers"],
    &["servers"],
    &["mcp", "servers"],
    &["mcp.servers"],
    &["context_servers"],
    &["mcp_servers"],
];

impl ClientFile {
    /// Reads a file: TOML if its name ends in `.toml`, otherwise JSON with comments and trailing commas.
    pub(super) fn read(path: &Path) -> Result<Self, String> {
        let shown = path.display();
        let size = std::fs::metadata(path).map(|file| file.len());
        if size.is_ok_and(|size| size > MAX_BYTES) {
            return Err(format!("failed to read {shown}: it is larger than {MAX_BYTES} bytes"));
        }
        let text = std::fs::read_to_string(path)
            .map_err(|error| format!("failed to read {shown}: {error}"))?;
        // Commands in the result name the file and may run in another folder.
        let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        Self::parse(&text, path).map_err(|error| format!("failed to read {shown}: {error}"))
    }

    /// Reads the text of the file at `path`.
    pub(super) fn parse(text: &str, path: PathBuf) -> Result<Self, String> {
        let is_toml = path.extension().is_some_and(|extension| extension == "toml");
        let (document, dialect) = if is_toml {
            let document = toml::from_str(text).map_err(|error| format!("not TOML: {error}"))?;
            (document, Dialect::Codex)
        } else {
            (parse_json(text)?, Dialect::Json)
        };
        let servers = find_servers(&document, dialect);
        if servers.is_empty() {
            return Err("no servers in mcpServers, servers, mcp.servers, context_servers, mcp_servers, or in \
                        mcpServers of one of its projects"
                .to_owned());
        }
        let folders = Folders::of(&path);
        let unused_inputs = unused_inputs(&document);
        Ok(Self { path, folders, servers, inputs: inputs(&document), unused_inputs })
    }
}

fn parse_json(text: &str) -> Result<Value, String> {
    let text = text.trim_start_matches('\u{feff}');
    if text.trim().is_empty() {
        return Err("not JSON: the file is empty".to_owned());
    }
    jsonc_parser::parse_to_serde_value(text, &ParseOptions::default())
        .map_err(|error| format!("not JSON: {error}"))
}

/// Returns the servers of a document: those of all projects, then those of each project.
fn find_servers(document: &Value, dialect: Dialect) -> Vec<ClientServer> {
    let mut servers = Vec::new();
    for keys in PLACES {
        let found = keys.iter().try_fold(document, |value, key| value.get(key));
        collect(found, document, None, dialect, &mut servers);
    }
    let projects = document.get("projects").and_then(Value::as_object).into_iter().flatten();
    for (project, settings) in projects {
        collect(settings.get("mcpServers"), settings, Some(project), dialect, &mut servers);
    }
    servers
}

fn collect(
    found: Option<&Value>,
    settings: &Value,
    project: Option<&str>,
    dialect: Dialect,
    servers: &mut Vec<ClientServer>,
) {
    for (name, value) in found.and_then(Value::as_object).into_iter().flatten() {
        let mut server = ClientServer::new(name, value, dialect);
        server.project = project.map(ToOwned::to_owned);
        server.is_disabled |= lists(settings, "disabledMcpServers", name);
        // Equal servers of several projects are one server.
        if !servers.iter().any(|known| known.is_same(&server)) {
            servers.push(server);
        }
    }
}

fn lists(settings: &Value, key: &str, name: &str) -> bool {
    let list = settings.get(key).and_then(Value::as_array);
    list.is_some_and(|list| list.iter().any(|value| value == name))
}

/// Returns the inputs of VS Code.
fn each_input(document: &Value) -> impl Iterator<Item = &Value> {
    let inputs = document.get("inputs").or_else(|| document.pointer("/mcp/inputs"));
    inputs.and_then(Value::as_array).into_iter().flatten()
}

fn unused_inputs(document: &Value) -> Vec<String> {
    let mut ids = each_input(document).filter_map(|input| input["id"].as_str()).peekable();
    if ids.peek().is_none() {
        return Vec::new();
    }
    let text = document.to_string();
    let is_unused = |id: &&str| !text.contains(&format!("${{input:{id}}}"));
    ids.filter(is_unused).map(str::to_owned).collect()
}

fn inputs(document: &Value) -> BTreeMap<String, String> {
    let inputs = each_input(document);
    let describe = |input: &Map<String, Value>| {
        let description = input.get("description")?.as_str()?;
        Some((variable_name(input.get("id")?.as_str()?), description.to_owned()))
    };
    inputs.filter_map(Value::as_object).filter_map(describe).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str, path: &str) -> Result<Vec<String>, String> {
        let file = ClientFile::parse(text, path.into())?;
        Ok(file.servers.into_iter().map(|server| server.name).collect())
    }

    #[test]
    fn finds_servers_of_each_client() {
        for text in [
            r#"{"mcpServers": {"a": {"command": "x"}}}"#,
            r#"{"servers": {"a": {"type": "stdio", "command": "x"}}, "inputs": []}"#,
            r#"{"mcp": {"servers": {"a": {"command": "x"}}}}"#,
            r#"{"mcp.servers": {"a": {"command": "x"}}}"#,
            r#"{"context_servers": {"a": {"command": "x"}}}"#,
            r#"{"mcpServers": {}, "projects": {"/p": {"mcpServers": {"a": {"command": "x"}}}}}"#,
            "\u{feff}{\n// comment\n\"mcpServers\": {\"a\": {\"command\": \"x\",},}, /* end */\n}",
        ] {
            assert_eq!(names(text, "/x/mcp.json"), Ok(vec!["a".to_owned()]), "{text}");
        }
        let toml =
            "model = \"x\"\n[mcp_servers.a]\ncommand = \"x\"\n[mcp_servers.a.env]\nK = \"v\"\n";
        assert_eq!(names(toml, "/x/config.toml"), Ok(vec!["a".to_owned()]));
    }

    #[test]
    fn joins_equal_servers_of_several_projects() {
        let text = r#"{"projects": {
            "/p": {"mcpServers": {"a": {"command": "x"}, "b": {"command": "y"}}},
            "/q": {"mcpServers": {"a": {"command": "x"}, "b": {"command": "z"}},
                   "disabledMcpServers": ["b"]}
        }}"#;
        let file = ClientFile::parse(text, "/x/.claude.json".into()).unwrap();
        let found: Vec<_> =
            file.servers.iter().map(|server| (&*server.name, server.is_disabled)).collect();
        assert_eq!(found, [("a", false), ("b", false), ("b", true)]);
    }

    #[test]
    fn rejects_files_without_servers() {
        for (text, says) in [
            ("servers:", "not JSON"),
            ("", "the file is empty"),
            ("{\"mcpServers\": {}}", "no servers in mcpServers"),
            ("{\"projects\": {}}", "no servers in mcpServers"),
        ] {
            let error = names(text, "/x/mcp.json").unwrap_err();
            assert!(error.contains(says), "{error}");
        }
        assert!(names("a = ", "/x/config.toml").unwrap_err().contains("not TOML"));
    }

    #[test]
    fn describes_inputs_by_their_variables() {
        let text = r#"{"inputs": [{"id": "gh-token", "description": "GitHub token"}, {"id": 1}],
                       "servers": {"a": {"command": "x"}}}"#;
        let file = ClientFile::parse(text, "/x/mcp.json".into()).unwrap();
        assert_eq!(file.inputs["GH_TOKEN"], "GitHub token");
    }
}

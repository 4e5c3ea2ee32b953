use serde_json::{Value, json};

use super::*;

fn imported(document: &Value) -> String {
    let path = "/home/o'hara/mcp.json".into();
    let file = ClientFile::parse(&document.to_string(), path).unwrap();
    let ImportResult { text, .. } = import(&file, "tools");
    // Only the values of variables are missing.
    File::parse(&text, Format::Yaml).unwrap_or_else(|errors| panic!("{errors} {text}"));
    text
}

#[test]
fn remote_servers_become_backends() {
    let text = imported(&json!({"mcpServers": {
        "GitHub Tools!": {"type": "http", "url": "https://api.example.com/mcp"},
        "github-tools": {"url": "https://other.example.com/sse"},
        "true": {"url": "http://127.0.0.1:1/mcp"},
    }}));
    assert!(text.contains(
        "  - name: \"github-tools\"\n    url: \"https://api.example.com/mcp\"\n    \
         transport: streamable-http\n"
    ));
    assert!(text.contains("- name: \"github-tools-2\"\n    url: \"https://other.example.com/sse\"\n    transport: sse\n"));
    assert!(text.contains("- name: \"true\"\n"));
    assert!(text.contains("partialFailureMode: best_effort"));
}

#[test]
fn stdio_servers_become_backends_behind_bridges() {
    let text = imported(&json!({"mcpServers": {
        "files": {"command": "npx", "args": ["-y", "server"], "env": {"TOKEN": "hunter2"}},
        "more": {"command": "uvx", "timeout": 3, "autoApprove": []},
    }}));
    assert!(!text.contains("hunter2"));
    assert!(text.contains(
        r"vmcp init --from '/home/o'\''hara/mcp.json' --server files | python3 -c 'import json"
    ));
    assert!(text.contains("mode=\"legacy\""));
    assert!(text.contains("url: \"http://127.0.0.1:8101/mcp\""));
    assert!(text.contains("url: \"http://127.0.0.1:8102/mcp\""));
    assert!(text.contains("# more: speaks stdio; not taken over: autoApprove, timeout."), "{text}");
}

#[test]
fn names_servers_that_cannot_be_imported() {
    let text = imported(&json!({"servers": {
        "placeholder": {"type": "http", "url": "https://${command:host}/mcp"},
        "host": {"url": "https://a.test/mcp", "headers": {"Host": "b.test"}},
        "off": {"type": "http", "url": "https://a.test/mcp", "disabled": true},
        "helper": {"url": "https://a.test/mcp", "headersHelper": "/bin/headers"},
        "scheme": {"url": "ftp://a.test"},
        "nothing": {},
    }, "inputs": []}));
    for says in [
        "# placeholder: its url has ${command:host}, which is known to the client alone",
        "# host: wants the header Host, which a backend cannot have",
        "# off: disabled in the client's file",
        "# helper; not taken over: headersHelper",
        "# scheme: its url cannot be used",
        "# nothing: it has neither url nor command",
    ] {
        assert!(text.contains(says), "{says}: {text}");
    }
}

#[test]
fn secrets_become_variables() {
    let text = imported(&json!({"mcpServers": {
        "docs": {"url": "https://a.test/mcp", "headers": {"Authorization": "Bearer hunter2", "X-Org": "acme"}},
        "env": {"url": "https://a.test/mcp", "headers": {"Authorization": "Bearer ${env:DOCS_TOKEN}"}},
        "query": {"url": "https://a.test/mcp?api_key=hunter2"},
        "user": {"url": "https://me:hunter2@a.test/mcp"},
        "base": {"url": "${BASE:-https://a.test}/mcp"},
        "input": {"url": "https://a.test/mcp", "headers": {"X-Key": "${input:my key}"}},
    }, "inputs": [{"id": "my key", "description": "Key of\nthe team"}, {"id": "old\nkey"}, {"id": "older"}]}));
    assert!(!text.contains("hunter2"), "{text}");
    for says in [
        "\"Authorization\": \"${MCP_DOCS_AUTHORIZATION}\"",
        "\"X-Org\": \"acme\"",
        "\"Authorization\": \"Bearer ${DOCS_TOKEN}\"",
        "url: \"https://a.test/mcp?api_key=${MCP_QUERY_API_KEY}\"",
        "\"Authorization\": \"${MCP_USER_AUTHORIZATION}\"",
        "url: \"${BASE:-https://a.test}/mcp\"",
        "- MY_KEY # Key of\u{fffd}the team",
        "# not taken over: inputs that no server reads: old\u{fffd}key, older\n",
        "- MCP_QUERY_API_KEY # the parameter api_key of its URL (query)",
    ] {
        assert!(text.contains(says), "{says}: {text}");
    }
}

#[test]
fn tools_of_codex_become_filters() {
    let text = "[mcp_servers.docs]\nurl = \"https://a.test/mcp\"\nenabled_tools = [\"search\"]\n\
                disabled_tools = [\"drop\"]\n";
    let file = ClientFile::parse(text, "/home/me/.codex/config.toml".into()).unwrap();
    let ImportResult { text, .. } = import(&file, "tools");
    let parsed = File::parse(&text, Format::Yaml).unwrap();
    assert_eq!(parsed.aggregation.tools[0].filter, ["search"]);
    assert!(text.contains("not taken over: disabled_tools"), "{text}");
}

#[test]
fn imported_names_stay_within_comments() {
    let text = imported(&json!({"mcpServers": {
        "x\nbackends: evil\n": {"command": "y"},
        "\u{1b}[2J": {},
    }}));
    assert!(!text.contains("\nbackends: evil"));
    assert!(!text.contains('\u{1b}'));
}

#[test]
fn names_are_short_and_unique() {
    let mut taken = HashSet::new();
    assert_eq!(unique("ÄÖÜ", &mut taken), "server");
    assert_eq!(unique("!!", &mut taken), "server-2");
    assert_eq!(unique(&"x".repeat(99), &mut taken).len(), 32);
}

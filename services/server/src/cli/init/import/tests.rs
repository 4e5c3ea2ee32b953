use serde_json::{Value, json};

use super::*;

fn imported(document: &Value) -> String {
    let file = ClientFile::new(document).unwrap();
    let Imported { text, variables } = render(&file, Path::new("/home/o'hara/mcp.json"), "tools");
    // The variables are all that is missing.
    match crate::cli::config::load(text.clone()) {
        Ok(_) => assert!(variables.is_empty(), "{text}"),
        Err(faults) => assert_eq!(faults.mistakes.len(), variables.len(), "{faults:?} {text}"),
    }
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
}

#[test]
fn a_stdio_server_becomes_the_command_of_its_bridge_and_its_secrets_stay_where_they_are() {
    let text = imported(&json!({"mcpServers": {
        "files": {"command": "npx", "args": ["-y", "server"], "env": {"TOKEN": "hunter2"}},
        "more": {"command": "uvx"},
    }}));
    assert!(!text.contains("hunter2"));
    assert!(text.contains("backends: []"));
    assert!(text.contains(
        r#"python3 -c 'import json; from fastmcp.server import create_proxy; server = json.load(open("/home/o'\''hara/mcp.json"))["mcpServers"]["files"];"#
    ));
    assert!(text.contains("port=8101") && text.contains("port=8102"));
}

#[test]
fn what_cannot_be_taken_over_says_why() {
    let text = imported(&json!({"servers": {
        "placeholder": {"type": "http", "url": "https://${input:host}/mcp"},
        "credentials": {"type": "http", "url": "https://me:hunter2@a.test/mcp"},
        "headers": {"url": "https://a.test/mcp", "headers": {"X-Key": "hunter2", "X-Org": "a"}},
        "host": {"url": "https://a.test/mcp", "headers": {"Host": "b.test"}},
        "off": {"type": "http", "url": "https://a.test/mcp", "disabled": true},
        "nothing": {},
    }, "inputs": []}));
    assert!(!text.contains("hunter2"), "{text}");
    assert!(text.contains("# placeholder: its url has a placeholder"));
    assert!(text.contains("# credentials: its url cannot be used"));
    assert!(text.contains("# headers: wants the headers X-Key, X-Org, and"));
    assert!(text.contains("# host: wants the headers Host, and"));
    assert!(text.contains("# off: switched off"));
    assert!(text.contains("# nothing: neither url nor command"));
    assert!(text.contains("backends: []"));
}

#[test]
fn a_header_becomes_a_credential_whose_value_is_a_variable_of_its_own() {
    let header = |name: &str| json!({"url": "https://a.test/mcp", "headers": {name: "hunter2"}});
    let text = imported(&json!({"mcpServers": {
        "docs": header("Authorization"), "a": header("b-c"), "a b": header("c"), "1": header("X-K\u{20ac}"),
    }}));
    assert!(!text.contains("hunter2"), "{text}");
    assert!(text.contains(
        "    \"docs\":\n      type: header_injection\n      headerInjection: {headerName: \"Authorization\", \
         headerValueEnv: MCP_DOCS_AUTHORIZATION}\n"
    ));
    assert!(text.contains("MCP_A_B_C}") && text.contains("MCP_A_B_C_2}"), "{text}");
}

#[test]
fn a_name_cannot_leave_its_comment() {
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

use serde_json::{Value, json};

use super::*;

fn imported(document: &Value) -> String {
    let file = ClientFile::new(document).unwrap();
    let text = render(&file, Path::new("/home/o'hara/mcp.json"), "tools");
    assert!(crate::cli::config::load(text.clone()).is_ok(), "{text}");
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
        "headers": {"type": "http", "url": "https://a.test/mcp", "headers": {"X-Key": "hunter2"}},
        "off": {"type": "http", "url": "https://a.test/mcp", "disabled": true},
        "nothing": {},
    }, "inputs": []}));
    assert!(!text.contains("hunter2"), "{text}");
    assert!(text.contains("# placeholder: its url has a placeholder"));
    assert!(text.contains("# credentials: its url cannot be used"));
    assert!(text.contains("# headers: wants the header X-Key"));
    assert!(text.contains("# off: switched off"));
    assert!(text.contains("# nothing: neither url nor command"));
    assert!(text.contains("backends: []"));
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

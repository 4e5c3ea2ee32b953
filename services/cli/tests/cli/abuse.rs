//! Ambiguous messages are rejected: the message that authorization sees is the message that a backend gets.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use tokio::time::Instant;
use vmcp_test_support::McpBackend;

use crate::http::request;
use crate::program::{Folder, ServerProcess};

const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}"#;

/// Permits one tool, and of its calls those that don't name the other one.
const POLICIES: &str = r#"
   - 'permit(principal, action, resource in MCP::"x") when { ["a_x", "a_call_tool"].contains(resource.name) };'
   - 'forbid(principal, action, resource) when { context has arg_tool_name && context.arg_tool_name == "y" };'
"#;

/// A gateway with these policies. The folder lives as long.
fn start(backend: &McpBackend) -> (Folder, ServerProcess, u16) {
    let folder = Folder::new();
    let text = format!(
        "name: x\nincomingAuth:\n  type: anonymous\n  authz:\n   type: cedar\n   policies:{POLICIES}\
         backends: [{{name: a, url: \"{}\", transport: streamable-http}}]\n",
        backend.url()
    );
    let (server, port) = ServerProcess::serve(&folder.write("vmcp.yaml", &text), &[]);
    (folder, server, port)
}

fn message(params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{{{params},{META}}}}}"#)
}

/// The status of a call that says what it is about in its headers too.
fn call(port: u16, media: &str, body: &str, name: &str) -> u16 {
    let headers = [
        ("content-type", media),
        ("accept", "application/json, text/event-stream"),
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", name),
    ];
    request(port, "POST", "/mcp", &headers, body).status
}

/// Returns the number of calls that reached the backend.
fn calls(backend: &McpBackend) -> usize {
    backend.count("tools/call")
}

#[test]
fn ambiguous_call_reaches_no_backend() {
    let backend = McpBackend::stateless(&["x", "y", "call_tool"]);
    let (_folder, _server, port) = start(&backend);
    let json = "application/json";
    let plain = message(r#""name":"a_x","arguments":{}"#);
    assert_eq!(call(port, json, &plain, "a_x"), 200);
    assert_eq!(calls(&backend), 1);
    for (media, body) in [
        (json, message(r#""name":"a_x","Name":"a_y""#)),
        (json, message(r#""name":"a_x","NAME":"a_y""#)),
        (json, message(r#""name":"a_x","name":"a_y""#)),
        (json, message(r#""name":"a_x","n\u0061me":"a_y""#)),
        (json, message(r#""name":"a_x","name\u0000":"a_y""#)),
        (json, message(r#""name":"a_x","arguments":{},"Arguments":{}"#)),
        (json, message(r#""name":"a_x","arguments":[]"#)),
        (json, format!("[{plain},{plain}]")),
        (json, plain.replace(r#""id":7"#, r#""id":null"#)),
        (json, plain.replace("tools/call", "tools/Call")),
        (json, format!("{plain}{plain}")),
        ("text/plain", plain.clone()),
        ("application/x-www-form-urlencoded", plain),
    ] {
        let status = call(port, media, &body, "a_x");
        assert!((400..500).contains(&status), "{status}: {media} {body}");
    }
    assert_eq!(calls(&backend), 1);
}

#[test]
fn malformed_chunks_reach_no_backend() {
    let backend = McpBackend::stateless(&["x"]);
    let (_folder, _server, port) = start(&backend);
    let body = message(r#""name":"a_x""#);
    let (first, second) = body.split_at(40);
    for chunks in [vec![first], vec![second, first], vec![first, "\0", second], vec![first, first]]
    {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let head = "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\
                    Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
                    MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: a_x\r\n\
                    Transfer-Encoding: chunked\r\n\r\n";
        stream.write_all(head.as_bytes()).unwrap();
        for chunk in chunks.iter().chain([&""]) {
            write!(stream, "{:x}\r\n{chunk}\r\n", chunk.len()).unwrap();
        }
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 400"), "{chunks:?}: {answer}");
    }
    assert_eq!(calls(&backend), 0);
}

#[test]
fn rejects_case_variants_of_policy_arguments() {
    let backend = McpBackend::stateless(&["x", "y", "call_tool"]);
    let (_folder, _server, port) = start(&backend);
    let mut reached = 0;
    for (arguments, status) in [
        (r#"{"tool_name":"x"}"#, 200),
        (r#"{"tool_name":"y"}"#, 403),
        (r#"{"Tool_Name":"y"}"#, 403),
        (r#"{"TOOL_NAME":"x"}"#, 403),
        (r#"{"tool_name":"x","tool_name":"y"}"#, 403),
        (r#"{"tool_name":"x","Tool_Name":"y"}"#, 403),
        (r#"{"tool_name":"x","tool\u005fname":"y"}"#, 403),
        (r#"{"other":1,"OTHER":2}"#, 200),
    ] {
        let body = message(&format!(r#""name":"a_call_tool","arguments":{arguments}"#));
        assert_eq!(call(port, "application/json", &body, "a_call_tool"), status, "{arguments}");
        reached += usize::from(status == 200);
    }
    assert_eq!(calls(&backend), reached);
    let hidden = message(r#""name":"a_y""#);
    assert_eq!(call(port, "application/json", &hidden, "a_y"), 400);
}

#[test]
fn closes_connections_without_requests() {
    let folder = Folder::new();
    let file = folder.write("vmcp.yaml", "name: x\nincomingAuth: {type: anonymous}\n");
    let (_server, port) = ServerProcess::serve(&file, &[]);
    let begun = Instant::now();
    let mut silent = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let mut slow = TcpStream::connect(("127.0.0.1", port)).unwrap();
    slow.write_all(b"POST /mcp HTTP/1.1\r\n").unwrap();
    for stream in [&mut silent, &mut slow] {
        stream.set_read_timeout(Some(Duration::from_secs(15))).unwrap();
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).unwrap();
    }
    assert!(begun.elapsed() < Duration::from_secs(13), "{:?}", begun.elapsed());
}

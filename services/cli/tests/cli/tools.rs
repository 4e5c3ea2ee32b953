//! `vmcp tools search`.

use serde_json::{Value, json};
use vmcp_test_support::mcp_backend::Protocol;
use vmcp_test_support::{EmbeddingServer, McpBackend};

use crate::program::{CommandOutput, Folder, vmcp};

const POLICIES: &str = r#"
incomingAuth:
  type: anonymous
  authz:
    type: cedar
    policies:
    - 'permit(principal, action, resource) when { resource.name != "a_write_file" };'
    - 'permit(principal == Client::"ann", action, resource);'
"#;

fn backend() -> McpBackend {
    let tool = |name: &str, text: &str| {
        json!({"name": name, "description": text, "inputSchema": {"type": "object"}}).to_string()
    };
    let items = [
        tool("write_file", "Writes text to a file"),
        tool("read_file", "Reads a file"),
        tool("get_forecast", "Weather of the next days"),
    ];
    McpBackend::builder(Protocol::Stateless).items("tools", items).start()
}

/// Runs a search with this configuration.
fn search(folder: &Folder, sections: &str, options: &[&str]) -> CommandOutput {
    let backend = backend();
    let text = format!(
        "name: x\nbackends: [{{name: a, url: \"{}\", transport: streamable-http}}]\n{sections}\n",
        backend.url()
    );
    let file = folder.write("vmcp.yaml", &text);
    vmcp(&[&["tools", "search", "-c", &file], options].concat())
}

fn found(output: &CommandOutput) -> Value {
    assert_eq!(output.code, 0, "{output:?}");
    serde_json::from_str(&output.out).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

fn names(found: &Value) -> Vec<&str> {
    let tools = found["tools"].as_array().unwrap().iter();
    tools.map(|tool| tool["name"].as_str().unwrap()).collect()
}

#[test]
fn search_shows_tools_that_caller_sees() {
    let folder = Folder::new();
    let claims = folder.write("claims.json", r#"{"sub": "ann"}"#);
    let sections = format!("optimizer: {{}}{POLICIES}");
    let query = ["write a file", "-o", "json"];
    let anonymous = found(&search(&folder, &sections, &query));
    assert_eq!(names(&anonymous), ["a_read_file"]);
    assert_eq!(anonymous["visibleTools"], 2);
    let ann = found(&search(&folder, &sections, &[&query[..], &["--as", &claims]].concat()));
    assert_eq!(names(&ann), ["a_write_file", "a_read_file"]);
    let first = &ann["tools"][0];
    assert_eq!((&first["backend"], &first["keyword"]["rank"]), (&json!("a"), &json!(1)), "{ann}");
    assert_eq!(first["semantic"], Value::Null);
    assert_eq!(ann["result"]["search"], json!({"mode": "keyword"}));
    assert_eq!(ann["result"]["tools"][0]["name"], "a_write_file");
    let text = search(&folder, &sections, &["weather"]);
    assert!(text.out.starts_with("mode: keyword\nTOOL"), "{text:?}");
    assert!(text.out.contains("1 of 2 visible tools"), "{text:?}");
}

#[test]
fn search_names_backends_of_callers_credentials() {
    let (folder, own) = (Folder::new(), McpBackend::stateless(&["x"]));
    let (shared, own_url) = (backend(), own.url());
    let text = format!(
        "name: x\noptimizer: {{}}\n\
         incomingAuth: {{type: oidc, oidc: {{issuer: \"https://idp.test\", clientId: c, audience: a, resource: \"http://localhost/mcp\"}}}}\n\
         outgoingAuth: {{source: inline, backends: {{own: {{type: token_exchange, tokenExchange: {{tokenUrl: \"https://idp.test/token\"}}}}}}}}\n\
         backends:\n- {{name: a, url: \"{}\", transport: streamable-http}}\n- {{name: own, url: \"{own_url}\", transport: streamable-http}}\n",
        shared.url()
    );
    let file = folder.write("vmcp.yaml", &text);
    let search = |options: &[&str]| vmcp(&[&["tools", "search", "-c", &file], options].concat());
    let json = found(&search(&["write a file", "-o", "json"]));
    assert_eq!((&json["notSearched"], names(&json)[0]), (&json!(["own"]), "a_write_file"));
    let text = search(&["write a file"]);
    assert!(text.out.contains("backend own is not searched: its tools depend"), "{text:?}");
}

#[test]
fn search_tells_ranks_by_meaning_and_errors() {
    let (folder, service) = (Folder::new(), EmbeddingServer::new().start());
    let optimizer = json!({"embeddingService": service.url()});
    let sections = format!("incomingAuth: {{type: anonymous}}\noptimizer: {optimizer}");
    let umbrella = found(&search(&folder, &sections, &["umbrella", "-o", "json"]));
    assert_eq!(umbrella["result"]["search"], json!({"mode": "hybrid"}));
    let first = &umbrella["tools"][0];
    assert_eq!((&first["name"], &first["semantic"]["rank"]), (&json!("a_get_forecast"), &json!(1)));
    service.server().set(|it| it.status = http::StatusCode::INTERNAL_SERVER_ERROR);
    let text = search(&folder, &sections, &["read a file"]);
    assert!(
        text.out.contains("mode: keyword (the embedding service responded with status 500"),
        "{text:?}"
    );
}

#[test]
fn claims_without_subject_name_own_options() {
    let folder = Folder::new();
    let claims = folder.write("claims.json", "{}");
    let sections = "incomingAuth: {type: anonymous}\noptimizer: {}";
    let ended = search(&folder, sections, &["x", "--as", &claims]);
    assert_eq!(ended.code, 2, "{ended:?}");
    assert!(
        ended.err.contains("leave out --as") && !ended.err.contains("--anonymous"),
        "{ended:?}"
    );
}

#[test]
fn search_requires_optimizer() {
    let folder = Folder::new();
    let none = search(&folder, "incomingAuth: {type: anonymous}", &["x"]);
    assert_eq!(none.code, 1, "{none:?}");
    assert!(none.err.contains("add \"optimizer: {}\""), "{none:?}");
}

//! The optimizer through real clients: a server of 200 tools that shows two.

use serde_json::{Value, json};
use vmcp_test_support::McpBackend;
use vmcp_test_support::mcp_backend::Protocol;
use vmcp_tests::authority::Authority;
use vmcp_tests::counterparts::{
    CallPlan, CallResult, CallsReport, Client, Era, Gateway, PlannedCall, skipped,
};

const AUDIENCE: &str = "http://localhost/mcp";

/// Subjects of the tools, each with four actions.
const SUBJECTS: usize = 50;

const ACTIONS: [&str; 4] = ["create", "read", "update", "delete"];

/// Clients and generations with a script of calls.
const CELLS: [(Client, Era); 4] = [
    (Client::PythonMcp, Era::Legacy),
    (Client::PythonMcp, Era::Modern),
    (Client::TypeScript2, Era::Legacy),
    (Client::TypeScript2, Era::Modern),
];

/// Starts a backend of 200 tools. Each returns its name and arguments as structured content.
fn backend() -> McpBackend {
    let names = (0..SUBJECTS).flat_map(|n| ACTIONS.map(|action| format!("{action}_ledger{n}")));
    let mut builder = McpBackend::builder(Protocol::Both).name("office");
    let mut definitions = Vec::new();
    for name in names {
        let (action, subject) = name.split_once('_').unwrap();
        let definition = json!({
            "name": name, "description": format!("Can {action} an entry of {subject}."),
            "inputSchema": {"type": "object", "properties": {"id": {"type": "integer"}}},
            "outputSchema": {"type": "object", "required": ["tool"], "properties": {
                "tool": {"type": "string"}, "arguments": {"type": "object"}}},
        });
        definitions.push(definition.to_string());
        builder = builder.on_tool(&name, |call| {
            let tool = call.params()["name"].clone();
            let structured = json!({"tool": tool, "arguments": call.params()["arguments"]});
            let text = json!({"type": "text", "text": structured.to_string()});
            call.succeed(&json!({"content": [text], "structuredContent": structured}));
        });
    }
    builder.items("tools", definitions).start()
}

/// Calls that find and call a tool of one subject, and one that the policies hide from bob.
fn plan(token: String) -> CallPlan {
    let call = |tool: &str| {
        let arguments = json!({"tool_name": tool, "parameters": {"id": 3}});
        PlannedCall::new("call_tool", arguments)
    };
    let find = |query: &str| PlannedCall::new("find_tool", json!({"tool_description": query}));
    let calls = vec![
        find("read an entry of ledger7"),
        call("office_read_ledger7"),
        find("delete an entry of ledger7"),
        call("office_delete_ledger7"),
        PlannedCall::new("office_read_ledger7", json!({"id": 4})),
    ];
    CallPlan { calls, token: Some(token) }
}

/// Returns the names of the found tools. The text of the result says the same as its structured content.
fn found(result: &CallResult) -> Vec<String> {
    let text: Value = serde_json::from_str(&result.text).unwrap();
    assert_eq!(text, result.structured, "{result:?}");
    let tools = result.structured["tools"].as_array().unwrap();
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

fn assert_sees_two_tools(report: &CallsReport, who: &str) {
    let mut tools = report.tools.clone();
    tools.sort();
    assert_eq!(tools, ["call_tool", "find_tool"], "{who}");
}

#[tokio::test(flavor = "multi_thread")]
async fn sdk_clients_find_and_call_tools() {
    if skipped() {
        return;
    }
    let (authority, backend) = (Authority::start().unwrap(), backend());
    let policies = json!([
        "permit(principal, action, resource);",
        r#"forbid(principal == Client::"bob", action, resource) when { resource.name like "*delete_*" };"#,
    ]);
    let yaml = format!(
        "name: tests\n{}  authz: {{type: cedar, policies: {policies}}}\nbackends:\n\
         - {{name: office, url: \"{}\", transport: streamable-http}}\noptimizer: {{}}\n",
        authority.section(AUDIENCE),
        backend.url(),
    );
    let gateway = Gateway::start(&yaml).await.unwrap();
    for (client, era) in CELLS {
        for user in ["ann", "bob"] {
            let who = format!("{user} with {client:?} in era {}", era.name());
            let plan = plan(authority.token(user, AUDIENCE, 1));
            let report = client.call(gateway.url(), era, &plan).await.unwrap();
            assert_sees_two_tools(&report, &who);
            let [read, called, delete, deleted, direct] = &report.results[..] else {
                panic!("{who}: {report:?}")
            };
            assert_eq!(found(read)[0], "office_read_ledger7", "{who}");
            let expected = json!({"tool": "read_ledger7", "arguments": {"id": 3}});
            assert_eq!(called.structured, expected, "{who}: {called:?}");
            assert_eq!(called.text, expected.to_string(), "{who}");
            assert_eq!(direct.structured["arguments"]["id"], 4, "{who}: {direct:?}");
            if user == "ann" {
                assert_eq!(found(delete)[0], "office_delete_ledger7", "{who}");
                assert_eq!(deleted.structured["tool"], "delete_ledger7", "{who}: {deleted:?}");
            } else {
                let found = found(delete);
                assert!(!found.iter().any(|name| name.contains("delete")), "{who}: {found:?}");
                let error = deleted.error.as_deref();
                assert!(error.unwrap().contains("unknown tool"), "{who}: {deleted:?}");
            }
        }
    }
    let calls = backend.messages().into_iter().filter(|it| it["method"] == "tools/call");
    let deleted = calls.filter(|call| call["params"]["name"] == "delete_ledger7").count();
    assert_eq!(deleted, CELLS.len(), "ann's calls alone");
}

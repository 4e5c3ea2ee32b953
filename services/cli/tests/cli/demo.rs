use serde_json::{Value, json};

use crate::mcp::{Stateful, Stateless, text};
use crate::program::{Folder, ServerProcess, vmcp};

const TOOLS: [&str; 7] = [
    "clock_add_days",
    "clock_now",
    "dice_roll",
    "notes_add_note",
    "notes_delete_note",
    "notes_list_notes",
    "notes_rewrite_note",
];

#[test]
fn prints_connection_help_and_valid_configuration() {
    let (demo, port, printed) = ServerProcess::demo();
    let url = format!("http://127.0.0.1:{port}/mcp");
    for line in [
        format!("claude mcp add --transport http vmcp {url}"),
        format!(r#"{{"mcpServers": {{"vmcp": {{"url": "{url}"}}}}}}"#),
        format!(r#"{{"servers": {{"vmcp": {{"type": "http", "url": "{url}"}}}}}}"#),
        format!(
            "npx @modelcontextprotocol/inspector --cli {url} --transport http --method tools/list"
        ),
    ] {
        assert!(printed.contains(&line), "{line}\n{printed}");
    }
    let start = printed.find("name: demo").unwrap();
    let end = printed.find("\nCtrl-C").unwrap();
    let folder = Folder::new();
    let file = folder.write("demo.yaml", &printed[start..end]);
    let validated = vmcp(&["validate", "--connect", "-c", &file, "-o", "json"]);
    assert_eq!(validated.code, 0, "{validated:?}");
    let found: Value = serde_json::from_str(&validated.out).unwrap();
    let revisions = ["clock", "dice", "notes"].map(|name| {
        let backends = found["backends"].as_array().unwrap().iter();
        backends.clone().find(|backend| backend["name"] == name).unwrap()["revision"].clone()
    });
    assert_eq!(revisions, ["2026-07-28", "2026-07-28", "2025-11-25"]);
    assert_eq!(demo.stop().0, Some(0));
}

#[test]
fn stateful_client_uses_tools_of_every_backend() {
    let (_demo, port, _) = ServerProcess::demo();
    let client = Stateful::open(port);
    assert_eq!(client.welcome["protocolVersion"], "2025-11-25");
    assert_eq!(client.tools(), TOOLS);
    let date = client.call("clock_add_days", &json!({"date": "2026-07-28", "days": 40}));
    assert_eq!(date["result"]["structuredContent"]["date"], "2026-09-06");
    let kept = client.call("notes_add_note", &json!({"text": "milk"}));
    assert_eq!(text(&kept), "added note 1 as note://1");
    let read = client.ask("resources/read", &json!({"uri": "note://1"}));
    assert_eq!(read["result"]["contents"][0]["text"], "milk");
    let fortune = json!({"name": "dice_fortune", "arguments": {"question": "tea?"}});
    let prompt = client.ask("prompts/get", &fortune);
    assert!(prompt["result"]["messages"][0]["content"]["text"].as_str().unwrap().contains("tea?"));
}

#[test]
fn progress_precedes_result() {
    let (_demo, port, _) = ServerProcess::demo();
    let client = Stateful::open(port);
    let mut rolling = client.send(
        "tools/call",
        &json!({
            "name": "dice_roll",
            "arguments": {"dice": 2, "sides": 6},
            "_meta": {"progressToken": "t"},
        }),
    );
    for done in [1.0, 2.0] {
        let progress = rolling.event();
        assert_eq!(progress["params"]["progressToken"], "t");
        assert_eq!(progress["params"]["progress"].as_f64(), Some(done));
    }
    assert!(text(&rolling.message()).contains(" = "));
}

#[test]
fn stateful_client_answers_server_request_in_session() {
    let (_demo, port, _) = ServerProcess::demo();
    let client = Stateful::open(port);
    client.call("notes_add_note", &json!({"text": "milk"}));
    let call = json!({"name": "notes_delete_note", "arguments": {"number": 1}});
    let mut deleting = client.send("tools/call", &call);
    let question = deleting.event();
    assert_eq!(question["method"], "elicitation/create");
    let answer = json!({
        "jsonrpc": "2.0",
        "id": question["id"],
        "result": {"action": "accept", "content": {"sure": true}},
    });
    assert_eq!(client.post(&answer.to_string()).status, 202);
    assert_eq!(text(&deleting.message()), "deleted note 1");
}

#[test]
fn stateless_client_calls_tools_and_retries_with_input() {
    let (_demo, port, _) = ServerProcess::demo();
    let client = Stateless(port);
    let found = client.ask("server/discover", &json!({}));
    assert_eq!(found["result"]["supportedVersions"][0], "2026-07-28");
    assert_eq!(client.tools(), TOOLS);
    let now = client.call("clock_now", &json!({}));
    assert!(now["result"]["structuredContent"]["time"].as_str().unwrap().ends_with('Z'));
    let rolled = client.call("dice_roll", &json!({"dice": 1, "sides": 2}));
    assert!(text(&rolled).contains(" = "));
    client.call("notes_add_note", &json!({"text": "milk"}));
    let mut call = json!({"name": "notes_delete_note", "arguments": {"number": 1}});
    let asked = client.ask("tools/call", &call)["result"].clone();
    assert_eq!(asked["resultType"], "input_required");
    let question = asked["inputRequests"].as_object().unwrap().keys().next().unwrap();
    call["requestState"] = asked["requestState"].clone();
    call["inputResponses"] = json!({question: {"action": "accept", "content": {"sure": true}}});
    assert_eq!(text(&client.ask("tools/call", &call)), "deleted note 1");
    assert_eq!(text(&client.call("notes_list_notes", &json!({}))), "there are no notes");
}

#[test]
fn subscribed_client_receives_change_notifications() {
    let (_demo, port, _) = ServerProcess::demo();
    let client = Stateful::open(port);
    let mut standing = client.listen();
    client.call("notes_add_note", &json!({"text": "milk"}));
    let note = json!({"uri": "note://1"});
    assert!(client.ask("resources/subscribe", &note).get("result").is_some());
    client.call("notes_rewrite_note", &json!({"number": 1, "text": "tea"}));
    let mut heard = Vec::new();
    while heard.len() < 2 {
        let event = standing.event();
        let method = event["method"].as_str().unwrap().to_owned();
        if !heard.contains(&method) {
            heard.push(method);
        }
    }
    heard.sort();
    assert_eq!(heard, ["notifications/resources/list_changed", "notifications/resources/updated"]);
}

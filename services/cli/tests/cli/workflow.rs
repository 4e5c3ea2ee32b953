//! `vmcp workflow`, and composite tools in other commands.

use serde_json::{Value, json};
use vmcp_test_support::McpBackend;
use vmcp_test_support::mcp_backend::Protocol;

use crate::program::{CommandOutput, Folder, vmcp};

/// A configuration with these composite tools in front of the backend `a`.
struct TestEnv {
    folder: Folder,
    file: String,
    backend: McpBackend,
}

impl TestEnv {
    fn new(tools: &Value) -> Self {
        Self::with(tools, "incomingAuth: {type: anonymous}")
    }

    fn with(tools: &Value, section: &str) -> Self {
        let echo = json!({"name": "echo", "annotations": {"readOnlyHint": true},
            "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}}});
        let write = json!({"name": "write", "inputSchema": {"type": "object"}});
        let backend = McpBackend::builder(Protocol::Stateless)
            .items("tools", [echo, write].map(|tool| tool.to_string()))
            .on_tool("echo", |call| {
                let arguments = call.params()["arguments"].clone();
                call.succeed(&json!({"content": [], "structuredContent": arguments}));
            })
            .start();
        let folder = Folder::new();
        let text = format!(
            "name: x\n{section}\nbackends: [{{name: a, url: \"{}\", transport: streamable-http}}]\n\
             compositeTools: {tools}\n",
            backend.url()
        );
        let file = folder.write("vmcp.yaml", &text);
        Self { folder, file, backend }
    }

    fn run(&self, arguments: &[&str]) -> CommandOutput {
        let (command, options) = arguments.split_at(2);
        vmcp(&[command, &["-c", &self.file], options].concat())
    }

    fn json(&self, code: i32, arguments: &[&str]) -> Value {
        let ended = self.run(&[arguments, &["-o", "json"]].concat());
        assert_eq!(ended.code, code, "{ended:?}");
        serde_json::from_str(&ended.out).unwrap_or_else(|error| panic!("{error}: {ended:?}"))
    }
}

/// A tool with a question between two calls.
fn report() -> Value {
    json!([{"name": "report", "timeout": "1m", "steps": [
        {"id": "ask", "type": "elicitation", "message": "How many of {{.steps.read.output.text}}?",
         "dependsOn": ["read"],
         "schema": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}},
        {"id": "read", "tool": "a.echo", "arguments": {"text": "{{.params.id}}"}},
        {"id": "write", "tool": "a.echo", "dependsOn": ["ask", "read"],
         "arguments": {"text": "{{.steps.read.output.text}}: {{.steps.ask.output.content.n}}"}},
    ], "parameters": {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}}])
}

#[test]
fn check_shows_steps_and_critical_path() {
    let env = TestEnv::new(&report());
    let ended = env.run(&["workflow", "check"]);
    assert_eq!((ended.code, &*ended.err), (0, ""), "{ended:?}");
    for line in
        ["report (timeout 60s)", "read   tool         a.echo", "critical path: read, ask, write"]
    {
        assert!(ended.out.contains(line), "{line}: {}", ended.out);
    }
    let found = env.json(0, &["workflow", "check", "--connect", "--tool", "report"]);
    let report = &found["workflows"][0];
    assert_eq!(report["order"], json!(["read", "ask", "write"]));
    assert_eq!(report["criticalPath"], report["order"]);
    let last = json!({"id": "write", "type": "tool", "tool": "a.echo",
        "dependsOn": ["ask", "read"], "timeoutSeconds": 300.0});
    assert_eq!(report["steps"][2], last);
    assert_eq!((&report["findings"], &found["valid"]), (&json!([]), &json!(true)));
    let ended = env.run(&["workflow", "check", "--tool", "reports"]);
    assert!(ended.code == 2 && ended.err.contains("did you mean report?"), "{ended:?}");
}

#[test]
fn check_reports_mistakes_and_findings() {
    let step =
        |id: &str, tool: &str, retry: Value| json!([{"id": id, "tool": tool, "onError": retry}]);
    let retry = json!({"action": "retry", "retryCount": 1});
    let env = TestEnv::new(&json!([
        {"name": "absent", "steps": step("s", "a.absent", json!({}))},
        {"name": "again", "steps": step("s", "a.write", retry)},
    ]));
    assert_eq!(env.run(&["workflow", "check"]).code, 0);
    let found = env.json(1, &["workflow", "check", "--connect"]);
    let [absent, again] = [0, 1].map(|number| &found["workflows"][number]);
    assert_eq!(absent["findings"][0]["severity"], "error");
    assert_eq!(absent["findings"][0]["path"], "compositeTools[0].steps[0].tool");
    assert!(absent["hiddenReason"].as_str().unwrap().contains("a.absent"), "{absent}");
    assert_eq!(again["findings"][0]["severity"], "warning");
    assert_eq!(again["findings"][0]["path"], "compositeTools[1].steps[0].onError.action");
    assert_eq!(again["hiddenReason"], Value::Null);

    let broken = json!([{"id": "s", "tool": "a.echo", "arguments": {"text": "{{.steps.later"}}]);
    let env = TestEnv::new(&json!([{"name": "broken", "steps": broken}]));
    let found = env.json(1, &["workflow", "check"]);
    let path = "compositeTools[0].steps[0].arguments.text";
    assert_eq!((&found["valid"], &found["mistakes"][0]["path"]), (&json!(false), &json!(path)));
}

#[test]
fn check_knows_backends_without_requests() {
    let step = |tool: &str| json!([{"id": "s", "tool": tool}]);
    let env = TestEnv::new(&json!([
        {"name": "typo", "steps": step("aa.echo")},
        {"name": "fine", "steps": step("a_echo")},
    ]));
    let found = env.json(1, &["workflow", "check"]);
    let finding = &found["workflows"][0]["findings"][0];
    assert_eq!(finding["path"], "compositeTools[0].steps[0].tool");
    assert_eq!(finding["message"], "no backend has the tool \"aa.echo\"");
    assert_eq!(found["workflows"][1]["findings"], json!([]));
    let ended = vmcp(&["validate", "-c", &env.file]);
    let warning = "warning: compositeTools[0].steps[0].tool: no backend can have the tool \"aa.echo\": \
                   name it workload.tool_name (did you mean a.echo?)";
    assert!(ended.code == 0 && ended.err.contains(warning), "{ended:?}");

    let calling = TestEnv::new(&json!([
        {"name": "inner", "steps": step("a.echo")},
        {"name": "outer", "steps": step("inner")},
    ]));
    let ended = vmcp(&["validate", "-c", &calling.file]);
    let error = "compositeTools[1].steps[0].tool: found \"inner\", which is a composite tool; \
                 allowed: a tool of a backend: composite tools call no others";
    assert!(ended.code == 1 && ended.err.contains(error), "{ended:?}");
}

#[test]
fn run_shows_progress_and_uses_answers() {
    let env = TestEnv::new(&report());
    let run = ["workflow", "run", "--tool", "report", "--arguments", r#"{"id": "seven"}"#];
    let ended = env.run(&[&run[..], &["--answers", r#"{"ask": {"n": 7}}"#]].concat());
    assert_eq!((ended.code, &*ended.out), (0, "{\"text\":\"seven: 7\"}\n"), "{ended:?}");
    for line in ["[1/3] step read: completed", "[3/3] step write: completed"] {
        assert!(ended.err.contains(line), "{line}: {}", ended.err);
    }
    // Without a terminal, a question needs an answer.
    let ended = env.run(&run);
    assert!(ended.code == 1 && ended.err.contains("How many of seven?"), "{ended:?}");
    assert!(ended.err.contains("--answers '{\"ask\": {...}}'"), "{ended:?}");
    let ended = env.run(&[&run[..], &["--answers", r#"{"ask": "decline"}"#]].concat());
    assert!(ended.code == 1 && ended.out.contains("the user declined"), "{ended:?}");
    let answers = r#"{"ask": {"n": 1}}"#;
    let found = env.json(0, &[&run[..], &["--answers", answers]].concat());
    assert_eq!(found["result"]["structuredContent"], json!({"text": "seven: 1"}));
    assert_eq!(found["progress"].as_array().unwrap().len(), 3);
    let ended = env.run(&["workflow", "run", "--tool", "report"]);
    assert!(ended.code == 1 && ended.err.contains("(-32602)"), "{ended:?}");
}

#[test]
fn answers_to_unknown_steps_are_rejected() {
    let env = TestEnv::new(&report());
    let run = ["workflow", "run", "--tool", "report", "--arguments", r#"{"id": "seven"}"#];
    for extra in [&[][..], &["--dry-run"]] {
        let answers = ["--answers", r#"{"ask": {"n": 7}, "other": "decline"}"#];
        let ended = env.run(&[&run[..], &answers, extra].concat());
        assert!(ended.code == 2 && ended.err.contains("the step \"other\""), "{ended:?}");
        assert!(ended.err.contains("ask, read, write"), "{ended:?}");
    }
    assert!(env.backend.messages().is_empty());
}

#[test]
fn answers_to_steps_without_question_are_rejected() {
    let env = TestEnv::new(&report());
    let run = ["workflow", "run", "--tool", "report", "--arguments", r#"{"id": "seven"}"#];
    let ended = env.run(&[&run[..], &["--answers", r#"{"read": {"n": 7}}"#]].concat());
    let message = "the step \"read\", which asks nothing; the steps of report that ask are: ask";
    assert!(ended.code == 2 && ended.err.contains(message), "{ended:?}");
    assert!(env.backend.messages().is_empty());
}

#[test]
fn dry_run_calls_no_tool() {
    let env = TestEnv::new(&report());
    let run = [
        "workflow",
        "run",
        "--tool",
        "report",
        "--arguments",
        r#"{"id": "seven"}"#,
        "--dry-run",
        "--answers",
        r#"{"ask": {"n": 7}}"#,
        "--results",
    ];
    let found =
        env.json(0, &[&run[..], &[r#"{"read": {"text": "x"}, "write": {"done": true}}"#]].concat());
    assert_eq!((&found["output"], &found["error"]), (&json!({"done": true}), &Value::Null));
    let [read, write] = [0, 1].map(|number| &found["calls"][number]);
    let first = json!({"step": "read", "iteration": null, "tool": "a.echo", "arguments": {"text": "seven"}});
    assert_eq!(read, &first);
    assert_eq!(write["arguments"], json!({"text": "x: 7"}));
    let ended = env.run(&[&run[..], &[r#"{"other": {}}"#]].concat());
    assert!(ended.code == 2 && ended.err.contains("ask, read, write"), "{ended:?}");
    assert!(env.backend.messages().is_empty());
}

#[test]
fn inspect_and_explain_know_composite_tools() {
    let policies = "incomingAuth:\n authz:\n  type: cedar\n  policies:\n  \
        - 'permit(principal, action, resource == Tool::\"reads\");'\n  \
        - 'permit(principal == Client::\"ann\", action, resource == Tool::\"a_echo\");'\n type: local\n";
    let tools = json!([
        {"name": "reads", "steps": [{"id": "s", "tool": "a.echo"}]},
        {"name": "absent", "steps": [{"id": "s", "tool": "a.absent"}]},
    ]);
    let env = TestEnv::with(&tools, policies);
    let ended = vmcp(&["inspect", "-c", &env.file]);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(ended.out.contains("compositeTools") && ended.out.contains("a.absent"), "{ended:?}");
    let ann = env.folder.write("ann.json", r#"{"sub": "ann"}"#);
    let bob = env.folder.write("bob.json", r#"{"sub": "bob"}"#);
    for (claims, verdict, step) in
        [(&ann, "permitted", Value::Null), (&bob, "hidden", json!("a_echo"))]
    {
        let found = env.json(0, &["authz", "explain", "--as", claims, "--tool", "reads"]);
        assert_eq!((&found["verdict"], &found["hiddenStep"]), (&json!(verdict), &step), "{found}");
        let visible = found["visibleItems"]["tools"]["visible"].as_array().unwrap();
        assert_eq!(visible.contains(&json!("reads")), verdict == "permitted", "{found}");
    }
    let arguments = "each step of the composite tool is authorized with its own arguments";
    let ended = env.run(&["authz", "explain", "--as", &ann, "--tool", "reads"]);
    assert!(ended.out.contains(arguments) && !ended.out.contains("offline"), "{ended:?}");
    let offline = ["authz", "explain", "--as", &bob, "--tool", "reads", "--offline"];
    let ended = env.run(&offline);
    assert!(ended.out.contains("not checked offline"), "{ended:?}");
    assert_eq!(env.json(0, &offline)["stepNotes"].as_array().unwrap().len(), 2);
    let ended = env.run(&["authz", "explain", "--as", &bob, "--tool", "absent"]);
    assert!(ended.code == 2 && ended.err.contains("a.absent"), "{ended:?}");
}

#[test]
fn readme_example_checks_and_runs() {
    let readme = include_str!("../../README.md");
    let blocks = readme.split("```yaml\n").skip(1).map(|block| block.split("```").next().unwrap());
    let example = blocks.into_iter().find(|block| block.contains("compositeTools:")).unwrap();
    let tools = ["read_issue", "add_label", "comment"];
    let tracker = McpBackend::builder(Protocol::Stateful)
        .tools(&tools)
        .on_tool("read_issue", |call| {
            let issue = json!({"state": "open", "title": "Broken"});
            call.succeed(&json!({"content": [], "structuredContent": issue}));
        })
        .on_tool("comment", |call| {
            let url = json!({"url": "https://tracker.example.com/7#1"});
            call.succeed(&json!({"content": [], "structuredContent": url}));
        })
        .start();
    let folder = Folder::new();
    let text = example.replace("https://tracker.example.com/mcp", &tracker.url());
    let file = folder.write("vmcp.yaml", &text);
    let checked = vmcp(&["workflow", "check", "-c", &file]);
    let shown = readme.split("$ vmcp workflow check\n").nth(1).unwrap().split("$ ").next().unwrap();
    assert_eq!((checked.code, &*checked.out), (0, shown), "{checked:?}");
    let run = ["workflow", "run", "-c", &file, "--tool", "triage", "--arguments", r#"{"id": 7}"#];
    let answers = ["--answers", r#"{"ask": {"comment": "thanks"}}"#];
    let ended = vmcp(&[&run[..], &answers].concat());
    let output = "{\"labels\":1,\"url\":\"https://tracker.example.com/7#1\"}\n";
    assert_eq!((ended.code, &*ended.out), (0, output), "{ended:?}");
    let declined = vmcp(&[&run[..], &["--answers", r#"{"ask": "decline"}"#]].concat());
    assert_eq!(
        (declined.code, &*declined.out),
        (0, "{\"labels\":0,\"url\":\"\"}\n"),
        "{declined:?}"
    );
    let results = r#"{"read": {"state": "closed", "title": "x"}, "comment": {"url": "u"}}"#;
    let dry = vmcp(&[&run[..], &["--dry-run", "--results", results]].concat());
    assert_eq!(dry.code, 0, "{dry:?}");
    assert!(
        dry.out.contains("\"url\": \"u\"") && dry.err.contains("calls tracker.add_label"),
        "{dry:?}"
    );
}

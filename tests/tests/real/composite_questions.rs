//! Questions of composite tools, answered through the SDKs.
//!
//! In the older generation they are server requests. In the newer one, the SDKs answer the rounds of `input_required` by
//! themselves, but none of them asks again after an answer that the gateway refuses: the call fails with the reason. There,
//! the client program answers the rounds itself, which version 2 of the TypeScript SDK and the Python SDK allow. Version 1 of
//! the TypeScript SDK has the older generation alone.

use serde_json::{Value, json};
use vmcp_test_support::McpBackend;
use vmcp_test_support::mcp_backend::Protocol;
use vmcp_tests::counterparts::{CallPlan, CallResult, Client, Era, Gateway, PlannedCall, skipped};

const CELLS: [(Client, Era); 5] = [
    (Client::PythonMcp, Era::Legacy),
    (Client::PythonMcp, Era::Modern),
    (Client::TypeScript1, Era::Legacy),
    (Client::TypeScript2, Era::Legacy),
    (Client::TypeScript2, Era::Modern),
];

/// Starts a backend whose tool `echo` returns its arguments.
fn echo(protocol: Protocol) -> McpBackend {
    let tool = json!({"name": "echo", "inputSchema": {"type": "object"}});
    McpBackend::builder(protocol)
        .items("tools", [tool.to_string()])
        .on_tool("echo", |call| {
            let arguments = call.params()["arguments"].clone();
            call.succeed(&json!({"content": [], "structuredContent": arguments}));
        })
        .start()
}

/// A workflow that asks before it acts, and one with two questions at the same time.
fn workflows() -> Value {
    let number = |id: &str| {
        json!({"id": id, "type": "elicitation", "message": format!("{id}?"),
            "schema": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}})
    };
    json!([
        {"name": "close", "steps": [
            {"id": "ask", "type": "elicitation", "message": "Close {{.params.id}}?",
             "schema": {"type": "object", "properties": {"why": {"type": "string", "minLength": 3}},
                "required": ["why"]},
             "onDecline": {"action": "skip_remaining"}, "onCancel": {"action": "continue"},
             "defaultResults": {"content": {}}},
            {"id": "act", "tool": "a.echo", "dependsOn": ["ask"], "arguments": {
                "did": "{{.steps.ask.output.action}}{{if .steps.ask.output.content}} {{.steps.ask.output.content.why}}{{end}}",
            }},
         ],
         "parameters": {"type": "object", "properties": {"id": {"type": "integer"}}}},
        {"name": "survey", "steps": [number("one"), number("two"),
            {"id": "end", "tool": "a.echo", "dependsOn": ["one", "two"], "arguments": {
                "sum": "{{.steps.one.output.content.n}} and {{.steps.two.output.content.n}}"}},
        ]},
    ])
}

fn accept(content: &Value) -> Value {
    json!({"action": "accept", "content": content})
}

/// Returns the calls. In the newer generation, the last but one is answered by the client program.
fn plan(era: Era) -> CallPlan {
    let close = || PlannedCall::new("close", json!({"id": 7}));
    let answered = |result| close().answer("Close 7?", result);
    let wrong = answered(accept(&json!({"why": "no"})));
    let survey = PlannedCall::new("survey", json!({}))
        .answer("one?", accept(&json!({"n": 1})))
        .answer("two?", accept(&json!({"n": 2})));
    let right = accept(&json!({"why": "done"}));
    let calls = vec![
        answered(right.clone()),
        answered(json!({"action": "decline"})),
        answered(json!({"action": "cancel"})),
        survey,
        PlannedCall {
            manual: era == Era::Modern,
            ..wrong.clone().answer("Close 7?", right.clone())
        },
        // In the newer generation, the SDK gives up.
        wrong.answer("Close 7?", right),
    ];
    CallPlan { calls, token: None }
}

fn assert_output(result: &CallResult, expected: &Value, who: &str) {
    assert_eq!((&result.structured, &result.error), (expected, &None), "{who}: {result:?}");
    assert_eq!(result.text, expected.to_string(), "{who}");
    assert!(!result.failed, "{who}");
}

/// Asserts that an answer was refused for its content, and a second one was taken.
fn assert_asked_twice(result: &CallResult, era: Era, who: &str) {
    assert_output(result, &json!({"did": "accept done"}), who);
    let [first, second] = &result.asked[..] else { panic!("{who}: {result:?}") };
    assert_eq!(first, "Close 7?");
    if era == Era::Legacy {
        assert!(
            second.starts_with("Close 7?") && second.contains("content.why"),
            "{who}: {second}"
        );
    } else {
        assert_eq!(second, "Close 7?", "{who}");
        assert!(result.refused.len() == 1 && result.refused[0].contains("content.why"), "{who}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sdk_clients_answer_questions_of_composites() {
    if skipped() {
        return;
    }
    for protocol in [Protocol::Stateful, Protocol::Stateless] {
        let backend = echo(protocol);
        let yaml = format!(
            "name: tests\nincomingAuth: {{type: anonymous}}\nbackends:\n\
             - {{name: a, url: \"{}\", transport: streamable-http}}\ncompositeTools: {}\n",
            backend.url(),
            workflows()
        );
        let gateway = Gateway::start(&yaml).await.unwrap();
        for (client, era) in CELLS {
            let who = format!("{client:?} in era {}, {protocol:?} backend", era.name());
            let report = client.call(gateway.url(), era, &plan(era)).await.unwrap();
            let [accepted, declined, cancelled, survey, corrected, automatic] = &report.results[..]
            else {
                panic!("{who}: {report:?}")
            };
            assert_output(accepted, &json!({"did": "accept done"}), &who);
            assert_output(declined, &json!({"action": "decline", "skipped": true}), &who);
            assert_output(cancelled, &json!({"did": "cancel"}), &who);
            let mut asked = survey.asked.clone();
            asked.sort();
            assert_eq!(asked, ["one?", "two?"], "{who}");
            assert_output(survey, &json!({"sum": "1 and 2"}), &who);
            assert_asked_twice(corrected, era, &who);
            if era == Era::Modern {
                let error = automatic.error.as_deref().unwrap_or_default();
                assert!(error.contains("content.why"), "{who}: {automatic:?}");
            }
        }
    }
}

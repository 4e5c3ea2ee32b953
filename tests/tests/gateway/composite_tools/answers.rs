//! Questions to stateless clients, as results of type `input_required`.

use serde_json::{Value, json};
use vmcp_test_support::mcp_backend::Protocol;
use vmcp_tests::caller::Caller;

use super::{backend, calls, start};

/// A workflow with two questions at the same time, and one after them.
fn survey() -> Value {
    let ask = |id: &str, depends_on: &[&str]| {
        json!({"id": id, "type": "elicitation", "message": format!("{id}?"), "dependsOn": depends_on,
            "schema": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}})
    };
    let numbers = ["one", "two", "three"].map(|id| format!("{{{{.steps.{id}.output.content.n}}}}"));
    let all = numbers.join(" ");
    json!([{"name": "survey", "steps": [
        {"id": "begin", "tool": "a.echo", "arguments": {"text": "begin"}},
        ask("one", &["begin"]),
        ask("two", &["begin"]),
        {"id": "between", "tool": "a.echo", "dependsOn": ["one"], "arguments": {"text": "one is {{.steps.one.output.content.n}}"}},
        ask("three", &["one", "two"]),
        {"id": "end", "tool": "a.echo", "dependsOn": ["three"],
            "arguments": {"text": all}},
    ]}])
}

fn accept(n: impl Into<Value>) -> Value {
    json!({"action": "accept", "content": {"n": n.into()}})
}

/// Sends the call with these answers to the round of `state`.
async fn round(caller: &mut Caller, state: &Value, answers: Value) -> Value {
    let mut params = json!({"name": "survey", "arguments": {}});
    if !state.is_null() {
        params["requestState"] = state.clone();
        params["inputResponses"] = answers;
    }
    caller.ask("tools/call", params).await.unwrap()
}

/// Asserts that these questions are open, and returns the state.
fn open(answer: &Value, questions: &[&str]) -> Value {
    let result = &answer["result"];
    assert_eq!(result["resultType"], "input_required", "{answer}");
    let requests = result["inputRequests"].as_object().unwrap();
    let mut asked: Vec<_> = requests.keys().collect();
    asked.sort();
    assert_eq!(asked, questions, "{answer}");
    for request in requests.values() {
        assert_eq!(request["method"], "elicitation/create");
        assert_eq!(request["params"]["requestedSchema"]["required"], json!(["n"]));
    }
    result["requestState"].clone()
}

fn is_invalid(answer: &Value, about: &str) {
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    assert!(answer["error"]["message"].as_str().unwrap().contains(about), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn stateless_client_answers_in_rounds() {
    let a = backend("a", Protocol::Stateless).start();
    let gateway = start(&[&a], survey()).await;
    let mut caller = Caller::stateless_with(gateway.url(), json!({"elicitation": {"form": {}}}));
    let asked = round(&mut caller, &Value::Null, Value::Null).await;
    let first = open(&asked, &["one", "two"]);
    // A partial answer stays, and the other question remains.
    let second = open(&round(&mut caller, &first, json!({"one": accept(1)})).await, &["two"]);
    is_invalid(&round(&mut caller, &second, json!({"two": accept("x")})).await, "content.n");
    is_invalid(&round(&mut caller, &second, json!({"other": accept(2)})).await, "other");
    // The question is still open after an invalid answer.
    let third = open(&round(&mut caller, &second, json!({"two": accept(2)})).await, &["three"]);
    // A repetition has the same outcome, other answers are too late.
    let repeated = round(&mut caller, &second, json!({"two": accept(2)})).await;
    open(&repeated, &["three"]);
    is_invalid(&round(&mut caller, &second, json!({"two": accept(3)})).await, "differently");
    let done = round(&mut caller, &third, json!({"three": accept(3)})).await;
    assert_eq!(done["result"]["structuredContent"], json!({"text": "1 2 3"}), "{done}");
    assert_eq!(done["result"]["resultType"], "complete");
    let replayed = round(&mut caller, &third, json!({"three": accept(3)})).await;
    assert_eq!(replayed["result"], done["result"]);
    // Each step ran once.
    let texts: Vec<_> = calls(&a, "echo").into_iter().map(|call| call["text"].clone()).collect();
    assert_eq!(texts, ["begin", "one is 1", "1 2 3"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn state_belongs_to_its_call() {
    let a = backend("a", Protocol::Stateless).start();
    let gateway = start(&[&a], survey()).await;
    let mut caller = Caller::stateless_with(gateway.url(), json!({"elicitation": {"form": {}}}));
    let state = open(&round(&mut caller, &Value::Null, Value::Null).await, &["one", "two"]);
    let answers = json!({"one": accept(1), "two": accept(2)});
    let other = json!({"name": "survey", "arguments": {"x": 1}, "requestState": state,
        "inputResponses": answers});
    is_invalid(&caller.ask("tools/call", other).await.unwrap(), "requestState");
    is_invalid(&round(&mut caller, &json!("made up"), json!({})).await, "requestState");
    is_invalid(&round(&mut caller, &state, json!({"one": {"action": "maybe"}})).await, "one");
    is_invalid(&round(&mut caller, &state, json!([])).await, "inputResponses");
    open(&round(&mut caller, &state, answers).await, &["three"]);
    let declined = round(&mut caller, &state, json!({"one": {"action": "decline"}})).await;
    is_invalid(&declined, "differently");
}

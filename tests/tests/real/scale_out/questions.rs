//! Questions whose answers arrive at another replica than the call.

use futures_util::future::join_all;
use serde_json::{Value, json};
use vmcp_tests::caller::Caller;
use vmcp_tests::counterparts::Gateway;

use super::ledger::TOOLS;
use super::rig::Rig;

/// Questions of each combination of clients and backends.
const QUESTIONS: usize = 25;

/// Counts of the questions of one combination.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Answers {
    /// Answers that another replica took, and that the backend received.
    pub(crate) elsewhere: usize,
    /// Answers that another replica rejected, and that the replica of the call took.
    pub(crate) at_call: usize,
}

/// Asks [`QUESTIONS`] questions for each combination: stateful and stateless clients, first with the stateful backend.
pub(crate) async fn ask_all(rig: &Rig) -> [Answers; 4] {
    let combinations =
        [(true, "stateful"), (true, "stateless"), (false, "stateful"), (false, "stateless")];
    let asking = combinations.map(|(is_stateful, backend)| ask_many(rig, is_stateful, backend));
    join_all(asking).await.try_into().unwrap()
}

async fn ask_many(rig: &Rig, is_stateful: bool, backend: &str) -> Answers {
    let urls: Vec<_> = rig.replicas.iter().map(Gateway::url).collect();
    let capabilities = json!({ "elicitation": { "form": {} } });
    let mut caller = if is_stateful {
        Caller::stateful_with(urls[0], capabilities).await.unwrap()
    } else {
        Caller::stateless_with(urls[0], capabilities)
    };
    let mut answers = Answers::default();
    for number in 0..QUESTIONS {
        let tool = TOOLS[number % TOOLS.len()];
        let key = format!("{tool}-question-{is_stateful}-{backend}-{number}");
        let params = json!({
            "name": format!("{backend}_{tool}"),
            "arguments": { "key": key, "question": true },
        });
        let elsewhere = urls[1 + number % 2];
        let (result, is_elsewhere) = if is_stateful {
            answer_message(&mut caller, elsewhere, params, &key).await
        } else {
            answer_retry(&mut caller, elsewhere, params, &key).await
        };
        let told = &result["structuredContent"];
        assert_eq!((&told["key"], &told["word"]), (&json!(key), &json!(key)), "{result}");
        answers.elsewhere += usize::from(is_elsewhere);
        answers.at_call += usize::from(!is_elsewhere);
    }
    answers
}

fn answer(word: &str) -> Value {
    json!({ "action": "accept", "content": { "word": word } })
}

/// Answers a question on the stream of a call by a message of its own.
async fn answer_message(
    caller: &mut Caller,
    elsewhere: &str,
    params: Value,
    key: &str,
) -> (Value, bool) {
    let mut events = caller.stream("tools/call", params).await.unwrap();
    let question = events.next().await.unwrap().unwrap();
    assert_eq!(question["params"]["message"], key, "{question}");
    let message = json!({ "jsonrpc": "2.0", "id": question["id"], "result": answer(key) });
    let status = caller.at(elsewhere).post(&message).await.unwrap().status.as_u16();
    if status != 202 {
        assert!((400..600).contains(&status) && status != 404, "{status}");
        let here = caller.post(&message).await.unwrap();
        assert_eq!(here.status.as_u16(), 202, "{here:?}");
    }
    let result = events.next().await.unwrap().unwrap()["result"].take();
    (result, status == 202)
}

/// Answers a question by a call with its `requestState`.
async fn answer_retry(
    caller: &mut Caller,
    elsewhere: &str,
    params: Value,
    key: &str,
) -> (Value, bool) {
    let asked = caller.result("tools/call", params.clone()).await.unwrap();
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let requests = asked["inputRequests"].as_object().unwrap();
    let responses: serde_json::Map<_, _> =
        requests.keys().map(|name| (name.clone(), answer(key))).collect();
    let mut retry = params;
    retry["inputResponses"] = Value::Object(responses);
    retry["requestState"] = asked["requestState"].clone();
    let mut there = caller.at(elsewhere).ask("tools/call", retry.clone()).await.unwrap();
    if there["result"].is_object() {
        return (there["result"].take(), true);
    }
    assert!(there["error"]["message"].is_string(), "{there}");
    (caller.result("tools/call", retry).await.unwrap(), false)
}

/// Kills a replica with suspended calls, and returns the response to the retry of each at another one, by tool.
pub(crate) async fn retry_lost_calls(rig: &mut Rig) -> Vec<(&'static str, Value)> {
    let capabilities = json!({ "elicitation": { "form": {} } });
    let mut suspended = Vec::new();
    for tool in TOOLS {
        let mut caller = Caller::stateless_with(rig.replicas[0].url(), capabilities.clone());
        let mut params = json!({
            "name": format!("stateful_{tool}"),
            "arguments": { "key": format!("{tool}-lost"), "question": true },
        });
        let asked = caller.result("tools/call", params.clone()).await.unwrap();
        let requests = asked["inputRequests"].as_object().unwrap();
        let responses: serde_json::Map<_, _> =
            requests.keys().map(|name| (name.clone(), answer(tool))).collect();
        params["inputResponses"] = Value::Object(responses);
        params["requestState"] = asked["requestState"].clone();
        suspended.push((tool, caller, params));
    }
    rig.kill(0).await;
    let mut responses = Vec::new();
    for (tool, caller, params) in suspended {
        let mut there = caller.at(rig.replicas[0].url());
        responses.push((tool, there.ask("tools/call", params).await.unwrap()));
    }
    responses
}

//! Steps whose backend asks the client: passed on to the client of a session, otherwise an error of the step.

use super::*;

fn one_step() -> Value {
    json!([{"name": "one", "steps": [{"id": "s", "tool": "be.t"}]}])
}

fn request(method: &str) -> Value {
    json!({"method": method, "params": {"message": "Sure?", "requestedSchema": {"type": "object"}}})
}

/// Asks the client during a call, in the way of the backend's generation. Returns the call if it is still open.
fn ask(wire: Wire, mut call: PendingCall, method: &str) -> Option<PendingCall> {
    if wire == Wire::Stateless {
        let requests = json!({"q": request(method)});
        call.answer(&json!({"resultType": "input_required", "inputRequests": requests}));
        return None;
    }
    let mut message = request(method);
    (message["jsonrpc"], message["id"]) = ("2.0".into(), "q".into());
    call.say(&message);
    Some(call)
}

#[tokio::test(start_paused = true)]
async fn client_of_session_answers_backend_of_step() {
    for wire in [Wire::Stateful, Wire::Stateless, Wire::Sse] {
        let mut scene = scene(Generation::Stateful, wire, &one_step()).await;
        let run = scene.begin(1, "one");
        let call = scene.received().await.pop().unwrap();
        let open = ask(wire, call, "elicitation/create");
        tokio::time::sleep(Duration::from_secs(1)).await;
        let answer = json!({"action": "accept", "content": {"x": 7}});
        assert_eq!(scene.client.reply(&json!(1), answer).await.status(), 202);
        let mut next = scene.received().await;
        let call = match open {
            Some(call) => call,
            None => next.pop().unwrap(),
        };
        if wire == Wire::Stateless {
            let given = &call.message["params"]["inputResponses"]["q"];
            assert_eq!(given["content"]["x"], 7, "{given}");
        } else {
            assert!(scene.backend.has_answer("q"), "{wire:?}");
        }
        assert!(call.answer(&done()));
        let messages = run.await.unwrap();
        assert_eq!(messages[0]["method"], "elicitation/create", "{messages:?}");
        let outcome = messages.last().unwrap();
        assert_eq!(outcome["result"]["structuredContent"]["text"], "done", "{outcome}");
    }
}

/// Calls the tool whose backend asks with this method, and returns the error of the step.
async fn failure(client: Generation, wire: Wire, method: &str) -> String {
    let mut definition = one_step();
    definition[0]["steps"][0]["onError"] = json!({"action": "retry", "retryCount": 2});
    let mut scene = scene(client, wire, &definition).await;
    let run = scene.begin(1, "one");
    let call = scene.received().await.pop().unwrap();
    let open = ask(wire, call, method);
    let outcome = run.await.unwrap().pop().unwrap();
    drop(open);
    assert_eq!(outcome["result"]["isError"], true, "{outcome}");
    // Another attempt would ask again.
    assert_eq!(scene.backend.messages("tools/call").len(), 1, "{client:?} {wire:?}");
    outcome["result"]["content"][0]["text"].as_str().unwrap().to_owned()
}

#[tokio::test(start_paused = true)]
async fn question_to_stateless_client_fails_step() {
    for wire in [Wire::Stateful, Wire::Stateless, Wire::Sse] {
        for (method, capability) in [
            ("elicitation/create", "elicitation"),
            ("sampling/createMessage", "sampling"),
            ("roots/list", "roots"),
        ] {
            let text = failure(Generation::Stateless, wire, method).await;
            let expected = format!(
                "step \"s\": tool be.t failed: the call needs the client capability {capability}: its \
                 backend asks the client for input, which a step passes on to clients with a session \
                 only; use such a client, or call the tool directly"
            );
            assert_eq!(text, expected, "{wire:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn undeclared_question_to_session_fails_step() {
    let text = failure(Generation::Stateful, Wire::Stateless, "sampling/createMessage").await;
    let expected = "step \"s\": tool be.t failed: the call needs the client capability sampling: its \
                    backend asks the client for input; use a client that declares the capability";
    assert_eq!(text, expected);
    // A stateful backend decides itself what to do without an answer.
    for wire in [Wire::Stateful, Wire::Sse] {
        let mut scene = scene(Generation::Stateful, wire, &one_step()).await;
        let run = scene.begin(1, "one");
        let call = scene.received().await.pop().unwrap();
        let call = ask(wire, call, "sampling/createMessage").unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        let rejected = &scene.backend.messages("")[0];
        assert_eq!(rejected["error"]["message"], "the client did not declare sampling");
        assert!(call.answer(&done()));
        let outcome = run.await.unwrap().pop().unwrap();
        assert_eq!(outcome["result"]["structuredContent"]["text"], "done", "{outcome}");
    }
}

#[tokio::test(start_paused = true)]
async fn question_as_result_of_stateful_backend_fails_step() {
    let question = json!({"q": request("elicitation/create")});
    for client in [Generation::Stateful, Generation::Stateless] {
        for wire in [Wire::Stateful, Wire::Sse] {
            let mut scene = scene(client, wire, &one_step()).await;
            let run = scene.begin(1, "one");
            let call = scene.received().await.pop().unwrap();
            let asked = json!({"resultType": "input_required", "inputRequests": question});
            call.answer(&asked);
            let outcome = run.await.unwrap().pop().unwrap();
            assert_eq!(outcome["result"]["isError"], true, "{outcome}");
            let text = outcome["result"]["content"][0]["text"].to_string();
            assert!(text.contains("its backend asked for input in a result"), "{text}");
        }
    }
}

//! Random reactions of backends to a call: response, server request, stream, disconnect, or silence.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{sleep, timeout};

use super::Random;
use crate::script::{PendingCall, ScriptedBackend, Wire};

/// Timeout of a backend for the response to its server request.
const QUESTION_TIMEOUT: Duration = Duration::from_mins(1);

/// Handles the calls of a backend in random ways.
pub(crate) async fn serve(
    backend: Arc<ScriptedBackend>,
    mut calls: UnboundedReceiver<PendingCall>,
    mut random: Random,
) {
    let mut serial = 0;
    while let Some(call) = calls.recv().await {
        serial += 1;
        tokio::spawn(answer(Arc::clone(&backend), call, random.fork(), serial));
    }
}

fn result(call: &PendingCall) -> Value {
    let number = call.message["params"]["arguments"]["number"].clone();
    json!({"content": [], "structuredContent": {"number": number}, "resultType": "complete"})
}

async fn answer(
    backend: Arc<ScriptedBackend>,
    mut call: PendingCall,
    mut random: Random,
    serial: u64,
) {
    sleep(random.time()).await;
    let token = call.message["params"]["_meta"]["progressToken"].clone();
    let result = result(&call);
    for _ in 0..random.below(3) {
        if token.is_null() {
            break;
        }
        call.say(&json!({"jsonrpc": "2.0", "method": "notifications/progress", "params":
            {"progressToken": token, "progress": 1}}));
        sleep(random.time()).await;
    }
    match random.below(10) {
        // The backend never responds: the call is dropped when the gateway gives up.
        0 => {
            while !call.is_gone() && backend.wire != Wire::Sse {
                sleep(Duration::from_secs(10)).await;
            }
        }
        // The backend disconnects.
        1 => drop(call),
        2..=4 => ask(&backend, call, &mut random, serial, &result).await,
        5 if call.has_begun() => _ = call.answer(&result),
        5 => {
            let code = [401, 404, 429, 500, 503][random.below(5)];
            if code == 404 {
                // A backend ends a session this way.
                backend.sessions.lock().unwrap().remove(&call.session);
            }
            call.refuse(code);
        }
        _ => _ = call.answer(&result),
    }
}

/// Sends a server request to the client during the call.
async fn ask(
    backend: &ScriptedBackend,
    mut call: PendingCall,
    random: &mut Random,
    serial: u64,
    result: &Value,
) {
    if backend.wire == Wire::Stateless {
        let carried = call.message["params"]["requestState"].as_str().is_some();
        let asked = json!({"resultType": "input_required", "requestState": format!("state {serial}"),
            "inputRequests": {"q": {"method": "elicitation/create", "params": {"message": "sure?",
                "requestedSchema": {"type": "object", "properties": {}}}}}});
        call.answer(if carried { result } else { &asked });
        return;
    }
    let id = format!("{}-{serial}", backend.name);
    for round in 0..=random.below(2) {
        let id = format!("{id}-{round}");
        let question = json!({"jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params":
            {"message": "sure?", "requestedSchema": {"type": "object", "properties": {}}}});
        call.say(&question);
        if random.one_in(6) {
            sleep(random.time()).await;
            call.say(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params":
                {"requestId": id}}));
            break;
        }
        let answered = async {
            while !backend.has_answer(&id) {
                sleep(Duration::from_millis(20)).await;
            }
        };
        if timeout(QUESTION_TIMEOUT, answered).await.is_err() {
            break;
        }
    }
    call.answer(result);
}

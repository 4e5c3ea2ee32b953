//! Cancellation and progress of running composite tools.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use vmcp_test_support::McpBackend;
use vmcp_test_support::mcp_backend::Protocol;
use vmcp_tests::caller::Caller;

use super::{PROTOCOLS, backend, calls, start};
use crate::common::until;

/// Returns a backend whose tool `hang` waits until its client is gone, and the number of calls that waited so.
fn watched(protocol: Protocol) -> (McpBackend, Arc<AtomicUsize>) {
    let cancelled = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&cancelled);
    let backend = backend("a", protocol).on_tool("hang", move |call| {
        let counted = Arc::clone(&counted);
        tokio::spawn(async move {
            while !call.is_cancelled() {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
            counted.fetch_add(1, Ordering::Relaxed);
        });
    });
    (backend.start(), cancelled)
}

fn tools() -> Value {
    json!([{"name": "waits", "steps": [
        {"id": "one", "tool": "a.hang"},
        {"id": "two", "tool": "a.hang"},
        {"id": "never", "tool": "a.echo", "dependsOn": ["one", "two"], "arguments": {"text": "x"}},
    ]}])
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelled_call_cancels_running_steps() {
    for protocol in PROTOCOLS {
        let (a, cancelled) = watched(protocol);
        let gateway = start(&[&a], tools()).await;
        let mut caller = Caller::stateful(gateway.url()).await.unwrap();
        let request = caller.request("tools/call", json!({"name": "waits"}));
        let headers = caller.headers(&request);
        let mut line = vmcp_tests::caller::Line::to(gateway.url());
        let id = request["id"].clone();
        let call = tokio::spawn(async move { line.post(&headers, &request).await });
        until("both steps run", async || calls(&a, "hang").len() == 2).await;
        let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
            "params": {"requestId": id, "reason": "enough"}});
        assert_eq!(caller.post(&cancel).await.unwrap().status, 202);
        let what = "the backend learns of both cancellations";
        match protocol {
            Protocol::Stateful => {
                until(what, async || a.count("notifications/cancelled") == 2).await;
            }
            _ => until(what, async || cancelled.load(Ordering::Relaxed) == 2).await,
        }
        // A cancelled request has no response.
        let reply = call.await.unwrap().unwrap();
        assert!(!String::from_utf8_lossy(&reply.body).contains("\"result\""), "{reply:?}");
        assert_eq!(calls(&a, "echo").len(), 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn disconnected_stateless_client_cancels_running_steps() {
    for protocol in PROTOCOLS {
        for token in [None, Some("p")] {
            let (a, cancelled) = watched(protocol);
            let gateway = start(&[&a], tools()).await;
            let mut caller = Caller::stateless(gateway.url());
            let mut params = json!({"name": "waits"});
            if let Some(token) = token {
                params["_meta"]["progressToken"] = token.into();
            }
            let request = caller.request("tools/call", params);
            let headers = caller.headers(&request);
            let mut line = vmcp_tests::caller::Line::to(gateway.url());
            let call = tokio::spawn(async move { line.post(&headers, &request).await });
            until("both steps run", async || calls(&a, "hang").len() == 2).await;
            call.abort();
            let what = "the backend learns of both cancellations";
            match protocol {
                Protocol::Stateful => {
                    until(what, async || a.count("notifications/cancelled") == 2).await;
                }
                _ => until(what, async || cancelled.load(Ordering::Relaxed) == 2).await,
            }
            assert_eq!(calls(&a, "echo").len(), 0);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_follows_each_step() {
    let a = backend("a", Protocol::Both).start();
    let tools = json!([{"name": "two", "steps": [
        {"id": "one", "tool": "a.echo", "arguments": {"text": "1"}},
        {"id": "broken", "tool": "a.fail", "dependsOn": ["one"], "onError": {"action": "continue"}},
        {"id": "off", "tool": "a.echo", "dependsOn": ["broken"], "condition": "false"},
    ]}]);
    let gateway = start(&[&a], tools).await;
    for caller in &mut super::callers(&gateway).await {
        let params = json!({"name": "two", "_meta": {"progressToken": "p"}});
        let mut stream = caller.stream("tools/call", params).await.unwrap();
        for (number, text) in
            ["step one: completed", "step broken: failed", "step off: skipped"].iter().enumerate()
        {
            let message = stream.next().await.unwrap().unwrap();
            assert_eq!(message["method"], "notifications/progress", "{message}");
            let expected =
                json!({"progressToken": "p", "progress": number + 1, "total": 3, "message": text});
            assert_eq!(message["params"], expected);
        }
        let done = stream.next().await.unwrap().unwrap();
        assert_eq!(done["result"]["structuredContent"], json!({"text": "1"}), "{done}");
        assert!(stream.next().await.unwrap().is_none());
    }
}

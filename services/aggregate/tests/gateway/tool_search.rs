//! The tool search in place of the list of tools.

use serde_json::json;
use vmcp_aggregate::settings::{OptimizerSettings, PartialFailure};
use vmcp_core::Generation;
use vmcp_optimize::SearchOptions;

use crate::fake::{Client, FakeBackend, gateway, heard, settings};

#[tokio::test(start_paused = true)]
async fn notifies_clients_of_switched_tool_search() {
    let offer = json!({"tools": [{"name": "t", "inputSchema": {"type": "object"}}]});
    let backend = FakeBackend::new("be", Generation::Stateful).offer("*", offer);
    let gateway = gateway(std::slice::from_ref(&backend)).await;
    let stateful = Client::new(&gateway, Generation::Stateful, "alice").await;
    let stateless = Client::new(&gateway, Generation::Stateless, "alice").await;
    let listen = json!({"notifications": {"toolsListChanged": true}});
    let mut streams = [
        stateful.stand().await,
        stateless.send("subscriptions/listen", listen).await.0.into_body(),
    ];
    for stream in &mut streams {
        heard(stream).await;
    }
    for is_on in [true, false] {
        let optimizer =
            is_on.then(|| OptimizerSettings { options: SearchOptions::default(), embedding: None });
        let settings = settings(vec![backend.settings()], PartialFailure::BestEffort, None);
        gateway.reload(vmcp_aggregate::settings::Settings { optimizer, ..settings }).await;
        for stream in &mut streams {
            let said = heard(stream).await;
            assert!(said.contains("notifications/tools/list_changed"), "{is_on}: {said}");
        }
    }
}

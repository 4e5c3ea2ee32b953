//! Composite tools over servers of other projects.

use serde_json::{Value, json};
use vmcp_tests::counterparts::{Backend, CallPlan, Client, Era, Gateway, PlannedCall, skipped};

use super::servers::until_tools;

/// Returns a workflow over three servers, and one over two of them.
fn workflows() -> Value {
    let entity =
        |name: &str| json!({"name": name, "entityType": "city", "observations": ["has a port"]});
    let names = json!(["vmcp Oslo", "vmcp Bergen"]);
    json!([{
        "name": "inventory",
        "parameters": {"type": "object", "properties": {"offset": {"type": "integer", "default": 40}}},
        "steps": [
            {"id": "create", "tool": "memory.create_entities",
             "arguments": {"entities": [entity("vmcp Oslo"), entity("vmcp Bergen")]}},
            {"id": "read", "tool": "memory.open_nodes", "dependsOn": ["create"], "arguments": {"names": names}},
            {"id": "each", "type": "forEach", "dependsOn": ["read"],
             "collection": "{{json .steps.read.output.entities}}", "itemVar": "entity",
             "step": {"tool": "everything.echo",
                "arguments": {"message": "{{.forEach.entity.name}}, a {{.forEach.entity.entityType}}"}}},
            {"id": "weather", "tool": "everything.get-structured-content", "dependsOn": ["create"],
             "arguments": {"location": "Chicago"}},
            {"id": "sum", "tool": "everything.get-sum", "dependsOn": ["each"],
             "arguments": {"a": "{{.steps.each.output.completed}}", "b": "{{.params.offset}}"}},
            {"id": "time", "tool": "time.convert_time", "dependsOn": ["each"],
             "condition": "{{eq .steps.each.output.failed 0.0}}",
             "arguments": {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}},
            {"id": "alarm", "tool": "everything.echo", "dependsOn": ["each"],
             "condition": "{{gt .steps.each.output.failed 0.0}}",
             "arguments": {"message": "failed"}, "defaultResults": {"text": "none failed"}},
            {"id": "delete", "tool": "memory.delete_entities", "dependsOn": ["each"], "arguments": {"entityNames": names}},
        ],
        "output": {"properties": {
            "first": {"type": "string", "value": "{{(index .steps.each.output.iterations 0).output.text}}"},
            "count": {"type": "integer", "value": "{{.steps.each.output.count}}"},
            "humidity": {"type": "number", "value": "{{.steps.weather.output.humidity}}"},
            "sum": {"type": "string", "value": "{{.steps.sum.output.text}}"},
            "time": {"type": "object", "value": "{{.steps.time.content.text}}"},
            "alarm": {"type": "string", "value": "{{.steps.alarm.output.text}}"},
            "deleted": {"type": "boolean", "value": "{{.steps.delete.output.success}}"},
        }},
    }, {
        "name": "noon",
        "steps": [
            {"id": "time", "tool": "time.convert_time",
             "arguments": {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}},
            {"id": "say", "tool": "everything.echo", "dependsOn": ["time"],
             "arguments": {"message": "{{(fromJson .steps.time.content.text).time_difference}}"}},
        ],
    }])
}

#[tokio::test(flavor = "multi_thread")]
async fn composites_span_servers_of_other_projects() {
    if skipped() {
        return;
    }
    let everything = Backend::everything_http();
    let (everything, time, memory) = tokio::join!(everything, Backend::time(), Backend::memory());
    let (everything, time, memory) = (everything.unwrap(), time.unwrap(), memory.unwrap());
    let backend = |name: &str, backend: &Backend| {
        format!("- {{name: {name}, url: \"{}\", transport: streamable-http}}\n", backend.url())
    };
    let yaml = format!(
        "name: tests\nincomingAuth: {{type: anonymous}}\nbackends:\n{}{}{}compositeTools: {}\n",
        backend("everything", &everything),
        backend("time", &time),
        backend("memory", &memory),
        workflows(),
    );
    let gateway = Gateway::start(&yaml).await.unwrap();
    until_tools(&gateway, &["inventory", "noon"]).await;
    for client in [Client::PythonMcp, Client::TypeScript1, Client::TypeScript2] {
        let calls =
            vec![PlannedCall::new("inventory", json!({})), PlannedCall::new("noon", json!({}))];
        let plan = CallPlan { calls, token: None };
        let report = client.call(gateway.url(), Era::Legacy, &plan).await.unwrap();
        let [inventory, noon] = &report.results[..] else { panic!("{report:?}") };
        let output = &inventory.structured;
        assert_eq!(output["first"], "Echo: vmcp Oslo, a city", "{client:?}: {inventory:?}");
        assert_eq!((&output["count"], &output["humidity"]), (&json!(2), &json!(82)), "{client:?}");
        assert_eq!(output["sum"], "The sum of 2 and 40 is 42.", "{client:?}");
        assert_eq!(output["time"]["time_difference"], "+9.0h", "{client:?}: {output}");
        assert_eq!(output["alarm"], "none failed", "{client:?}");
        assert_eq!(output["deleted"], true, "{client:?}");
        assert_eq!(serde_json::from_str::<Value>(&inventory.text).unwrap(), *output, "{client:?}");
        assert_eq!(noon.structured, json!({"text": "Echo: +9.0h"}), "{client:?}: {noon:?}");
    }
    // The memory server's bridge offers no tools in the newer generation, so that the composite is hidden there.
    let plan = CallPlan { calls: vec![PlannedCall::new("noon", json!({}))], token: None };
    let report = Client::PythonMcp.call(gateway.url(), Era::Modern, &plan).await.unwrap();
    assert!(!report.tools.iter().any(|tool| tool == "inventory"), "{report:?}");
    assert_eq!(report.results[0].structured, json!({"text": "Echo: +9.0h"}), "{report:?}");
}

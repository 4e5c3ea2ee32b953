//! Definitions of composite tools: verdict, and the servers that refer to them.

use std::time::Duration;

use serde_json::{Value, json};
use vmcp_kube_fixture::{Fault, FaultRule};

use super::support::{Cluster, resource_of, server};

const KIND: &str = "VirtualMCPCompositeToolDefinition";
const STATUS: &str = "patch virtualmcpcompositetooldefinitions.vmcp.dev/status default/d";

fn definition(steps: Value) -> Value {
    resource_of(KIND, "d", json!({"name": "report", "steps": steps}))
}

fn step(id: &str, change: impl FnOnce(&mut Value)) -> Value {
    let mut step = json!({"id": id, "type": "tool", "tool": "weather.read"});
    change(&mut step);
    step
}

fn referring(name: &str) -> Value {
    server(name, |spec| spec["config"] = json!({"compositeToolRefs": [{"name": "d"}]}))
}

#[tokio::test(start_paused = true)]
async fn valid_definition_gets_one_write() {
    let mut cluster = Cluster::running().await;
    cluster.put(definition(json!([step("a", |_| {})])));
    cluster.settle().await;
    assert_eq!(cluster.take_writes(), [STATUS]);
    let status = cluster.get(KIND, "d")["status"].clone();
    assert_eq!(status["validationStatus"], "Valid");
    assert_eq!(status["observedGeneration"], 1);
    assert_eq!(cluster.reason_of(KIND, "d", "WorkflowValidated"), "ValidationSuccess");
    assert_eq!(cluster.reason_of(KIND, "d", "Ready"), "WorkflowReady");
    cluster.pass(Duration::from_hours(1)).await;
    cluster.stop().await;
    cluster.start().await;
    assert_eq!(cluster.take_writes(), [""; 0]);
    assert_eq!(cluster.events(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn each_mistake_has_its_reason() {
    let cycle = json!([
        step("a", |step| step["dependsOn"] = json!(["b"])),
        step("b", |step| step["dependsOn"] = json!(["a"])),
    ]);
    let unknown = json!([step("a", |step| step["dependsOn"] = json!(["c"]))]);
    let condition = json!([step("a", |step| step["condition"] = "{{".into())]);
    let argument =
        json!([step("a", |step| step["arguments"] = json!({"city": "{{.steps.z.output}}"}))]);
    let question = json!([
        {"id": "a", "type": "elicitation", "message": "{{", "schema": {"type": "string"}},
    ]);
    let cases = [
        (cycle, "!DependencyCycle", "a -> b -> a"),
        (unknown, "!SchemaInvalid", "spec.steps[0].dependsOn: found"),
        (condition, "!TemplateInvalid", "spec.steps[0].condition: found"),
        (argument, "!TemplateInvalid", "spec.steps[0].arguments"),
        (question, "!ValidationFailed", "; spec.steps[0]."),
    ];
    for (steps, reason, part) in cases {
        let cluster = Cluster::running().await;
        cluster.put(definition(steps.clone()));
        cluster.put(referring("a"));
        cluster.settle().await;
        assert_eq!(cluster.reason_of(KIND, "d", "WorkflowValidated"), reason, "{steps}");
        assert_eq!(cluster.reason_of(KIND, "d", "Ready"), "!WorkflowNotReady");
        let (_, _, message) = cluster.condition_of(KIND, "d", "WorkflowValidated").unwrap();
        assert!(message.contains(part), "{message}");
        let status = cluster.get(KIND, "d")["status"].clone();
        assert_eq!(status["validationStatus"], "Invalid");
        let errors = status["validationErrors"].as_array().unwrap();
        let errors: Vec<_> = errors.iter().map(|error| error.as_str().unwrap()).collect();
        assert_eq!(errors.join("; "), message);
        let own = cluster.events().into_iter().filter(|line| line.contains(&reason[1..]));
        assert_eq!(own.count(), 1, "{:?}", cluster.events());
        // The server reports the same, without the status of the definition.
        assert_eq!(cluster.reason("a", "CompositeToolRefsValidated"), "!CompositeToolRefInvalid");
        cluster.put(definition(json!([step("a", |_| {})])));
        cluster.settle().await;
        assert_eq!(cluster.reason_of(KIND, "d", "WorkflowValidated"), "ValidationSuccess");
        assert_eq!(cluster.get(KIND, "d")["status"]["validationErrors"], Value::Null);
        assert_eq!(cluster.reason("a", "CompositeToolRefsValidated"), "CompositeToolRefsValid");
    }
}

#[tokio::test(start_paused = true)]
async fn server_does_not_wait_for_verdict() {
    let cluster = Cluster::running().await;
    let resource = "virtualmcpcompositetooldefinitions";
    let rule = FaultRule::new(Fault::Status(500)).on_writes().on_resource(resource);
    cluster.server.disturb(rule);
    cluster.put(definition(json!([step("a", |step| step["condition"] = "{{".into())])));
    cluster.put(referring("a"));
    cluster.settle().await;
    assert_eq!(cluster.get(KIND, "d")["status"], Value::Null);
    assert_eq!(cluster.reason("a", "CompositeToolRefsValidated"), "!CompositeToolRefInvalid");
    cluster.put(definition(json!([step("a", |_| {})])));
    cluster.settle().await;
    assert_eq!(cluster.reason("a", "CompositeToolRefsValidated"), "CompositeToolRefsValid");
}

#[tokio::test(start_paused = true)]
async fn definition_lists_servers_that_refer_to_it() {
    let cluster = Cluster::running().await;
    cluster.put(definition(json!([step("a", |_| {})])));
    for name in ["b", "a"] {
        cluster.put(referring(name));
    }
    cluster.put(server("other", |_| {}));
    cluster.settle().await;
    let listed = || cluster.get(KIND, "d")["status"]["referencingVirtualServers"].clone();
    assert_eq!(listed(), json!(["a", "b"]));
    cluster.delete("VirtualMCPServer", "a").await;
    cluster.put(server("b", |_| {}));
    cluster.settle().await;
    assert_eq!(listed(), Value::Null);
    // Nothing holds a definition: a server without it reports that.
    cluster.put(referring("b"));
    cluster.settle().await;
    cluster.delete(KIND, "d").await;
    cluster.settle().await;
    assert!(cluster.find(KIND, "d").is_none());
    assert_eq!(cluster.reason("b", "CompositeToolRefsValidated"), "!CompositeToolRefNotFound");
}

#[tokio::test(start_paused = true)]
async fn edit_reconciles_server_once() {
    let cluster = Cluster::running().await;
    cluster.put(definition(json!([step("a", |_| {})])));
    cluster.put(referring("a"));
    cluster.settle().await;
    cluster.take_writes();
    cluster.put(definition(json!([step("b", |_| {})])));
    cluster.settle().await;
    let writes = cluster.take_writes();
    let count = |line: &str| writes.iter().filter(|one| one.starts_with(line)).count();
    assert_eq!(count(STATUS), 1, "{writes:?}");
    assert_eq!(count("patch configmaps"), 1, "{writes:?}");
    assert!(count("patch virtualmcpservers") <= 1, "{writes:?}");
}

#[tokio::test(start_paused = true)]
async fn errors_in_status_are_bounded() {
    let cluster = Cluster::running().await;
    let steps: Vec<_> = (0..30)
        .map(|index| step(&format!("s{index}"), |step| step["condition"] = "{{".into()))
        .collect();
    cluster.put(definition(json!(steps)));
    cluster.settle().await;
    let errors = cluster.get(KIND, "d")["status"]["validationErrors"].clone();
    let errors = errors.as_array().unwrap();
    assert_eq!((errors.len(), &errors[20]), (21, &json!("and 10 more")));
}

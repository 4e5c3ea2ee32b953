//! Objects that are generated for a server.

mod embedding_server;
mod invariants;
mod optional_objects;
mod pod_template;
mod snapshots;

use serde_json::{Value, json};
use vmcp_api::VirtualMCPServer;
use vmcp_api::conversion::{Conversion, EnvironmentVariable};
use vmcp_config::{File, Format};
use vmcp_operator::Settings;
use vmcp_operator::plan::{Plan, PlanError, plan};

/// Configuration of a server without backends.
const CONFIGURATION: &str =
    "name: tools\nincomingAuth: {type: anonymous}\noutgoingAuth: {source: inline}\n";

/// Returns a server of the namespace `team`, with the fields besides those that are required.
fn server(name: &str, spec: Value) -> VirtualMCPServer {
    let mut object = json!({
        "apiVersion": "vmcp.dev/v1beta1",
        "kind": "VirtualMCPServer",
        "metadata": {"name": name, "namespace": "team", "uid": "0d0c0a11-0000-4000-8000-000000000001"},
        "spec": {"groupRef": {"name": "tools"}, "incomingAuth": {"type": "anonymous"}},
    });
    let Value::Object(fields) = spec else { panic!("a spec is an object") };
    object["spec"].as_object_mut().unwrap().extend(fields);
    serde_json::from_value(object).unwrap()
}

/// Returns a conversion with a configuration.
fn conversion(yaml: &str) -> Conversion {
    Conversion {
        file: File::parse(yaml, Format::Yaml).unwrap(),
        yaml: yaml.to_owned(),
        secrets: Vec::new(),
        environment: Vec::new(),
        hosts: Vec::new(),
        left_out: Vec::new(),
        warnings: Vec::new(),
        conditions: Vec::new(),
    }
}

fn settings() -> Settings {
    Settings::new("registry.example.com/vmcp:1.2.3")
}

/// Plans a server with a pod template.
fn with_template(template: &Value) -> Result<Plan, PlanError> {
    let server = server("tools", json!({"podTemplateSpec": template}));
    plan(&server, &conversion(CONFIGURATION), &settings())
}

/// Returns the container of the server.
fn container(plan: &Plan) -> k8s_openapi::api::core::v1::Container {
    let pod = plan.deployment.spec.as_ref().unwrap().template.spec.as_ref().unwrap();
    pod.containers.iter().find(|container| container.name == "vmcp").unwrap().clone()
}

fn variable(name: &str, value: &str) -> EnvironmentVariable {
    EnvironmentVariable { name: name.to_owned(), value: value.to_owned() }
}

/// Returns the JSON pointers of all scalars.
fn leaves(value: &Value, pointer: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                let name = name.replace('~', "~0").replace('/', "~1");
                leaves(value, &format!("{pointer}/{name}"), found);
            }
        }
        Value::Array(items) => {
            for (index, value) in items.iter().enumerate() {
                leaves(value, &format!("{pointer}/{index}"), found);
            }
        }
        _ => found.push(pointer.to_owned()),
    }
}

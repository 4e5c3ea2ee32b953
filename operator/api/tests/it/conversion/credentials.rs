//! Name of the MCPExternalAuthConfig of each backend, which the pods report.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use vmcp_api::conversion::{AUTH_CONFIG_METADATA, backends, convert};
use vmcp_config::Backend;

use super::fixture::inputs;

fn member(name: &str, config: Option<&str>) -> Value {
    let reference = config.map(|name| json!({"name": name}));
    let mut member = json!({
        "kind": "MCPServer", "metadata": {"name": name, "namespace": "team"},
        "spec": {"image": "i", "transport": "streamable-http", "groupRef": {"name": "tools"}},
        "status": {"url": format!("http://{name}.team.svc/mcp")},
    });
    if let Some(reference) = reference {
        member["spec"]["externalAuthConfigRef"] = reference;
    }
    member
}

/// Returns the manifests of a server with members whose credentials come from different places.
fn manifests(source: &str, outgoing: &Value) -> Vec<Value> {
    let mut outgoing = outgoing.clone();
    outgoing["source"] = source.into();
    let forged = json!({"name": "plain", "url": "http://plain.team.svc/mcp",
        "transport": "streamable-http", "metadata": {AUTH_CONFIG_METADATA: "forged", "team": "x"}});
    let server = json!({
        "kind": "VirtualMCPServer", "metadata": {"name": "a", "namespace": "team"},
        "spec": {
            "groupRef": {"name": "tools"}, "incomingAuth": {"type": "anonymous"},
            "outgoingAuth": outgoing, "config": {"backends": [forged]},
        },
    });
    let config = |name: &str| {
        json!({
            "kind": "MCPExternalAuthConfig", "metadata": {"name": name, "namespace": "team"},
            "spec": {"type": "unauthenticated"},
        })
    };
    let mut all =
        vec![server, member("own", Some("mine")), member("fixed", None), member("plain", None)];
    all.extend(["mine", "chosen", "default"].map(config));
    all
}

fn reference(name: &str) -> Value {
    json!({"type": "externalAuthConfigRef", "externalAuthConfigRef": {"name": name}})
}

/// Returns the names by backend; `-` without one.
fn names(backends: &[Backend]) -> BTreeMap<&str, &str> {
    assert!(backends.iter().any(|one| one.metadata.get("team").is_some_and(|team| team == "x")));
    backends
        .iter()
        .map(|backend| {
            let name = backend.metadata.get(AUTH_CONFIG_METADATA);
            (backend.name.as_str(), name.map_or("-", String::as_str))
        })
        .collect()
}

#[test]
fn backends_name_their_external_auth_config() {
    let outgoing = json!({"backends": {"fixed": reference("chosen")}});
    let of_file = convert(&inputs(&manifests("inline", &outgoing))).unwrap().file.backends;
    let expected = BTreeMap::from([("fixed", "chosen"), ("own", "-"), ("plain", "-")]);
    assert_eq!(names(&of_file), expected, "inline");
    let discovered = backends(&inputs(&manifests("discovered", &outgoing))).unwrap().backends;
    let expected = BTreeMap::from([("fixed", "chosen"), ("own", "mine"), ("plain", "-")]);
    assert_eq!(names(&discovered), expected, "discovered");
    let outgoing = json!({"default": reference("default")});
    let discovered = backends(&inputs(&manifests("discovered", &outgoing))).unwrap().backends;
    let expected = BTreeMap::from([("fixed", "default"), ("own", "mine"), ("plain", "default")]);
    assert_eq!(names(&discovered), expected, "default");
}

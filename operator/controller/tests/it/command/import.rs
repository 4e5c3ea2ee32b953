//! `vmcp-operator import`.

use serde_json::Value;

use super::{documents, manifest, run};

#[test]
fn output_is_accepted_by_check() {
    let output = run(&["import", "-f", &manifest("toolhive.yaml")], "");
    assert_eq!(output.code, 0, "{}", output.stderr);
    let checked = run(&["check", "-f", "-"], &output.stdout);
    assert_eq!(checked.code, 0, "{}{}", checked.stdout, checked.stderr);
}

#[test]
fn servers_become_entries_for_their_services() {
    let output = run(&["import", "-f", &manifest("toolhive.yaml")], "");
    let objects = documents(&output.stdout);
    let url = |name: &str| -> (String, String) {
        let entry = objects
            .iter()
            .find(|one| one["kind"] == "MCPServerEntry" && one["metadata"]["name"] == name)
            .unwrap();
        assert_eq!(entry["spec"]["groupRef"]["name"], "tools");
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        (text(&entry["spec"]["remoteUrl"]), text(&entry["spec"]["transport"]))
    };
    let expected = |url: &str, transport: &str| (url.to_owned(), transport.to_owned());
    let service = "http://mcp-local-proxy.team.svc.cluster.local:9000/sse";
    assert_eq!(url("local"), expected(service, "sse"));
    let service = "http://mcp-remote-remote-proxy.team.svc.cluster.local:8080/mcp";
    assert_eq!(url("remote"), expected(service, "streamable-http"));
    assert_eq!(
        url("running"),
        expected("http://mcp-running-proxy.team.svc:8080/mcp", "streamable-http")
    );
}

#[test]
fn references_to_secrets_are_kept() {
    let output = run(&["import", "-f", &manifest("toolhive.yaml")], "");
    let objects = documents(&output.stdout);
    let config = objects.iter().find(|one| one["kind"] == "MCPExternalAuthConfig").unwrap();
    assert_eq!(config["spec"]["headerInjection"]["valueSecretRef"]["name"], "keys");
    let server = objects.iter().find(|one| one["kind"] == "VirtualMCPServer").unwrap();
    assert_eq!(server["apiVersion"], "vmcp.dev/v1beta1");
    assert_eq!(server["spec"]["groupRef"]["name"], "tools");
    assert_eq!(server["metadata"]["labels"]["team"], "a");
    assert!(server["metadata"].get("uid").is_none() && server.get("status").is_none());
}

#[test]
fn things_without_counterpart_are_named() {
    let output = run(&["import", "-f", &manifest("toolhive.yaml")], "");
    for expected in [
        "VirtualMCPServer team/gateway: spec.config.rateLimiting: the field has no counterpart",
        "VirtualMCPServer team/gateway: metadata.annotations.toolhive.stacklok.dev/restarted-at: ",
        "MCPServer team/alone: spec.groupRef: the resource is in no group",
        "MCPServer team/local: spec.toolConfigRef: an MCPServerEntry has no tools of its own",
        "MCPAuthzConfig team/authz: the kind has no counterpart",
        "Secret team/keys: apiVersion: found v1;",
    ] {
        assert!(output.stderr.contains(expected), "{expected}\n{}", output.stderr);
    }
}

#[test]
fn resource_that_would_be_refused_is_not_printed() {
    let text = "apiVersion: toolhive.stacklok.dev/v1beta1\nkind: VirtualMCPServer\nmetadata: {name: a}\nspec:\n  groupRef: {name: tools}\n  incomingAuth: {type: oidc}\n";
    let output = run(&["import", "-f", "-"], text);
    assert_eq!((output.code, output.stdout.as_str()), (1, ""));
    assert!(
        output.stderr.contains("-:6: VirtualMCPServer default/a: spec.incomingAuth"),
        "{}",
        output.stderr
    );
}

use std::sync::Arc;

use serde_json::{Value, json};
use vmcp_api::{
    conversion::{Inputs, Member, convert},
    virtual_mcp_server::IncomingAuthType,
};

use super::*;

#[expect(clippy::needless_pass_by_value, reason = "calls are shorter with `json!(..)` itself")]
fn inputs(spec: Value) -> Inputs {
    let server = json!({
        "apiVersion": "vmcp.dev/v1beta1", "kind": "VirtualMCPServer",
        "metadata": { "name": "a", "namespace": "tools" }, "spec": spec,
    });
    let server: vmcp_api::VirtualMCPServer = serde_json::from_value(server).unwrap();
    let mut inputs = Inputs::new(server);
    inputs.checks = Some(Arc::new(ServerChecks));
    inputs
}

fn spec(config: &Value, authz: &Value) -> Value {
    json!({
        "groupRef": { "name": "a" }, "config": config,
        "incomingAuth": { "type": "anonymous", "authzConfig": authz },
        "outgoingAuth": { "source": "inline" },
    })
}

/// Returns path and condition of each error.
fn errors(inputs: &Inputs) -> Vec<(String, String)> {
    let errors = convert(inputs).expect_err("an error");
    errors.into_iter().map(|error| (error.path, error.condition.type_)).collect()
}

fn inline(policy: &str) -> Value {
    json!({ "type": "inline", "inline": { "policies": [policy] } })
}

const PERMIT: &str = "permit(principal, action, resource);";

#[test]
fn rejects_policies_that_cedar_rejects() {
    assert!(convert(&inputs(spec(&json!({}), &inline(PERMIT)))).is_ok());
    for policy in ["permit(", r#"permit(principal, action == Action::"no_such_action", resource);"#]
    {
        let path = "spec.incomingAuth.authzConfig.inline.policies[0]".to_owned();
        let found = errors(&inputs(spec(&json!({}), &inline(policy))));
        assert_eq!(found, [(path, "Valid".to_owned())], "{policy}");
    }
    let config_map = json!({ "type": "configMap", "configMap": { "name": "b" } });
    let mut inputs = inputs(spec(&json!({}), &config_map));
    let document = json!({ "type": "cedarv1", "cedar": { "policies": ["permit("] } });
    inputs.authorization_document = Some(document.to_string());
    let path = "spec.incomingAuth.authzConfig.configMap".to_owned();
    assert_eq!(errors(&inputs), [(path, "AuthConfigured".to_owned())]);
}

#[test]
fn rejects_composite_tools_that_planner_rejects() {
    let tool = |name: &str, condition: &str| json!({ "name": name, "steps": [{ "id": "a", "tool": "b.c", "condition": condition }] });
    let good = json!({ "compositeTools": [tool("good", "{{true}}")] });
    assert!(convert(&inputs(spec(&good, &inline(PERMIT)))).is_ok());
    let bad = json!({
        "compositeTools": [tool("bad", "{{")], "compositeToolRefs": [{ "name": "shared" }]
    });
    let mut inputs = inputs(spec(&bad, &inline(PERMIT)));
    let definition = json!({
        "apiVersion": "vmcp.dev/v1beta1", "kind": "VirtualMCPCompositeToolDefinition",
        "metadata": { "name": "shared" }, "spec": tool("shared", "{{.steps.}}"),
    });
    let definition = Arc::new(serde_json::from_value(definition).unwrap());
    inputs.composite_tool_definitions.insert("shared".to_owned(), definition);
    let expected = [
        ("spec.config.compositeTools[0].steps[0].condition", "Valid"),
        ("spec.config.compositeToolRefs[0].name", "CompositeToolRefsValidated"),
    ];
    assert_eq!(errors(&inputs), expected.map(|(path, kind)| (path.to_owned(), kind.to_owned())));
}

#[test]
fn leaves_out_backends_with_invalid_matchers() {
    let mut inputs = inputs(spec(&json!({}), &inline(PERMIT)));
    let server = |matcher: &str| {
        let config = json!({
            "apiVersion": "vmcp.dev/v1beta1", "kind": "MCPExternalAuthConfig",
            "metadata": { "name": "aws" },
            "spec": { "type": "awsSts", "awsSts": { "region": "eu-central-1", "roleMappings": [
                { "roleArn": "arn:aws:iam::123456789012:role/a", "matcher": matcher }
            ] } },
        });
        Arc::new(serde_json::from_value(config).unwrap())
    };
    let member = json!({
        "apiVersion": "vmcp.dev/v1beta1", "kind": "MCPServer", "metadata": { "name": "b" },
        "spec": { "image": "i", "externalAuthConfigRef": { "name": "aws" } },
        "status": { "url": "http://b" },
    });
    inputs.members = vec![Member::Server(Arc::new(serde_json::from_value(member).unwrap()))];
    for (matcher, is_valid) in [("'a' in claims.groups", true), ("claims.groups[", false)] {
        inputs.external_auth_configs.insert("aws".to_owned(), server(matcher));
        let found = vmcp_api::conversion::backends(&inputs).unwrap();
        // With inline credentials, the reference of the member is not read.
        assert!(found.left_out.is_empty());
        let mut discovered = inputs.clone();
        let spec = &mut Arc::make_mut(&mut discovered.server).spec;
        spec.outgoing_auth = None;
        // Credentials of AWS roles need the token of the caller.
        spec.incoming_auth.kind = IncomingAuthType::Oidc;
        let found = vmcp_api::conversion::backends(&discovered).unwrap();
        let left_out: Vec<_> = found.left_out.iter().map(|one| one.message.as_str()).collect();
        assert_eq!(left_out.is_empty(), is_valid, "{left_out:?}");
        assert!(left_out.iter().all(|message| message.contains("awsSts.roleMappings[0].matcher")));
    }
}

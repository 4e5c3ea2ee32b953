//! `vmcp-operator check`.

use serde_json::Value;

use super::{manifest, run};

/// Server with a group, and one mistake of each rule.
const MISTAKES: &str = r"# comment
apiVersion: vmcp.dev/v1beta1
kind: MCPGroup
metadata: {name: tools}
spec: {}
---
apiVersion: vmcp.dev/v1beta1
kind: VirtualMCPServer
metadata: {name: schema}
spec:
  groupRef: {name: tools}
  incomingAuth:
    type: password
---
apiVersion: vmcp.dev/v1beta1
kind: VirtualMCPServer
metadata: {name: cel}
spec:
  groupRef: {name: tools}
  incomingAuth: {type: oidc}
---
apiVersion: vmcp.dev/v1beta1
kind: VirtualMCPServer
metadata: {name: unknown}
spec:
  groupRef: {name: tools}
  incomingAuth: {type: anonymous}
  replica: 2
---
apiVersion: vmcp.dev/v1beta1
kind: VirtualMCPServer
metadata: {name: policy}
spec:
  groupRef: {name: tools}
  incomingAuth:
    type: anonymous
    authzConfig:
      type: inline
      inline:
        policies:
        - permit(
---
apiVersion: vmcp.dev/v1beta1
kind: VirtualMCPServer
metadata: {name: no-group}
spec:
  groupRef:
    name: absent
  incomingAuth: {type: anonymous}
---
apiVersion: vmcp.dev/v1beta1
kind: VirtualMCPServer
metadata: {name: template}
spec:
  groupRef: {name: tools}
  incomingAuth: {type: anonymous}
  podTemplateSpec:
    spec:
      restartPolicy: Never
---
apiVersion: vmcp.dev/v1beta1
kind: MCPServerEntry
metadata: {name: remote}
spec:
  groupRef: {name: tools}
  remoteUrl: http://10.0.0.1/mcp
  transport: sse
---
apiVersion: vmcp.dev/v1beta1
kind: VirtualMCPCompositeToolDefinition
metadata: {name: cycle}
spec:
  name: cycle
  steps:
  - {id: a, tool: b.c, dependsOn: [a]}
---
apiVersion: vmcp.dev/v1beta1
kind: MCPGroup
metadata: {name: tools}
spec: {}
---
apiVersion: vmcp.dev/v1
kind: MCPGroup
metadata: {name: version}
spec: {}
---
apiVersion: vmcp.dev/v1beta1
kind: MCPGroup
metadata: {name: Upper}
spec: {}
";

#[test]
fn mistakes_have_line_object_and_path() {
    let output = run(&["check", "-f", "-"], MISTAKES);
    assert_eq!(output.code, 1, "{}", output.stderr);
    let mut lines = output.stdout.lines();
    for expected in [
        "-:13: VirtualMCPServer default/schema: spec.incomingAuth.type: Unsupported value",
        "-:20: VirtualMCPServer default/cel: spec.incomingAuth",
        "-:28: VirtualMCPServer default/unknown: spec.replica: found an unknown field",
        "-:41: VirtualMCPServer default/policy: spec.incomingAuth.authzConfig.inline.policies[0]: ",
        "-:48: VirtualMCPServer default/no-group: spec.groupRef.name: MCPGroup absent does not exist",
        "-:59: VirtualMCPServer default/template: spec.podTemplateSpec.spec.restartPolicy: ",
        "-:66: MCPServerEntry default/remote: spec.remoteUrl: 10.0.0.1 is private",
        "VirtualMCPCompositeToolDefinition default/cycle: spec",
        "-:79: MCPGroup default/tools: metadata.name: another document",
        "-:82: MCPGroup: apiVersion: found vmcp.dev/v1; allowed: vmcp.dev/v1beta1",
        "-:89: MCPGroup: metadata.name: found \"Upper\"",
    ] {
        assert!(lines.any(|line| line.contains(expected)), "{expected}\n{}", output.stdout);
    }
}

#[test]
fn everything_is_valid() {
    let output = run(&["check", "-f", &manifest("everything.yaml")], "");
    assert_eq!(output.stdout, "valid: 11 objects; 0 of other kinds ignored\n", "{}", output.stderr);
    assert_eq!(output.code, 0);
    // Secrets come from elsewhere in most repositories: a missing one is named, and not a mistake.
    let missing = "missing for VirtualMCPServer team/everything: key api of Secret keys";
    assert!(output.stderr.contains(missing), "{}", output.stderr);
    assert!(!output.stderr.contains("Secret redis"), "{}", output.stderr);
}

#[test]
fn missing_key_of_given_secret_is_mistake() {
    let text = std::fs::read_to_string(manifest("everything.yaml")).unwrap();
    let text = text.replace("stringData: {password:", "stringData: {other:");
    let output = run(&["check", "-f", "-"], &text);
    assert_eq!(output.code, 1);
    assert!(
        output.stdout.contains("key password of Secret redis does not exist"),
        "{}",
        output.stdout
    );
    assert!(!output.stdout.contains("value-of-password"));
}

#[test]
fn shared_audience_names_both_servers() {
    let server = |name: &str| {
        format!(
            "---\napiVersion: vmcp.dev/v1beta1\nkind: VirtualMCPServer\nmetadata: {{name: {name}}}\nspec:\n  groupRef: {{name: tools}}\n  incomingAuth: {{type: oidc, oidcConfigRef: {{name: idp, audience: same}}}}\n"
        )
    };
    let rest = "---\napiVersion: vmcp.dev/v1beta1\nkind: MCPGroup\nmetadata: {name: tools}\nspec: {}\n---\napiVersion: vmcp.dev/v1beta1\nkind: MCPOIDCConfig\nmetadata: {name: idp}\nspec: {type: inline, inline: {issuer: 'https://idp.example.com'}}\n";
    let one = run(&["check", "-f", "-"], &format!("{}{rest}", server("a")));
    assert_eq!(one.code, 0, "{}", one.stdout);
    let two = run(&["check", "-f", "-"], &format!("{}{}{rest}", server("a"), server("b")));
    assert_eq!(two.code, 1);
    for expected in [
        "-:7: VirtualMCPServer default/a: spec.incomingAuth.oidcConfigRef.audience: \"same\" is also that of default/b",
        "-:14: VirtualMCPServer default/b: spec.incomingAuth.oidcConfigRef.audience: \"same\" is also that of default/a",
    ] {
        assert!(two.stdout.contains(expected), "{}", two.stdout);
    }
}

#[test]
fn json_has_same_findings() {
    let output = run(&["check", "-f", "-", "--output", "json"], MISTAKES);
    assert_eq!(output.code, 1);
    let result: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(result["valid"], false);
    let text = run(&["check", "-f", "-"], MISTAKES).stdout;
    let findings = result["findings"].as_array().unwrap();
    assert_eq!(findings.len(), text.lines().filter(|line| line.starts_with("-:")).count());
    assert_eq!(findings[0]["line"], 13);
    assert_eq!(findings[0]["object"], "VirtualMCPServer default/schema");
    assert_eq!(findings[0]["path"], "spec.incomingAuth.type");
}

#[test]
fn lists_count_as_their_items() {
    let list = r#"{"apiVersion": "v1", "kind": "List", "items": [
  {"apiVersion": "vmcp.dev/v1beta1", "kind": "MCPGroup", "metadata": {"name": "a"}, "spec": {}},
  {"apiVersion": "vmcp.dev/v1beta1", "kind": "MCPGroup", "metadata": {"name": "b"},
   "spec": {"description": 1}},
  {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "c"}}
]}"#;
    let output = run(&["check", "-f", "-"], list);
    assert_eq!(output.code, 1);
    let expected = "-:4: MCPGroup default/b: spec.description: ";
    assert!(output.stdout.starts_with(expected), "{}", output.stdout);
    assert_eq!(output.stdout.lines().count(), 1, "{}", output.stdout);
}

/// Resources to which no server refers, with one mistake or advice of each kind.
const UNUSED: &str = r"apiVersion: vmcp.dev/v1beta1
kind: MCPOIDCConfig
metadata: {name: idp}
spec:
  type: inline
  inline:
    issuer: ftp://idp.example.com
---
apiVersion: vmcp.dev/v1beta1
kind: MCPTelemetryConfig
metadata: {name: otel}
spec:
  openTelemetry:
    enabled: true
    endpoint: http://otel.example
    tracing: {enabled: true}
---
apiVersion: vmcp.dev/v1beta1
kind: MCPExternalAuthConfig
metadata: {name: exchange}
spec:
  type: tokenExchange
  tokenExchange:
    tokenUrl: http://idp.example.com/token
    audience: a
---
apiVersion: vmcp.dev/v1beta1
kind: MCPExternalAuthConfig
metadata: {name: issuer}
spec:
  type: embeddedAuthServer
  embeddedAuthServer:
    issuer: https://mcp.example.com
    upstreamProviders:
    - name: git
      type: oauth2
      oauth2Config:
        authorizationEndpoint: https://id.example.com/authorize
        tokenEndpoint: https://id.example.com/token
        clientId: tools
    - name: okta
      type: oidc
      oidcConfig: {issuerUrl: https://okta.example.com, clientId: tools}
---
apiVersion: vmcp.dev/v1beta1
kind: MCPServer
metadata: {name: server}
spec:
  image: i
  authServerRef: {name: issuer}
  authzConfig:
    type: inline
    inline:
      policies: ['permit(principal, action, resource);']
      primaryUpstreamProvider: okta
---
apiVersion: vmcp.dev/v1beta1
kind: MCPRemoteProxy
metadata: {name: proxy}
spec:
  remoteUrl: https://remote.example
  authServerRef: {name: absent}
";

#[test]
fn resources_without_servers_are_judged() {
    let output = run(&["check", "-f", "-"], UNUSED);
    assert_eq!(output.code, 1);
    let expected = [
        "-:7: MCPOIDCConfig default/idp: spec.inline.issuer: found",
        "-:15: MCPTelemetryConfig default/otel: spec.openTelemetry.endpoint: found",
        "MCPExternalAuthConfig default/exchange: spec.tokenExchange.tokenUrl: found",
        "-:50: MCPServer default/server: spec.authServerRef: MCPExternalAuthConfig issuer: found 2 upstream providers; allowed: one",
        "-:62: MCPRemoteProxy default/proxy: spec.authServerRef: MCPExternalAuthConfig absent does not exist",
    ];
    let lines: Vec<_> = output.stdout.lines().collect();
    assert_eq!(lines.len(), expected.len(), "{lines:#?}");
    for (line, expected) in lines.iter().zip(expected) {
        assert!(line.contains(expected), "{expected}\n{line}");
    }
    for expected in [
        "warning for MCPExternalAuthConfig default/issuer: without userInfo",
        "warning for MCPServer default/server: spec.authzConfig.inline.primaryUpstreamProvider okta",
    ] {
        assert!(output.stderr.contains(expected), "{}", output.stderr);
    }
    let json = run(&["check", "-f", "-", "--output", "json"], UNUSED).stdout;
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["advice"].as_array().unwrap().len(), 2);
    assert_eq!(json["findings"].as_array().unwrap().len(), 5);
}

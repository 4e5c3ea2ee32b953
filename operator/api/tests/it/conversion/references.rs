//! Keys that a conversion reads, before it is known which of them exist.

use vmcp_api::conversion::{Available, references};

use super::fixture::{inputs, parse};

const MANIFESTS: &str = "kind: VirtualMCPServer
metadata: {name: a, namespace: tools}
spec:
  groupRef: {name: tools}
  incomingAuth: {type: anonymous}
---
kind: MCPServerEntry
metadata: {name: entry, namespace: tools}
spec:
  remoteUrl: https://entry.example.com/mcp
  transport: streamable-http
  groupRef: {name: tools}
  externalAuthConfigRef: {name: injection}
  caBundleRef: {configMapRef: {name: ca, key: ca.crt}}
  headerForward:
    addHeadersFromSecret: [{headerName: X-Key, valueSecretRef: {name: header, key: key}}]
status: {phase: Valid}
---
kind: MCPExternalAuthConfig
metadata: {name: injection, namespace: tools}
spec: {type: headerInjection, headerInjection: {headerName: X-Api-Key, valueSecretRef: {name: auth, key: key}}}
";

#[test]
fn missing_key_hides_no_other() {
    let mut inputs = inputs(&parse(MANIFESTS));
    inputs.available = Available::default();
    let mut names: Vec<_> = references(&inputs).into_iter().map(|one| one.source.name).collect();
    names.sort();
    assert_eq!(names, ["auth", "ca", "header"]);
}

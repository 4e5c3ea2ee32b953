//! `vmcp-operator render`.

use serde_json::Value;

use super::{Output, documents, manifest, run};

fn render(input: &str) -> Output {
    run(&["render", "--image=example.com/vmcp:1", "-f", "-"], input)
}

fn everything() -> String {
    std::fs::read_to_string(manifest("everything.yaml")).unwrap()
}

#[test]
fn objects_come_in_order_of_writes() {
    let output = render(&everything());
    assert_eq!(output.code, 0, "{}", output.stderr);
    let objects = documents(&output.stdout);
    let name = |object: &Value| {
        assert_eq!(object["metadata"]["namespace"], "team");
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        format!("{} {}", text(&object["kind"]), text(&object["metadata"]["name"]))
    };
    let names: Vec<_> = objects.iter().map(name).collect();
    assert_eq!(
        names,
        [
            "ServiceAccount everything-vmcp",
            "Role everything-vmcp",
            "RoleBinding everything-vmcp",
            "Secret everything-vmcp-seal",
            "Secret everything-vmcp-secrets",
            "ConfigMap everything-vmcp-config",
            "Service vmcp-everything-peers",
            "Service vmcp-everything",
            "Deployment everything-vmcp",
            "Lease everything-vmcp-status",
            "Service embedding-embed",
            "StatefulSet embed-embedding",
        ]
    );
    assert_eq!(render(&everything()).stdout, output.stdout);
}

#[test]
fn values_of_secrets_are_never_printed() {
    let Output { stdout, stderr, .. } = render(&everything());
    assert!(stdout.contains("password of Secret redis"), "{stdout}");
    assert!(!stdout.contains("value-of-password") && !stderr.contains("value-of-password"));
}

#[test]
fn missing_objects_are_named() {
    let output = render(&everything());
    for key in ["okta", "signing.pem", "header", "otel"] {
        let missing =
            format!("missing for VirtualMCPServer team/everything: key {key} of Secret keys");
        assert!(output.stderr.contains(&missing), "{}", output.stderr);
    }
    let workload = "---\napiVersion: vmcp.dev/v1beta1\nkind: MCPServer\nmetadata: {name: local, namespace: team}\nspec: {image: i, groupRef: {name: tools}}\n";
    let output = render(&format!("{}{workload}", everything()));
    assert_eq!(output.code, 0);
    assert!(output.stderr.contains("status.url of MCPServer local"), "{}", output.stderr);
}

#[test]
fn invalid_server_does_not_hide_others() {
    let invalid = "---\napiVersion: vmcp.dev/v1beta1\nkind: VirtualMCPServer\nmetadata: {name: other, namespace: team}\nspec: {groupRef: {name: absent}, incomingAuth: {type: anonymous}}\n";
    let output = render(&format!("{}{invalid}", everything()));
    assert_eq!(output.code, 1);
    assert!(output.stderr.contains("MCPGroup absent does not exist"), "{}", output.stderr);
    assert_eq!(documents(&output.stdout).len(), 12);
}

#[test]
fn nothing_to_render_is_error() {
    let output = render("apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n");
    assert_eq!(output.code, 1);
    assert!(output.stderr.contains("nothing to render"), "{}", output.stderr);
    assert_eq!(run(&["render", "-f", "-"], "").code, 2);
}

/// The file is also validated against the schemas of Kubernetes' releases.
#[test]
fn rendered_objects_are_those_of_file() {
    let arguments = ["render", "--image=registry.example.com/vmcp:1.2.3", "-f", "-"];
    let rendered = run(&arguments, &everything()).stdout;
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/command");
    let file = folder.join("rendered/everything.yaml");
    if std::env::var_os("VMCP_WRITE_SNAPSHOTS").is_some() {
        std::fs::write(&file, &rendered).unwrap();
    }
    let run_this = "differs; run: VMCP_WRITE_SNAPSHOTS=1 cargo test -p vmcp-operator rendered";
    assert_eq!(std::fs::read_to_string(&file).unwrap(), rendered, "{} {run_this}", file.display());
}

//! Mistakes that the webhook refuses, and writes that it lets through.

use serde_json::{Value, json};

use super::*;
use crate::support::resource_of;

const DENIED: &str = "admission webhook \"validation.vmcp.dev\" denied the request: ";

#[tokio::test(start_paused = true)]
async fn mistakes_that_rules_miss_are_refused() {
    let cluster = with_webhook().await;
    let config = |config: Value| server("a", |spec| spec["config"] = config);
    let steps = json!([{"id": "a", "tool": "b.c", "condition": "{{"}]);
    let role = "arn:aws:iam::123456789012:role/a";
    let matcher = matcher_of(role);
    let outgoing =
        json!({"source": "inline", "backends": {"b": {"type": "aws_sts", "awsSts": matcher}}});
    let callers = json!({"type": "oidc", "oidcConfigRef": {"name": "absent", "audience": "a"}});
    let aws = server("a", |spec| {
        spec["incomingAuth"] = callers;
        spec["config"] = json!({"outgoingAuth": outgoing});
    });
    let template = server("a", |spec| {
        spec["podTemplateSpec"] = json!({"spec": {"restartPolicy": "Never"}});
    });
    let exchange = json!({"type": "tokenExchange", "tokenExchange": {"tokenUrl": "http://t.example.com/token", "audience": "x"}});
    for (object, path) in [
        (with_bad_policy("a"), "spec.incomingAuth.authzConfig.inline.policies[0]: "),
        (
            config(json!({"compositeTools": [{"name": "t", "steps": steps}]})),
            "spec.config.compositeTools[0].steps[0].condition: ",
        ),
        (aws, "spec.config.outgoingAuth.backends.b.awsSts.roleMappings[0].matcher: "),
        (template, "spec.podTemplateSpec.spec.restartPolicy: "),
        (
            config(
                json!({"telemetry": {"endpoint": "ftp://c.example.com", "tracingEnabled": true}}),
            ),
            "spec.config.telemetry.endpoint: ",
        ),
        (
            resource_of(
                "MCPExternalAuthConfig",
                "a",
                json!({"type": "awsSts", "awsSts": matcher_of(role)}),
            ),
            "spec.awsSts.roleMappings[0].matcher: ",
        ),
        (resource_of("MCPExternalAuthConfig", "a", exchange), "spec.tokenExchange.tokenUrl: "),
    ] {
        let kind = object["kind"].as_str().unwrap().to_owned();
        let message = refusal(create(&cluster, &object).await);
        let rest = message.strip_prefix(DENIED).unwrap_or_else(|| panic!("{message}"));
        assert!(rest.starts_with(path), "{message}");
        assert!(cluster.find(&kind, "a").is_none(), "{path}");
    }
}

fn matcher_of(role: &str) -> Value {
    json!({"region": "eu-central-1", "roleMappings": [{"roleArn": role, "matcher": "claims.groups["}]})
}

#[tokio::test(start_paused = true)]
async fn message_has_all_mistakes_and_no_secret() {
    let cluster = with_webhook().await;
    let mut object = with_bad_policy("a");
    let injection = json!({"headerName": "host", "headerValue": "s3cr3t"});
    object["spec"]["config"] = json!({
        "outgoingAuth": {"source": "inline", "backends": {"b": {"type": "header_injection", "headerInjection": injection}}},
    });
    let message = refusal(create(&cluster, &object).await);
    assert!(message.contains("policies[0]: "), "{message}");
    assert!(message.contains("headerInjection.headerName: "), "{message}");
    assert!(!message.contains("s3cr3t"), "{message}");
}

#[tokio::test(start_paused = true)]
async fn valid_server_is_stored_with_warnings() {
    let cluster = with_webhook().await;
    let object = server("a", |spec| {
        spec["config"] =
            json!({"telemetry": {"endpoint": "https://c.example.com", "tracingEnabled": true}});
    });
    create(&cluster, &object).await.unwrap();
    let warnings = requests::warnings(&cluster, &object).await;
    let expected = "spec.config.telemetry is deprecated";
    assert!(warnings.iter().any(|warning| warning.contains(expected)), "{warnings:?}");
}

#[tokio::test(start_paused = true)]
async fn references_may_come_later() {
    let cluster = with_webhook().await;
    let object = server("a", |spec| {
        spec["incomingAuth"] =
            json!({"type": "oidc", "oidcConfigRef": {"name": "absent", "audience": "a"}});
        spec["telemetryConfigRef"] = json!({"name": "absent"});
    });
    create(&cluster, &object).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn update_is_validated_if_spec_changes() {
    let cluster = with_webhook().await;
    // Stored before the webhook was there.
    cluster.put(with_bad_policy("a"));
    let labels = json!({"metadata": {"labels": {"a": "b"}}});
    patch(&cluster, "VirtualMCPServer", labels).await.unwrap();
    let message =
        refusal(patch(&cluster, "VirtualMCPServer", json!({"spec": {"replicas": 2}})).await);
    assert!(message.contains("policies[0]: "), "{message}");
    let mended = json!({"spec": {"incomingAuth": {"authzConfig": null}}});
    patch(&cluster, "VirtualMCPServer", mended).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn finalizer_of_invalid_object_goes() {
    let cluster = with_webhook().await;
    let exchange = json!({"tokenUrl": "http://t.example.com/token", "audience": "x"});
    let config = json!({"type": "tokenExchange", "tokenExchange": exchange});
    cluster.put(resource_of("MCPExternalAuthConfig", "a", config));
    cluster.settle().await;
    let finalizers = &cluster.get("MCPExternalAuthConfig", "a")["metadata"]["finalizers"];
    assert_eq!(*finalizers, json!(["vmcp.dev/referenced"]));
    cluster.delete("MCPExternalAuthConfig", "a").await;
    cluster.settle().await;
    assert!(cluster.find("MCPExternalAuthConfig", "a").is_none());
}

#[tokio::test(start_paused = true)]
async fn condition_tells_what_absent_webhook_let_through() {
    let mut cluster = with_webhook().await;
    let (sender, _) = connections();
    route(&cluster, &sender);
    create(&cluster, &with_bad_policy("a")).await.unwrap();
    cluster.settle().await;
    let (status, _, message) = cluster.condition("a", "Valid").unwrap();
    assert_eq!(status, "False");
    let path = "spec.incomingAuth.authzConfig.inline.policies[0]: ";
    assert!(message.starts_with(path), "{message}");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn dry_run_is_validated() {
    let cluster = with_webhook().await;
    let object = serde_json::from_value(with_bad_policy("a")).unwrap();
    let parameters = PostParams { dry_run: true, ..PostParams::default() };
    let result = cluster.api("VirtualMCPServer").create(&parameters, &object).await;
    assert!(refusal(result).starts_with(DENIED));
}

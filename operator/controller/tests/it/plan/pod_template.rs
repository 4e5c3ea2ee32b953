//! `podTemplateSpec`: a strategic merge patch over the generated template.

use k8s_openapi::api::core::v1::PodSpec;
use vmcp_operator::plan::{CHECKSUM, CONTAINER};

use super::*;

fn pod(plan: &Plan) -> PodSpec {
    plan.deployment.spec.as_ref().unwrap().template.spec.clone().unwrap()
}

/// Plans a server whose template has a pod spec.
fn with_pod(spec: &Value) -> Result<Plan, PlanError> {
    with_template(&json!({ "spec": spec }))
}

/// Plans a server whose template has a container of the server.
fn with_container(mut container: Value) -> Result<Plan, PlanError> {
    container["name"] = CONTAINER.into();
    with_pod(&json!({"containers": [container]}))
}

#[test]
fn errors_name_the_path_in_the_template() {
    for (template, path) in [
        (json!({"spec": {"containerz": []}}), "spec.containerz"),
        (json!({"spec": 1}), "spec"),
        (json!({"metadata": {"labels": {"a": 1}}}), "metadata.labels.a"),
        (json!({"spec": {"containers": {}}}), "spec.containers"),
        (
            json!({"spec": {"containers": [{"name": "a"}, {"name": "vmcp", "env": [{"name": "A", "valeu": "b"}]}]}}),
            "spec.containers[1].env[0].valeu",
        ),
        (
            json!({"spec": {"terminationGracePeriodSeconds": "5"}}),
            "spec.terminationGracePeriodSeconds",
        ),
        (json!({"spec": {"containers": [{"image": "x"}]}}), "spec.containers"),
        (
            json!({"spec": {"containers": [{"name": "vmcp", "$patch": "delete"}]}}),
            "spec.containers",
        ),
        (
            json!({"spec": {"containers": [{"name": "vmcp", "$patch": "remove"}]}}),
            "spec.containers",
        ),
        (json!({"spec": {"serviceAccountName": "other"}}), "spec.serviceAccountName"),
        (json!({"spec": {"restartPolicy": "Never"}}), "spec.restartPolicy"),
        (
            json!({"spec": {"containers": [{"name": "vmcp", "args": ["--drain", "1s", "--port=1"]}]}}),
            "spec.containers[0].args[2]",
        ),
    ] {
        let Err(error) = with_template(&template) else { panic!("accepted: {template}") };
        assert_eq!(error.path, format!("spec.podTemplateSpec.{path}"), "{template} {error}");
        let condition = error.condition();
        assert_eq!(
            (&*condition.type_, &*condition.reason),
            ("PodTemplateSpecValid", "InvalidPodTemplateSpec")
        );
    }
}

#[test]
fn values_merge_by_name() {
    let plan = with_pod(&json!({
        "securityContext": {"fsGroup": 2000},
        "automountServiceAccountToken": false,
        "containers": [
            {"name": "sidecar", "image": "sidecar:1"},
            {
                "name": "vmcp",
                "image": "other:1",
                "resources": {"limits": {"cpu": null, "memory": "2Gi"}},
                "livenessProbe": null,
                "env": [{"name": "RUST_LOG", "value": "debug"}],
            },
        ],
    }))
    .unwrap();
    let (pod, container) = (pod(&plan), container(&plan));
    assert_eq!(pod.containers.len(), 2);
    assert_eq!(container.image.as_deref(), Some("other:1"));
    assert_eq!(container.liveness_probe, None);
    assert!(container.readiness_probe.is_some());
    let limits = container.resources.unwrap().limits.unwrap();
    assert_eq!(
        limits.into_iter().map(|(name, limit)| (name, limit.0)).collect::<Vec<_>>(),
        [("memory".to_owned(), "2Gi".to_owned())]
    );
    let context = pod.security_context.unwrap();
    assert_eq!((context.fs_group, context.run_as_user), (Some(2000), Some(1000)));
    assert_eq!(pod.automount_service_account_token, Some(false));
    let names: Vec<_> = container.env.unwrap().into_iter().map(|variable| variable.name).collect();
    assert_eq!(names, ["VMCP_NAME", "VMCP_NAMESPACE", "POD_NAME", "POD_IP", "RUST_LOG"]);
}

#[test]
fn options_are_added_to_the_generated_ones() {
    let generated = container(&with_pod(&json!({})).unwrap()).args.unwrap();
    let plan = with_container(json!({"args": ["--allow-host=a.example.com", "--drain=9s"]}));
    let arguments = container(&plan.unwrap()).args.unwrap();
    let mut expected: Vec<_> =
        generated.into_iter().filter(|argument| !argument.starts_with("--drain")).collect();
    expected.extend(["--allow-host=a.example.com".to_owned(), "--drain=9s".to_owned()]);
    assert_eq!(arguments, expected);
    for none in [json!({"args": null}), json!({"args": [], "command": []}), json!({})] {
        assert!(container(&with_container(none).unwrap()).args.unwrap().len() > 5);
    }
}

#[test]
fn drain_follows_grace_period() {
    for (grace, drain, notice) in
        [(60, 30, Some(5)), (600, 570, Some(5)), (8, 2, Some(2)), (0, 1, None)]
    {
        let plan = with_pod(&json!({"terminationGracePeriodSeconds": grace})).unwrap();
        let container = container(&plan);
        assert!(container.args.unwrap().contains(&format!("--drain={drain}s")), "{grace}");
        let sleep = container.lifecycle.and_then(|lifecycle| lifecycle.pre_stop?.sleep);
        assert_eq!(sleep.map(|sleep| sleep.seconds), notice, "{grace}");
        assert_eq!(pod(&plan).termination_grace_period_seconds, Some(grace));
    }
}

#[test]
fn template_cannot_change_owned_parts() {
    let untouched = with_pod(&json!({})).unwrap();
    let plan = with_template(&json!({
        "metadata": {
            "name": "x",
            "labels": {"app.kubernetes.io/instance": "x", "app.kubernetes.io/name": null},
            "annotations": {CHECKSUM: "x"},
        },
        "spec": {
            "volumes": [{"name": "vmcp-config", "emptyDir": {}}, {"name": "vmcp-seal", "$patch": "delete"}],
            "containers": [{
                "name": "vmcp",
                "env": [{"name": "POD_IP", "value": "1.2.3.4"}, {"name": "VMCP_NAME", "$patch": "delete"}],
                "volumeMounts": [
                    {"mountPath": "/etc/vmcp/config", "name": "other"},
                    {"mountPath": "/etc/vmcp/secrets", "$patch": "delete"},
                ],
            }],
        },
    }));
    assert_eq!(plan.unwrap(), untouched);
    let replaced = with_template(&json!({
        "metadata": {"$patch": "replace"},
        "spec": {"$patch": "replace", "containers": [{"name": "vmcp", "image": "x"}]},
    }));
    let replaced = replaced.unwrap();
    let template = replaced.deployment.spec.clone().unwrap().template;
    let labels = template.metadata.unwrap().labels.unwrap();
    assert_eq!(replaced.service.spec.as_ref().unwrap().selector.as_ref(), Some(&labels));
    let (replaced, untouched) = (container(&replaced), container(&untouched));
    assert_eq!(replaced.args, untouched.args);
    assert_eq!(replaced.env, untouched.env);
}

#[test]
fn audit_file_needs_writable_volume() {
    let planned = |file: &str, container: Value| {
        let yaml = format!("{CONFIGURATION}audit: {{enabled: true, logFile: '{file}'}}\n");
        let template = json!({"spec": {"containers": [container]}});
        let server = server("tools", json!({"podTemplateSpec": template}));
        plan(&server, &conversion(&yaml), &settings())
    };
    let container = |mounts: Value| json!({"name": "vmcp", "volumeMounts": mounts});
    let volume = json!([{"name": "audit", "mountPath": "/var/log"}]);
    for file in ["", concat!("/tmp", "/audit.log"), "/var/log/audit.log", "/var/log/a/audit.log"] {
        assert!(planned(file, container(volume.clone())).is_ok(), "{file}");
    }
    let read_only = json!([
        {"name": "audit", "mountPath": "/var/log"},
        {"name": "other", "mountPath": "/var/log/a", "readOnly": true},
    ]);
    for file in [
        "audit.log",
        "/audit.log",
        "/var/log",
        "/var/logs/x",
        "/var/log/a/audit.log",
        "/etc/vmcp/secrets/x",
    ] {
        let Err(error) = planned(file, container(read_only.clone())) else { panic!("{file}") };
        assert_eq!(error.path, "spec.config.audit.logFile", "{file}");
        assert_eq!(error.condition().reason, "ValidationFailed");
    }
}

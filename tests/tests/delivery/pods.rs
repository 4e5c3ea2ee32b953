//! Pods of the charts: the objects that select them, their confinement, their number, and the keys that reach them.

use serde_json::{Value, json};
use vmcp_tests::counterparts::{Helm, Release};

use super::cases;
use super::support::{RELEASE, arguments, chart, container, find, helm, objects, render};

/// Charts with pods.
const CHARTS: [&str; 2] = ["vmcp-operator", "vmcp"];

/// Kinds of volumes that the Pod Security Standard "restricted" permits.
const RESTRICTED_VOLUMES: [&str; 8] = [
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "persistentVolumeClaim",
    "projected",
    "secret",
];

/// Renders all cases of the charts, each with a name for messages.
async fn rendered(helm: &Helm) -> Vec<(String, Vec<Value>)> {
    let mut all = Vec::new();
    for name in CHARTS {
        for (case, values) in cases::of(name) {
            let objects = render(helm, name, &values).await.unwrap();
            all.push((format!("{name}, {case}"), objects));
        }
    }
    all
}

fn of_kind<'a>(objects: &'a [Value], kind: &str) -> Vec<&'a Value> {
    objects.iter().filter(|object| object["kind"] == kind).collect()
}

/// Returns the Deployment with the pods of a chart.
fn main_deployment(objects: &[Value]) -> &Value {
    let all = of_kind(objects, "Deployment");
    let mut with_pods = all.into_iter().filter(|one| container(one)["args"].is_array());
    let (Some(deployment), None) = (with_pods.next(), with_pods.next()) else {
        panic!("one Deployment has pods")
    };
    deployment
}

fn pod_spec(deployment: &Value) -> &Value {
    &deployment["spec"]["template"]["spec"]
}

fn pod_labels(deployment: &Value) -> &Value {
    &deployment["spec"]["template"]["metadata"]["labels"]
}

/// Returns `true` if the labels have all entries of a selector, which is not empty.
fn is_selected(selector: &Value, labels: &Value) -> bool {
    let selector = selector.as_object().unwrap();
    !selector.is_empty() && selector.iter().all(|(name, value)| labels[name] == *value)
}

/// Returns what selects pods: kind and name of each object, with its selector.
fn selectors(objects: &[Value]) -> Vec<(String, &Value)> {
    let selector = |object: &Value| match object["kind"].as_str().unwrap() {
        "Service" => Some("/spec/selector"),
        "PodDisruptionBudget" => Some("/spec/selector/matchLabels"),
        "NetworkPolicy" => Some("/spec/podSelector/matchLabels"),
        _ => None,
    };
    let named = |object: &Value| format!("{} {}", object["kind"], object["metadata"]["name"]);
    let all = objects.iter().filter_map(|one| {
        let found = one.pointer(selector(one)?).unwrap_or(&Value::Null);
        Some((named(one), found))
    });
    all.collect()
}

/// Returns the names of the ports of a Deployment's container.
fn port_names(deployment: &Value) -> Vec<&str> {
    let ports = container(deployment)["ports"].as_array().unwrap().iter();
    ports.map(|port| port["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn objects_select_pods_of_their_release() {
    let Some(helm) = helm().await else { return };
    let mut kinds = std::collections::BTreeSet::new();
    for (of, objects) in rendered(&helm).await {
        let main = main_deployment(&objects);
        for deployment in of_kind(&objects, "Deployment") {
            let selector = &deployment["spec"]["selector"]["matchLabels"];
            assert!(is_selected(selector, pod_labels(deployment)), "{of}");
            let others = of_kind(&objects, "Deployment").into_iter().filter(|it| *it != deployment);
            for other in others {
                assert!(!is_selected(selector, pod_labels(other)), "{of}");
            }
        }
        for (name, selector) in selectors(&objects) {
            kinds.insert(name.split(' ').next().unwrap().to_owned());
            for deployment in of_kind(&objects, "Deployment") {
                let expected = deployment == main;
                assert_eq!(is_selected(selector, pod_labels(deployment)), expected, "{of}: {name}");
            }
        }
    }
    assert_eq!(kinds.len(), 3, "{kinds:?}");
}

#[tokio::test]
async fn no_object_selects_pods_of_another_release() {
    let Some(helm) = helm().await else { return };
    let values = json!({
        "podDisruptionBudget": {"enabled": true}, "networkPolicy": {"enabled": true},
        "serviceMonitor": {"enabled": true},
    });
    let mut all = Vec::new();
    for name in CHARTS {
        for release in ["a", "b", "vmcp", "vmcp-operator"] {
            let release = Release { name: release, namespace: RELEASE.namespace };
            let text = helm.template(&chart(name), release, &values).await.unwrap();
            all.push((format!("{name} {}", release.name), objects(&text)));
        }
    }
    for (own, objects) in &all {
        for (name, selector) in selectors(objects) {
            for (other, others) in &all {
                let labels = pod_labels(main_deployment(others));
                assert_eq!(is_selected(selector, labels), own == other, "{own}, {name}: {other}");
            }
        }
    }
}

#[tokio::test]
async fn ports_and_targets_exist() {
    let Some(helm) = helm().await else { return };
    for (of, objects) in rendered(&helm).await {
        let main = main_deployment(&objects);
        let ports = port_names(main);
        for service in of_kind(&objects, "Service") {
            for port in service["spec"]["ports"].as_array().unwrap() {
                assert!(ports.contains(&port["targetPort"].as_str().unwrap()), "{of}: {port}");
            }
        }
        for policy in of_kind(&objects, "NetworkPolicy") {
            let rules = policy["spec"]["ingress"].as_array().unwrap().iter();
            for port in rules.flat_map(|rule| rule["ports"].as_array().unwrap()) {
                assert!(ports.contains(&port["port"].as_str().unwrap()), "{of}: {port}");
            }
        }
        for probe in ["startupProbe", "livenessProbe", "readinessProbe"] {
            let port = &container(main)[probe]["httpGet"]["port"];
            assert!(port.is_null() || ports.contains(&port.as_str().unwrap()), "{of}: {probe}");
        }
        for scaler in of_kind(&objects, "HorizontalPodAutoscaler") {
            let target = &scaler["spec"]["scaleTargetRef"];
            let (kind, name) = (target["kind"].as_str().unwrap(), target["name"].as_str().unwrap());
            assert_eq!(find(&objects, kind, name), main, "{of}");
        }
        for monitor in of_kind(&objects, "ServiceMonitor") {
            let selector = &monitor["spec"]["selector"]["matchLabels"];
            let mut services = of_kind(&objects, "Service");
            services.retain(|service| is_selected(selector, &service["metadata"]["labels"]));
            assert_eq!(services.len(), 1, "{of}: one Service has the metrics");
            let port = &monitor["spec"]["endpoints"][0]["port"];
            let ports = services[0]["spec"]["ports"].as_array().unwrap();
            assert!(ports.iter().any(|one| one["name"] == *port), "{of}");
        }
    }
}

#[tokio::test]
async fn routes_lead_to_service() {
    let Some(helm) = helm().await else { return };
    let mut count = 0;
    for (case, values) in cases::of("vmcp") {
        let objects = render(&helm, "vmcp", &values).await.unwrap();
        for ingress in of_kind(&objects, "Ingress") {
            let backend = &ingress["spec"]["rules"][0]["http"]["paths"][0]["backend"]["service"];
            let service = find(&objects, "Service", backend["name"].as_str().unwrap());
            assert_eq!(service["spec"]["ports"][0]["name"], backend["port"]["name"], "{case}");
            count += 1;
        }
        for route in of_kind(&objects, "HTTPRoute") {
            let backend = &route["spec"]["rules"][0]["backendRefs"][0];
            let service = find(&objects, "Service", backend["name"].as_str().unwrap());
            assert_eq!(service["spec"]["ports"][0]["port"], backend["port"], "{case}");
            count += 1;
        }
    }
    assert!(count >= 2);
}

#[tokio::test]
async fn port_between_replicas_admits_replicas_alone() {
    let Some(helm) = helm().await else { return };
    let values = json!({"networkPolicy": {"enabled": true, "restrictEgress": true}});
    let objects = render(&helm, "vmcp", &values).await.unwrap();
    let labels = pod_labels(main_deployment(&objects));
    let policy = find(&objects, "NetworkPolicy", "main-vmcp");
    for (direction, peers) in [("ingress", "from"), ("egress", "to")] {
        let rules = policy["spec"][direction].as_array().unwrap().iter();
        let own: Vec<_> = rules.filter(|rule| rule["ports"][0]["port"] == "peers").collect();
        let [rule] = own[..] else { panic!("{direction} has one rule for the port") };
        let [peer] = &rule[peers].as_array().unwrap()[..] else { panic!("{rule} has one peer") };
        // Without a namespace, the peer is in that of the policy.
        assert_eq!(peer.as_object().unwrap().len(), 1, "{peer}");
        assert!(is_selected(&peer["podSelector"]["matchLabels"], labels), "{peer}");
    }
}

#[tokio::test]
async fn autoscaler_owns_number_of_replicas() {
    let Some(helm) = helm().await else { return };
    for name in CHARTS {
        let deployment = async |values: Value| {
            let objects = render(&helm, name, &values).await.unwrap();
            let scalers = of_kind(&objects, "HorizontalPodAutoscaler").len();
            (main_deployment(&objects)["spec"].get("replicas").cloned(), scalers)
        };
        let scaled = json!({"replicaCount": 3, "autoscaling": {"enabled": true}});
        assert_eq!(deployment(scaled).await, (None, 1), "{name}");
        for count in [0, 1, 3] {
            let fixed = deployment(json!({"replicaCount": count})).await;
            assert_eq!(fixed, (Some(json!(count)), 0), "{name}");
        }
    }
}

#[tokio::test]
async fn pods_suit_restricted_standard() {
    let Some(helm) = helm().await else { return };
    for (of, objects) in rendered(&helm).await {
        for deployment in of_kind(&objects, "Deployment") {
            let spec = pod_spec(deployment);
            for shared in ["hostNetwork", "hostPID", "hostIPC", "hostUsers"] {
                assert!(spec[shared].is_null(), "{of}: {shared}");
            }
            for volume in spec["volumes"].as_array().into_iter().flatten() {
                let mut kinds = volume.as_object().unwrap().keys().filter(|key| *key != "name");
                assert!(kinds.all(|kind| RESTRICTED_VOLUMES.contains(&kind.as_str())), "{volume}");
            }
            let containers = spec["containers"].as_array().unwrap();
            if of.ends_with("no contexts") {
                let all = containers.iter().chain([spec]);
                assert!(all.map(|one| &one["securityContext"]).all(Value::is_null), "{of}");
                continue;
            }
            let pod = &spec["securityContext"];
            assert_eq!(pod["runAsNonRoot"], true, "{of}");
            assert_eq!(pod["seccompProfile"], json!({"type": "RuntimeDefault"}), "{of}");
            for container in containers {
                let expected = json!({
                    "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
                    "capabilities": {"drop": ["ALL"]},
                });
                assert_eq!(container["securityContext"], expected, "{of}: {}", container["name"]);
                for port in container["ports"].as_array().into_iter().flatten() {
                    assert!(port["hostPort"].is_null(), "{of}: {port}");
                }
            }
        }
    }
}

#[tokio::test]
async fn only_group_of_pod_reads_secrets() {
    let Some(helm) = helm().await else { return };
    let kind = "security.openshift.io/v1/SecurityContextConstraints";
    let openshift = helm.clone().with_kind(kind);
    let own = json!({"podSecurityContext": {"fsGroup": 7}});
    let none = json!({"podSecurityContext": {"fsGroup": null}});
    let cases = [
        (&helm, json!({}), json!(65532), json!(0o440)),
        (&helm, own.clone(), json!(7), json!(0o440)),
        // Root owns the files, and the user of the image has to read them.
        (&helm, none, json!(null), json!(null)),
        // The cluster assigns the group.
        (&openshift, json!({}), json!(null), json!(0o440)),
        (&openshift, own, json!(7), json!(0o440)),
    ];
    for (helm, mut values, group, mode) in cases {
        values["secrets"] = json!({"existingSecret": "a"});
        values["adminToken"] = json!({"existingSecret": "b"});
        let objects = render(helm, "vmcp", &values).await.unwrap();
        let spec = pod_spec(main_deployment(&objects));
        assert_eq!(spec["securityContext"]["fsGroup"], group, "{values}");
        let volumes = spec["volumes"].as_array().unwrap().iter();
        let secrets: Vec<_> = volumes.filter_map(|volume| volume.get("secret")).collect();
        assert_eq!(secrets.len(), 3);
        assert!(secrets.iter().all(|secret| secret["defaultMode"] == mode), "{secrets:?}");
    }
}

#[tokio::test]
async fn server_gets_no_token_of_api_server() {
    let Some(helm) = helm().await else { return };
    let objects = render(&helm, "vmcp", &json!({})).await.unwrap();
    assert_eq!(pod_spec(main_deployment(&objects))["automountServiceAccountToken"], false);
    let account = find(&objects, "ServiceAccount", "main-vmcp");
    assert_eq!(account["automountServiceAccountToken"], false);
}

/// Returns the Secret whose volume is mounted in a directory, which the container cannot write to.
fn mounted_secret(deployment: &Value, directory: &str) -> Option<String> {
    let mounts = container(deployment)["volumeMounts"].as_array().unwrap();
    let mount = mounts.iter().find(|mount| mount["mountPath"] == directory)?;
    assert_eq!(mount["readOnly"], true, "{mount}");
    // The kubelet never renews a mount of a part.
    assert!(mount["subPath"].is_null(), "{mount}");
    let volumes = pod_spec(deployment)["volumes"].as_array().unwrap();
    let volume = volumes.iter().find(|volume| volume["name"] == mount["name"]).unwrap();
    Some(volume["secret"]["secretName"].as_str().unwrap().to_owned())
}

/// Returns the value of an option of the container.
fn option(deployment: &Value, name: &str) -> Option<String> {
    let all = arguments(container(deployment));
    let mut values = all.iter().filter_map(|one| one.strip_prefix(name)?.strip_prefix('='));
    let value = values.next().map(str::to_owned);
    assert_eq!(values.next(), None, "{name} is there once");
    value
}

/// Returns the variable of the container.
fn variable<'a>(deployment: &'a Value, name: &str) -> Option<&'a Value> {
    let all = container(deployment)["env"].as_array().unwrap();
    all.iter().find(|variable| variable["name"] == name)
}

/// Returns a variable from the key of a Secret.
fn from_secret(name: &str, secret: &str, key: &str) -> Value {
    json!({"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}})
}

#[tokio::test]
async fn keys_reach_server() {
    let Some(helm) = helm().await else { return };
    let given = json!({
        "sealKey": {"existingSecret": "ring"}, "secrets": {"existingSecret": "backends"},
        "adminToken": {"existingSecret": "admin", "key": "t"},
    });
    let objects = render(&helm, "vmcp", &given).await.unwrap();
    let deployment = main_deployment(&objects);
    for (name, secret) in [("--seal-key", "ring"), ("--env-dir", "backends")] {
        let directory = option(deployment, name).unwrap();
        assert_eq!(mounted_secret(deployment, &directory).as_deref(), Some(secret), "{name}");
    }
    let token = option(deployment, "--admin-token-file").unwrap();
    let (directory, file) = token.rsplit_once('/').unwrap();
    assert_eq!(file, "t");
    assert_eq!(mounted_secret(deployment, directory).as_deref(), Some("admin"));
    assert!(of_kind(&objects, "Secret").is_empty(), "an existing ring is not replaced");

    let objects = render(&helm, "vmcp", &json!({})).await.unwrap();
    let deployment = main_deployment(&objects);
    let ring = mounted_secret(deployment, &option(deployment, "--seal-key").unwrap()).unwrap();
    assert!(find(&objects, "Secret", &ring)["data"]["ring"].is_string());
    for name in ["--env-dir", "--admin-token-file"] {
        assert_eq!(option(deployment, name), None);
    }
}

#[tokio::test]
async fn keys_of_redis_reach_server() {
    let Some(helm) = helm().await else { return };
    let variables = ["VMCP_SESSION_REDIS_PASSWORD", "VMCP_SESSION_REDIS_USERNAME"];
    let keys = json!({"existingSecret": "s", "passwordKey": "p", "usernameKey": "u"});
    let cases = [
        (keys, [Some("p"), Some("u")]),
        (json!({"existingSecret": "s"}), [Some("redis-password"), None]),
        (json!({}), [None, None]),
    ];
    for (mut redis, expected) in cases {
        redis["address"] = "redis.data:6379".into();
        let objects = render(&helm, "vmcp", &json!({"redis": redis})).await.unwrap();
        let deployment = main_deployment(&objects);
        for (name, key) in variables.into_iter().zip(expected) {
            let expected = key.map(|key| from_secret(name, "s", key));
            assert_eq!(variable(deployment, name).cloned(), expected, "{redis}");
        }
        let config = find(&objects, "ConfigMap", "main-vmcp-config");
        let config = config["data"]["config.yaml"].as_str().unwrap();
        let config: Value = serde_saphyr::from_str(config).unwrap();
        let storage = json!({
            "provider": "redis", "address": "redis.data:6379", "keyPrefix": "vmcp:team:main-vmcp:",
        });
        assert_eq!(config["sessionStorage"], storage);
    }
}

#[tokio::test]
async fn keys_of_redis_reach_operator() {
    let Some(helm) = helm().await else { return };
    let names = ["ADDRESS", "SECRET", "SECRET_KEY"];
    let own = json!({"address": "own:1", "existingSecret": "s", "existingSecretKey": "k"});
    let shared = json!({"host": "shared", "port": 2, "existingSecret": "t"});
    let cases = [
        (json!({"defaultRedis": own}), [Some("own:1"), Some("s"), Some("k")]),
        (
            json!({"global": {"redis": shared}}),
            [Some("shared:2"), Some("t"), Some("redis-password")],
        ),
        (json!({"defaultRedis": {"address": "own:1"}}), [Some("own:1"), None, None]),
        (json!({}), [None, None, None]),
    ];
    for (values, expected) in cases {
        let objects = render(&helm, "vmcp-operator", &values).await.unwrap();
        let deployment = main_deployment(&objects);
        for (name, expected) in names.into_iter().zip(expected) {
            let name = format!("VMCP_DEFAULT_REDIS_{name}");
            let value = variable(deployment, &name).map(|found| found["value"].as_str().unwrap());
            assert_eq!(value, expected, "{values}: {name}");
        }
    }
}

#[tokio::test]
async fn trusted_proxies_reach_server() {
    let Some(helm) = helm().await else { return };
    for (count, expected) in [(0, None), (2, Some("2"))] {
        let objects = render(&helm, "vmcp", &json!({"trustedProxies": count})).await.unwrap();
        let value = option(main_deployment(&objects), "--trusted-proxies");
        assert_eq!(value.as_deref(), expected);
    }
}

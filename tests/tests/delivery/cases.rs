//! Values with which the charts are rendered.

use serde_json::{Value, json};

/// Returns the cases of a chart, each with a name: the defaults, everything, and odd values.
pub(crate) fn of(chart: &str) -> Vec<(&'static str, Value)> {
    match chart {
        "vmcp-crds" => vec![
            ("defaults", json!({})),
            ("deleted", json!({"keep": false})),
            ("everything", json!({"labels": {"team": "a"}, "annotations": {"note": "b"}})),
        ],
        "vmcp-operator" => operator(),
        _ => server(),
    }
}

/// Returns the settings of pods, which both charts have.
fn pods() -> Value {
    json!({
        "imagePullSecrets": ["a", {"name": "b"}],
        "replicaCount": 3,
        "podAnnotations": {"note": "1"}, "podLabels": {"team": "a"},
        "priorityClassName": "system-cluster-critical",
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": [{"key": "a", "operator": "Exists", "effect": "NoSchedule"}],
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}]},
        ]}}},
        "topologySpreadConstraints": [{
            "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": {"team": "a"}},
        }],
        "volumes": [{"name": "ca", "configMap": {"name": "ca"}}],
        "volumeMounts": [{"name": "ca", "mountPath": "/etc/ca"}],
        "env": [{"name": "HTTPS_PROXY", "value": "http://proxy:3128"}],
        "autoscaling": {"enabled": true, "maxReplicas": 5, "targetMemoryUtilizationPercentage": 70},
        "podDisruptionBudget": {"enabled": true, "minAvailable": "50%"},
        "serviceMonitor": {"enabled": true, "labels": {"release": "prometheus"}},
        "serviceAccount": {"annotations": {"a": "b"}, "labels": {"c": "d"}},
    })
}

/// Adds members to an object.
fn with(mut object: Value, members: Value) -> Value {
    let Value::Object(members) = members else { panic!("{members} is an object") };
    object.as_object_mut().unwrap().extend(members);
    object
}

fn operator() -> Vec<(&'static str, Value)> {
    let everything = json!({
        "serverImage": {"repository": "r.example/vmcp", "digest": format!("sha256:{}", "0".repeat(64))},
        "defaultImagePullSecrets": ["c", {"name": "d"}],
        "imageDiscovery": {"enabled": true, "embeddingImage": "r.example/embed:1", "resources": {"limits": {"cpu": "1"}}},
        "defaultRedis": {"address": "redis:6379", "existingSecret": "redis"},
        "openshift": false, "logLevel": "debug",
        "rbac": {"scope": "namespace", "allowedNamespaces": ["a", "b"]},
        "leaderElectionRole": {
            "name": "leader", "binding": {"name": "leaders"},
            "rules": [{"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["*"]}],
        },
        "networkPolicy": {
            "enabled": true,
            "metricsFrom": [{"namespaceSelector": {"matchLabels": {"a": "b"}}}],
            "webhookFrom": [{"ipBlock": {"cidr": "10.0.0.0/8"}}],
            "extraEgress": [{"to": [{"ipBlock": {"cidr": "10.1.0.0/16"}}]}],
        },
    });
    vec![
        ("defaults", json!({})),
        ("everything", with(pods(), everything)),
        (
            "shared redis",
            json!({"global": {"redis": {"host": "r", "existingSecret": "s"}, "other": 1}}),
        ),
        ("no webhook", json!({"webhook": {"enabled": false}, "networkPolicy": {"enabled": true}})),
        ("ipv6", json!({"listenAddress": "::", "clusterDomain": "example.internal"})),
        ("openshift", json!({"openshift": true})),
        (
            "no account",
            json!({"serviceAccount": {"create": false, "name": "mine"}, "rbac": {"create": false}}),
        ),
        (
            "long name",
            json!({"fullnameOverride": "a".repeat(80), "imageDiscovery": {"enabled": true}}),
        ),
        ("other name", json!({"nameOverride": "gateways"})),
        ("no probes", json!({"livenessProbe": null, "readinessProbe": null, "resources": null})),
        ("no contexts", json!({"podSecurityContext": null, "containerSecurityContext": null})),
        (
            "ports",
            json!({"ports": {"http": 18080, "webhook": 19443}, "serviceMonitor": {"enabled": true}}),
        ),
        (
            "stopped",
            json!({"replicaCount": 0, "podDisruptionBudget": {"enabled": true, "maxUnavailable": 0}}),
        ),
    ]
}

fn backends() -> Value {
    json!([
        {"name": "a", "url": "https://a.example/mcp", "transport": "streamable-http", "headers": {"X-Key": "${KEY}"}},
        {"name": "b", "url": "http://b.team.svc:8080/sse", "transport": "sse"},
    ])
}

fn oidc() -> Value {
    json!({"type": "oidc", "oidc": {
        "issuer": "https://issuer.example", "clientId": "vmcp", "audience": "vmcp", "resource": "https://tools.example.com/mcp",
    }})
}

/// Returns all values of a server but those of pods.
fn whole_server() -> Value {
    let config = json!({
        "name": "tools", "incomingAuth": oidc(), "backends": backends(), "variables": ["KEY"],
        "sessionStorage": {"db": 3, "dialTimeout": "2s"},
        "telemetry": {"samplingRate": "0.05", "endpoint": "collector:4318", "tracingEnabled": true},
        "operational": {"timeouts": {"default": "1m"}},
    });
    json!({
        "config": config,
        "secrets": {"existingSecret": "backends"}, "sealKey": {"existingSecret": "ring"},
        "redis": {"address": "redis:6379", "existingSecret": "redis", "usernameKey": "user"},
        "adminToken": {"existingSecret": "admin"},
        "trustedProxies": 1, "allowHosts": ["tools.example.com:8443"], "allowOrigins": ["https://app.example.com"],
        "extraArgs": ["--max-sessions=20000"], "envFrom": [{"configMapRef": {"name": "more"}}],
        "service": {"type": "LoadBalancer", "port": 80, "annotations": {"a": "b"}, "sessionAffinity": "None"},
        "networkPolicy": {
            "enabled": true, "from": [{"podSelector": {}}], "restrictEgress": true,
            "egress": [{"to": [{"ipBlock": {"cidr": "0.0.0.0/0"}}], "ports": [{"port": 443}]}],
        },
        "ingress": {
            "enabled": true, "className": "nginx", "annotations": {"a": "b"}, "hosts": ["tools.example.com"],
            "tls": [{"hosts": ["tools.example.com"], "secretName": "tls"}],
        },
        "httpRoute": {
            "enabled": true, "parentRefs": [{"name": "public", "namespace": "gateways"}],
            "hostnames": ["tools.example.com"], "annotations": {"a": "b"},
        },
    })
}

fn server() -> Vec<(&'static str, Value)> {
    let anonymous = json!({"incomingAuth": {"type": "anonymous"}, "backends": [backends()[1]]});
    vec![
        ("defaults", json!({})),
        ("everything", with(pods(), whole_server())),
        ("anonymous", json!({"config": anonymous, "allowAnonymousNetwork": true})),
        ("ipv6", json!({"listenAddress": "::", "clusterDomain": "example.internal"})),
        (
            "alone",
            json!({"peers": {"enabled": false}, "networkPolicy": {"enabled": true, "restrictEgress": true}}),
        ),
        (
            "sentinel",
            json!({"config": {"incomingAuth": oidc(), "sessionStorage": {"provider": "redis", "sentinelConfig": {
            "masterName": "m", "sentinelAddrs": ["s:26379"],
        }}}, "redis": {"existingSecret": "redis"}}),
        ),
        (
            "no account",
            json!({"serviceAccount": {"create": false, "name": "mine", "automount": true}}),
        ),
        ("long name", json!({"fullnameOverride": "a".repeat(80)})),
        (
            "odd texts",
            json!({"config": {
                "name": "'\"{{ .Values }}: #", "incomingAuth": oidc(), "metadata": {"a": "012", "b": "yes", "c": "line\nline"},
            }}),
        ),
        ("metrics", json!({"serviceMonitor": {"enabled": true, "interval": "1m"}})),
        (
            "no probes",
            json!({"startupProbe": null, "livenessProbe": null, "readinessProbe": null, "resources": null}),
        ),
        (
            "no contexts",
            json!({"podSecurityContext": null, "containerSecurityContext": null, "preStopSleepSeconds": 0}),
        ),
        ("ports", json!({"port": 8443, "peers": {"port": 8444}, "service": {"type": "NodePort"}})),
    ]
}

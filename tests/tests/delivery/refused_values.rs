//! Wrong values: the message names the field.

use serde_json::{Value, json};

use super::support::{helm, render};

/// Renders a chart, and returns the message of its failure.
async fn refusals(chart: &str, cases: &[(Value, &str)]) {
    let Some(helm) = helm().await else { return };
    for (values, expected) in cases {
        let error = render(&helm, chart, values).await.expect_err(&values.to_string()).to_string();
        assert!(error.contains(expected), "{values}: {error}");
    }
}

#[tokio::test]
async fn operator_chart_names_wrong_field() {
    let cases = [
        (json!({"replicas": 2}), "additional properties 'replicas' not allowed"),
        (json!({"replicaCount": "2"}), "at '/replicaCount': got string, want integer"),
        (json!({"image": {"pullPolicy": "Sometimes"}}), "at '/image/pullPolicy'"),
        (json!({"image": {"digest": "sha256:1"}}), "at '/image/digest'"),
        (json!({"serverImage": {"repository": "a b"}}), "at '/serverImage/repository'"),
        (json!({"imagePullSecrets": [{"secret": "a"}]}), "at '/imagePullSecrets/0'"),
        (json!({"defaultRedis": {"address": "redis"}}), "at '/defaultRedis/address'"),
        (json!({"rbac": {"scope": "namespace"}}), "at '/rbac/allowedNamespaces': minItems"),
        (json!({"rbac": {"allowedNamespaces": ["a"]}}), "at '/rbac/allowedNamespaces': maxItems"),
        (
            json!({"leaderElectionRole": {"rules": [{"verbs": ["get"]}]}}),
            "at '/leaderElectionRole/rules/0': missing properties 'apiGroups', 'resources'",
        ),
        (json!({"ports": {"http": 70000}}), "at '/ports/http': maximum"),
        (json!({"resources": {"limits": {"memory": "128 Mi"}}}), "at '/resources/limits/memory'"),
        (
            json!({"podSecurityContext": {"runAsNonRot": true}}),
            "at '/podSecurityContext': additional properties 'runAsNonRot' not allowed",
        ),
        (
            json!({"containerSecurityContext": {"runAsUser": "65532"}}),
            "at '/containerSecurityContext/runAsUser': got string, want integer",
        ),
        (json!({"affinity": {"node": {}}}), "at '/affinity': additional properties 'node'"),
        (json!({"clusterDomain": "cluster.local."}), "at '/clusterDomain'"),
        (
            json!({"livenessProbe": {"path": "/"}}),
            "at '/livenessProbe': additional properties 'path'",
        ),
        (json!({"env": [{"name": "A", "value": 1}]}), "at '/env/0/value': got number, want string"),
        (
            json!({"env": [{"name": "WATCH_NAMESPACE"}]}),
            "env[0].name: the chart sets WATCH_NAMESPACE",
        ),
        (
            json!({"serviceAccount": {"create": false}}),
            "serviceAccount.name: name an existing account",
        ),
        (
            json!({"podLabels": {"app.kubernetes.io/name": "a"}}),
            "podLabels: the chart sets the label",
        ),
        (
            json!({"autoscaling": {"enabled": true, "minReplicas": 3, "maxReplicas": 2}}),
            "autoscaling.minReplicas: must be at most",
        ),
        (
            json!({"podDisruptionBudget": {"enabled": true, "minAvailable": 1, "maxUnavailable": 1}}),
            "podDisruptionBudget.maxUnavailable: remove it",
        ),
    ];
    refusals("vmcp-operator", &cases).await;
}

#[tokio::test]
async fn server_chart_names_wrong_field() {
    let backend =
        json!({"name": "a", "url": "https://a.example/mcp", "transport": "streamable-http"});
    let anonymous = json!({"incomingAuth": {"type": "anonymous"}, "backends": [backend]});
    let oidc = json!({"incomingAuth": {"type": "oidc"}});
    let cases = [
        (
            json!({"config": {"incomingAuth": null}}),
            "at '/config': missing property 'incomingAuth'",
        ),
        (
            json!({"config": {"incomingAuth": {"type": "local"}}}),
            "at '/config/incomingAuth/type': value must be one of 'anonymous', 'oidc'",
        ),
        (json!({"adminToken": {"key": "a/b"}}), "at '/adminToken/key'"),
        (json!({"config": anonymous}), "config.incomingAuth.type: every client"),
        (json!({"config": oidc, "allowAnonymousNetwork": true}), "allowAnonymousNetwork: "),
        (json!({"trustedProxies": -1}), "at '/trustedProxies': minimum"),
        (json!({"service": {"type": "External"}}), "at '/service/type'"),
        (json!({"ingress": {"enabled": true}}), "at '/ingress/hosts': minItems"),
        (
            json!({"httpRoute": {"enabled": true, "hostnames": ["a"]}}),
            "at '/httpRoute/parentRefs': minItems",
        ),
        (json!({"extraArgs": ["serve"]}), "at '/extraArgs/0'"),
        (json!({"extraArgs": ["--port=1"]}), "extraArgs[0]: the chart sets --port"),
        (json!({"env": [{"name": "POD_IP", "value": "1"}]}), "env[0].name: the chart sets POD_IP"),
        (json!({"drain": 90}), "terminationGracePeriodSeconds: must be more"),
        (
            json!({"redis": {"address": "r:1"}, "config": {"sessionStorage": {"provider": "redis"}}}),
            "config.sessionStorage.provider: redis.address sets the storage",
        ),
        (
            json!({"serviceMonitor": {"enabled": true}, "ingress": {"enabled": true, "hosts": ["a"]}}),
            "adminToken.existingSecret: /metrics would be public",
        ),
        (
            json!({"networkPolicy": {"enabled": true, "egress": [{}]}}),
            "networkPolicy.egress: has no effect",
        ),
    ];
    refusals("vmcp", &cases).await;
}

#[tokio::test]
async fn chart_of_definitions_names_wrong_field() {
    let cases = [
        (json!({"install": 1}), "at '/install': got number, want boolean"),
        (json!({"keep": "yes"}), "at '/keep': got string, want boolean"),
        (json!({"labels": {"a": 1}}), "at '/labels/a': got number, want string"),
    ];
    refusals("vmcp-crds", &cases).await;
}

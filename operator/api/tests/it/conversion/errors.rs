//! Each error of a conversion: its path, the condition that it ends in, its phase and its event.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use vmcp_api::{
    condition::{ConditionReason, ConditionStatus},
    conversion::{ConversionError, convert},
    virtual_mcp_server::{
        AuthConfigured, AuthServerConfigValidated, CompositeToolRefsValidated,
        EmbeddingServerReady, OidcConfigRefValidated, Phase, ServerValid,
        TelemetryConfigRefValidated,
    },
};

use super::fixture::{inputs, manifests};

/// A change of a case, and the error that it causes.
struct Row {
    case: &'static str,
    change: Change,
    path: &'static str,
    condition: (&'static str, &'static str),
    phase: Phase,
    event: Option<&'static str>,
}

/// A change of the manifests of a case.
enum Change {
    /// Sets the value at a JSON pointer of the manifest of this kind.
    Set(&'static str, &'static str, Value),
    /// Removes the manifests of this kind.
    Remove(&'static str),
}

fn row<R: ConditionReason>(
    case: &'static str,
    change: Change,
    path: &'static str,
    reason: R,
) -> Row {
    let condition = (R::TYPE, reason.as_str());
    Row { case, change, path, condition, phase: Phase::Failed, event: None }
}

fn set(kind: &'static str, pointer: &'static str, value: Value) -> Change {
    Change::Set(kind, pointer, value)
}

impl Row {
    fn event(self, event: &'static str) -> Self {
        Self { event: Some(event), ..self }
    }

    fn pending(self) -> Self {
        Self { phase: Phase::Pending, ..self }
    }
}

const SERVER: &str = "VirtualMCPServer";
const OIDC: &str = "MCPOIDCConfig";
const TELEMETRY: &str = "MCPTelemetryConfig";
const CONFIG_MAP: &str = "ConfigMap";

fn invalid(message: &str) -> Value {
    let condition = json!({
        "type": "Valid", "status": "False", "reason": "X", "message": message,
        "lastTransitionTime": "2026-01-01T00:00:00Z"
    });
    json!({ "conditions": [condition] })
}

#[allow(clippy::too_many_lines, reason = "a table")]
fn incoming_rows() -> Vec<Row> {
    use OidcConfigRefValidated::{NotFound, NotValid};
    let oidc = |pointer, value, path| row("oidc-inline", set(OIDC, pointer, value), path, NotValid);
    vec![
        row("oidc-inline", Change::Remove(OIDC), "spec.incomingAuth.oidcConfigRef.name", NotFound),
        oidc("/status", invalid("x"), "spec.incomingAuth.oidcConfigRef.name"),
        oidc(
            "/spec/inline/issuer",
            json!("ftp://x"),
            "MCPOIDCConfig/corporate: spec.inline.issuer",
        ),
        oidc(
            "/spec/inline/issuer",
            json!("http://x"),
            "MCPOIDCConfig/corporate: spec.inline.issuer",
        ),
        oidc("/spec/inline/jwksUrl", json!("x"), "MCPOIDCConfig/corporate: spec.inline.jwksUrl"),
        oidc(
            "/spec/inline/introspectionUrl",
            json!("x"),
            "MCPOIDCConfig/corporate: spec.inline.introspectionUrl",
        ),
        oidc(
            "/spec/inline/jwksAuthTokenPath",
            json!("token"),
            "MCPOIDCConfig/corporate: spec.inline.jwksAuthTokenPath",
        ),
        oidc("/spec/type", json!("kubernetesServiceAccount"), "MCPOIDCConfig/corporate: spec.type"),
        row(
            "oidc-cluster",
            set(OIDC, "/spec/kubernetesServiceAccount/issuer", json!("x")),
            "MCPOIDCConfig/cluster: spec.kubernetesServiceAccount.issuer",
            NotValid,
        ),
        row(
            "oidc-inline",
            Change::Remove("Secret"),
            "MCPOIDCConfig/corporate: spec.inline.clientSecretRef",
            AuthConfigured::Invalid,
        )
        .event("SecretValidationFailed"),
        row(
            "oidc-inline",
            set(OIDC, "/spec/inline/caBundleRef/configMapRef/key", json!("other")),
            "MCPOIDCConfig/corporate: spec.inline.caBundleRef.configMapRef",
            AuthConfigured::Invalid,
        )
        .event("SecretValidationFailed"),
        row(
            "oidc-inline",
            set(SERVER, "/spec/incomingAuth/oidcConfigRef/scopes", json!(["a b"])),
            "spec.incomingAuth.oidcConfigRef.scopes[0]",
            ServerValid::Invalid,
        ),
        row(
            "oidc-inline",
            set(SERVER, "/spec/incomingAuth/type", json!("anonymous")),
            "spec.incomingAuth.oidcConfigRef",
            ServerValid::Invalid,
        ),
        row(
            "oidc-inline",
            set(SERVER, "/spec/incomingAuth/oidcConfigRef", Value::Null),
            "spec.incomingAuth.oidcConfigRef",
            ServerValid::Invalid,
        ),
    ]
}

fn authz_rows() -> Vec<Row> {
    const AT: &str = "spec.incomingAuth.authzConfig.configMap";
    let document = |text: &str| {
        let change = set(CONFIG_MAP, "/data/authz.json", json!(text));
        row("oidc-inline", change, AT, AuthConfigured::Invalid).event("AuthzConfigMapInvalid")
    };
    vec![
        row(
            "oidc-inline",
            set(SERVER, "/spec/incomingAuth/authzConfig/configMap/key", json!("other")),
            AT,
            AuthConfigured::Invalid,
        )
        .event("AuthzConfigMapNotFound"),
        document("{"),
        document(r#"{"type": "httpv1"}"#),
        document(r#"{"type": "cedarv1"}"#),
        document(r#"{"type": "cedarv1", "cedar": {"policies": []}}"#),
        document(r#"{"type": "cedarv1", "cedar": {"policies": ["x"], "entities_json": "{}"}}"#),
        document(r#"{"type": "cedarv1", "cedar": {"policies": [""]}}"#),
        row(
            "oidc-cluster-without-auth",
            set(SERVER, "/spec/incomingAuth/authzConfig/inline/entitiesJson", json!("{}")),
            "spec.incomingAuth.authzConfig.inline.entitiesJson",
            ServerValid::Invalid,
        ),
        row(
            "oidc-cluster-without-auth",
            set(SERVER, "/spec/incomingAuth/authzConfig/type", json!("configMap")),
            "spec.incomingAuth.authzConfig.type",
            ServerValid::Invalid,
        ),
    ]
}

#[allow(clippy::too_many_lines, reason = "a table")]
fn auth_server_rows() -> Vec<Row> {
    use AuthServerConfigValidated::{Invalid, PrimaryProviderRequiresAuthServer, UpstreamUnknown};
    const PRIMARY: &str = "spec.incomingAuth.authzConfig.inline.primaryUpstreamProvider";
    let change =
        |pointer, value, path| row("auth-server", set(SERVER, pointer, value), path, Invalid);
    let secret = |pointer, path| {
        let change = set(SERVER, pointer, json!({ "name": "absent", "key": "a" }));
        row("auth-server", change, path, AuthConfigured::Invalid).event("SecretValidationFailed")
    };
    vec![
        change(
            "/spec/authServerConfig/issuer",
            json!("http://mcp.example.com"),
            "spec.authServerConfig.issuer",
        ),
        change(
            "/spec/authServerConfig/issuer",
            json!("https://other.example.com"),
            "spec.authServerConfig.issuer",
        ),
        change("/spec/incomingAuth", json!({ "type": "anonymous" }), "spec.incomingAuth.type"),
        row(
            "auth-server-minimal",
            set(
                SERVER,
                "/spec/incomingAuth/authzConfig/inline/primaryUpstreamProvider",
                json!("x"),
            ),
            PRIMARY,
            UpstreamUnknown,
        ),
        row(
            "auth-server-minimal",
            set(SERVER, "/spec/authServerConfig", Value::Null),
            PRIMARY,
            PrimaryProviderRequiresAuthServer,
        ),
        row(
            "strategies",
            set("MCPExternalAuthConfig", "/spec", inject("other")),
            "spec.outgoingAuth.default",
            Invalid,
        ),
        secret(
            "/spec/authServerConfig/hmacSecretRefs/1",
            "spec.authServerConfig.hmacSecretRefs[1]",
        ),
        secret(
            "/spec/authServerConfig/signingKeySecretRefs/0",
            "spec.authServerConfig.signingKeySecretRefs[0]",
        ),
        secret(
            "/spec/authServerConfig/storage/redis/aclUserConfig/passwordSecretRef",
            "spec.authServerConfig.storage.redis.aclUserConfig.passwordSecretRef",
        ),
        secret(
            "/spec/authServerConfig/storage/redis/aclUserConfig/usernameSecretRef",
            "spec.authServerConfig.storage.redis.aclUserConfig.usernameSecretRef",
        ),
        secret(
            "/spec/authServerConfig/storage/redis/tls/caCertSecretRef",
            "spec.authServerConfig.storage.redis.tls.caCertSecretRef",
        ),
        secret(
            "/spec/authServerConfig/storage/redis/sentinelTls/caCertSecretRef",
            "spec.authServerConfig.storage.redis.sentinelTls.caCertSecretRef",
        ),
        secret(
            "/spec/authServerConfig/upstreamProviders/0/oidcConfig/clientSecretRef",
            "spec.authServerConfig.upstreamProviders[0].oidcConfig.clientSecretRef",
        ),
        secret(
            "/spec/authServerConfig/upstreamProviders/1/oauth2Config/clientSecretRef",
            "spec.authServerConfig.upstreamProviders[1].oauth2Config.clientSecretRef",
        ),
        secret(
            "/spec/authServerConfig/upstreamProviders/2/oauth2Config/dcrConfig/initialAccessTokenRef",
            "spec.authServerConfig.upstreamProviders[2].oauth2Config.dcrConfig.initialAccessTokenRef",
        ),
    ]
}

fn inject(provider: &str) -> Value {
    json!({ "type": "upstreamInject", "upstreamInject": { "providerName": provider } })
}

fn storage_rows() -> Vec<Row> {
    const AT: &str = "/spec/sessionStorage";
    let change =
        |value, path| row("session-redis", set(SERVER, AT, value), path, ServerValid::Invalid);
    let missing = |case, path| {
        row(case, Change::Remove("Secret"), path, AuthConfigured::Invalid)
            .event("SecretValidationFailed")
    };
    vec![
        change(json!({ "provider": "memory", "address": "a" }), "spec.sessionStorage.address"),
        change(json!({ "provider": "memory", "db": 1 }), "spec.sessionStorage.db"),
        change(json!({ "provider": "memory", "keyPrefix": "a" }), "spec.sessionStorage.keyPrefix"),
        change(
            json!({ "provider": "memory", "passwordRef": { "name": "a", "key": "b" } }),
            "spec.sessionStorage.passwordRef",
        ),
        change(json!({ "provider": "redis" }), "spec.sessionStorage.address"),
        change(json!({ "provider": "redis", "address": "a:b:c" }), "spec.sessionStorage.address"),
        change(
            json!({ "provider": "redis", "address": "a", "keyPrefix": "{a}" }),
            "spec.sessionStorage.keyPrefix",
        ),
        missing("session-redis", "spec.sessionStorage.passwordRef"),
        missing("session-default", "default Redis of the operator.passwordRef"),
        missing("session-inline", "spec.config.sessionStorage.tls.caCertSecretRef"),
    ]
}

#[allow(clippy::too_many_lines, reason = "a table")]
fn telemetry_rows() -> Vec<Row> {
    use TelemetryConfigRefValidated::{Invalid, NotFound};
    let change =
        |pointer, value, path| row("telemetry", set(TELEMETRY, pointer, value), path, Invalid);
    vec![
        row("telemetry", Change::Remove(TELEMETRY), "spec.telemetryConfigRef.name", NotFound),
        change("/status", invalid("x"), "spec.telemetryConfigRef.name"),
        change(
            "/spec/openTelemetry/endpoint",
            Value::Null,
            "MCPTelemetryConfig/otel: spec.openTelemetry.endpoint",
        ),
        change(
            "/spec/openTelemetry/endpoint",
            json!("http://otel:4318"),
            "MCPTelemetryConfig/otel: spec.openTelemetry.endpoint",
        ),
        change(
            "/spec/openTelemetry/endpoint",
            json!("ftp://otel:4318"),
            "MCPTelemetryConfig/otel: spec.openTelemetry.endpoint",
        ),
        change(
            "/spec/openTelemetry/insecure",
            json!(true),
            "MCPTelemetryConfig/otel: spec.openTelemetry.caBundleRef",
        ),
        change(
            "/spec/openTelemetry/tracing/samplingRate",
            json!("2"),
            "MCPTelemetryConfig/otel: spec",
        ),
        change(
            "/spec/openTelemetry/sensitiveHeaders/0/name",
            json!("a b"),
            "MCPTelemetryConfig/otel: spec.openTelemetry.sensitiveHeaders[0].name",
        ),
        change(
            "/spec/openTelemetry/sensitiveHeaders/0/name",
            json!("x-tenant"),
            "MCPTelemetryConfig/otel: spec.openTelemetry.sensitiveHeaders[0].name",
        ),
        row(
            "telemetry-insecure",
            set(TELEMETRY, "/spec/openTelemetry/tracing/enabled", json!(false)),
            "MCPTelemetryConfig/otel: spec.openTelemetry.endpoint",
            Invalid,
        ),
        row(
            "telemetry-insecure",
            set(TELEMETRY, "/spec/openTelemetry/endpoint", json!("https://otel")),
            "MCPTelemetryConfig/otel: spec.openTelemetry.endpoint",
            Invalid,
        ),
        row(
            "telemetry",
            Change::Remove("Secret"),
            "MCPTelemetryConfig/otel: spec.openTelemetry.sensitiveHeaders[0].secretKeyRef",
            AuthConfigured::Invalid,
        )
        .event("SecretValidationFailed"),
        row(
            "telemetry",
            Change::Remove(CONFIG_MAP),
            "MCPTelemetryConfig/otel: spec.openTelemetry.caBundleRef.configMapRef",
            AuthConfigured::Invalid,
        )
        .event("SecretValidationFailed"),
    ]
}

fn reference_rows() -> Vec<Row> {
    use CompositeToolRefsValidated::{Invalid, NotFound};
    use EmbeddingServerReady::NotReady;
    const EMBEDDING: &str = "spec.embeddingServerRef.name";
    const DEFINITION: &str = "VirtualMCPCompositeToolDefinition";
    let embedding = |pointer, value| {
        row("optimizer", set("EmbeddingServer", pointer, value), EMBEDDING, NotReady)
    };
    // The first definition of the case is the second reference.
    let definition = |pointer, value| {
        let path = "spec.config.compositeToolRefs[1].name";
        row("composite", set(DEFINITION, pointer, value), path, Invalid)
    };
    vec![
        row(
            "optimizer",
            Change::Remove("EmbeddingServer"),
            EMBEDDING,
            EmbeddingServerReady::NotFound,
        )
        .event("EmbeddingServerRefNotFound"),
        embedding("/status", Value::Null).pending(),
        embedding("/status/readyReplicas", json!(0)).pending(),
        embedding("/status/phase", json!("Failed")),
        row(
            "optimizer",
            set("EmbeddingServer", "/status/url", json!("ftp://x")),
            "EmbeddingServer/embed: status.url",
            NotReady,
        ),
        row(
            "optimizer-manual",
            set(SERVER, "/spec/config/optimizer/embeddingService", Value::Null),
            "spec.config.optimizer",
            ServerValid::Invalid,
        ),
        row(
            "composite",
            Change::Remove(DEFINITION),
            "spec.config.compositeToolRefs[0].name",
            NotFound,
        ),
        definition("/status", json!({ "validationStatus": "Invalid", "validationErrors": ["x"] })),
        definition("/spec/steps", json!([])),
        definition("/spec/name", json!("inline")),
        definition("/spec/name", json!("two")),
    ]
}

fn config_rows() -> Vec<Row> {
    let change = |case, pointer, value, path| {
        row(case, set(SERVER, pointer, value), path, ServerValid::Invalid)
    };
    vec![
        change(
            "inline-config",
            "/spec/config/operational/timeouts/default",
            json!("0s"),
            "spec.config.operational.timeouts.default",
        ),
        change(
            "inline-config",
            "/spec/config/audit/logFile",
            json!("/read/audit.log"),
            "spec.config.audit.logFile",
        ),
        change(
            "inline-config",
            "/spec/config/audit/logFile",
            json!("/var/log/vmcp/../x"),
            "spec.config.audit.logFile",
        ),
        change(
            "inline-config",
            "/spec/config/audit/logFile",
            json!("a"),
            "spec.config.audit.logFile",
        ),
        change("inline-config", "/spec/podTemplateSpec", Value::Null, "spec.config.audit.logFile"),
        row(
            "inline-config",
            set(
                SERVER,
                "/spec/config/outgoingAuth/default",
                json!({
                    "type": "upstream_inject", "upstreamInject": { "providerName": "okta" }
                }),
            ),
            "spec.config.outgoingAuth.default",
            AuthServerConfigValidated::Invalid,
        ),
        row(
            "tools",
            Change::Remove("MCPToolConfig"),
            "spec.config.aggregation.tools[0].toolConfigRef",
            ServerValid::Invalid,
        ),
        row(
            "discovered",
            set("MCPToolConfig", "/spec/toolsOverride/tool-z", json!({})),
            "spec.config.aggregation.tools[0].toolConfigRef",
            ServerValid::Invalid,
        ),
        change(
            "telemetry-inline",
            "/spec/config/telemetry/samplingRate",
            json!("2"),
            "spec.config.telemetry.samplingRate",
        ),
    ]
}

fn rows() -> Vec<Row> {
    let mut rows = incoming_rows();
    rows.extend(authz_rows());
    rows.extend(auth_server_rows());
    rows.extend(storage_rows());
    rows.extend(telemetry_rows());
    rows.extend(reference_rows());
    rows.extend(config_rows());
    rows
}

fn errors(row: &Row) -> Vec<ConversionError> {
    let mut manifests = manifests(row.case);
    match &row.change {
        Change::Remove(kind) => manifests.retain(|manifest| manifest["kind"] != *kind),
        Change::Set(kind, pointer, value) => {
            // The last ConfigMap of a case has policies.
            let is_kind = |manifest: &&mut Value| manifest["kind"] == *kind;
            let found = if *kind == CONFIG_MAP {
                manifests.iter_mut().rfind(is_kind)
            } else {
                manifests.iter_mut().find(is_kind)
            };
            replace(found.unwrap(), pointer, value);
        }
    }
    convert(&inputs(&manifests)).expect_err(row.path)
}

/// Sets the value at a JSON pointer, or removes it for null.
pub(crate) fn replace(manifest: &mut Value, pointer: &str, value: &Value) {
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    match manifest.pointer_mut(parent).unwrap() {
        Value::Array(items) => items[key.parse::<usize>().unwrap()] = value.clone(),
        Value::Object(object) => {
            let key = key.replace("~1", "/").replace("~0", "~");
            object.remove(&key);
            if !value.is_null() {
                object.insert(key, value.clone());
            }
        }
        other => panic!("{pointer}: {other}"),
    }
}

#[test]
fn reports_each_error_with_path_and_condition() {
    for row in rows() {
        let errors = errors(&row);
        let told = errors.iter().any(|error| {
            let ConversionError { path, condition, phase, event } = error;
            path == row.path
                && (condition.type_.as_str(), condition.reason.as_str()) == row.condition
                && condition.status == ConditionStatus::False
                && !condition.message.is_empty()
                && *phase == row.phase
                && *event == row.event
        });
        assert!(told, "{} {} {:?}: {errors:#?}", row.case, row.path, row.condition);
    }
}

#[test]
fn errors_reach_each_reason_of_conversion() {
    let shown: BTreeSet<(&str, &str)> = rows().iter().map(|row| row.condition).collect();
    let mut all = BTreeSet::new();
    add::<ServerValid>(&mut all);
    add::<AuthConfigured>(&mut all);
    add::<AuthServerConfigValidated>(&mut all);
    add::<CompositeToolRefsValidated>(&mut all);
    add::<EmbeddingServerReady>(&mut all);
    add::<OidcConfigRefValidated>(&mut all);
    add::<TelemetryConfigRefValidated>(&mut all);
    // The schema requires an upstream provider, and the operator itself reads the resources.
    let elsewhere = [
        ("AuthServerConfigValidated", "AuthzRequiresUpstream"),
        ("OIDCConfigRefValidated", "OIDCConfigRefFetchError"),
        ("TelemetryConfigRefValidated", "TelemetryConfigRefFetchError"),
    ];
    all.retain(|reason| !elsewhere.contains(reason));
    assert_eq!(shown, all);
}

fn add<R: ConditionReason>(all: &mut BTreeSet<(&'static str, &'static str)>) {
    let failing = R::ALL.iter().filter(|reason| reason.status() == ConditionStatus::False);
    all.extend(failing.map(|reason| (R::TYPE, reason.as_str())));
}

#[test]
fn optional_bundles_may_be_absent() {
    let at = ["/spec/inline/caBundleRef", "/spec/openTelemetry/caBundleRef", "/spec/caBundleRef"];
    for case in ["oidc-inline", "telemetry", "members"] {
        let mut manifests = manifests(case);
        manifests.retain(|manifest| {
            manifest["kind"] != CONFIG_MAP || manifest["metadata"]["name"] == "policies"
        });
        let result = convert(&inputs(&manifests));
        let backends = result.as_ref().map_or(0, |conversion| conversion.file.backends.len());
        assert!(result.is_err() || case == "members", "{case}");
        for manifest in &mut manifests {
            for pointer in at {
                if let Some(reference) = manifest.pointer_mut(&format!("{pointer}/configMapRef")) {
                    reference["optional"] = json!(true);
                }
            }
        }
        let found = convert(&inputs(&manifests)).unwrap();
        assert!(!found.yaml.contains("configmap_"), "{case}: {}", found.yaml);
        assert!(case != "members" || found.file.backends.len() > backends);
    }
}

#[test]
fn reports_errors_of_all_sections_at_once() {
    let mut manifests = manifests("telemetry");
    manifests.retain(|manifest| manifest["kind"] != TELEMETRY);
    let spec = &mut manifests[0]["spec"];
    spec["embeddingServerRef"] = json!({ "name": "absent" });
    spec["sessionStorage"] = json!({ "provider": "redis" });
    spec["incomingAuth"] =
        json!({ "type": "oidc", "oidcConfigRef": { "name": "absent", "audience": "a" } });
    spec["config"] = json!({ "compositeToolRefs": [{ "name": "absent" }] });
    let errors = convert(&inputs(&manifests)).unwrap_err();
    let types: BTreeSet<&str> = errors.iter().map(|error| error.condition.type_.as_str()).collect();
    let expected = [
        "CompositeToolRefsValidated",
        "EmbeddingServerReady",
        "OIDCConfigRefValidated",
        "TelemetryConfigRefValidated",
        "Valid",
    ];
    assert_eq!(types.into_iter().collect::<Vec<_>>(), expected);
}

//! Inputs of a conversion from manifests, as the API server would store them.

use std::{cell::RefCell, collections::BTreeMap, fs, path::PathBuf, sync::Arc};

use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use vmcp_api::{
    VirtualMCPServer,
    conversion::{ClusterDefaults, DefaultRedis, Inputs, Member, SecretSource, SourceKind},
};
use vmcp_config::SecretRef;
use vmcp_structural_schema::Schema;

use crate::support::compiled;

/// Returns the folder of the cases.
pub(crate) fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/it/conversion/cases")
}

/// Returns the names of all cases, sorted.
pub(crate) fn names() -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder())
        .unwrap()
        .filter_map(|entry| {
            let name = entry.unwrap().file_name().into_string().unwrap();
            name.strip_suffix(".yaml").map(str::to_owned)
        })
        .filter(|name| !name.ends_with(".expected"))
        .collect();
    names.sort();
    names
}

/// Returns the manifests of a case.
pub(crate) fn manifests(case: &str) -> Vec<Value> {
    let text = fs::read_to_string(folder().join(format!("{case}.yaml"))).unwrap();
    parse(&text)
}

/// Reads the documents of a YAML text.
pub(crate) fn parse(text: &str) -> Vec<Value> {
    text.split("\n---\n").map(|text| serde_saphyr::from_str(text).unwrap()).collect()
}

/// Returns the inputs of manifests. Secrets and ConfigMaps make their keys available, and a document of the kind
/// `ClusterDefaults` has the default Redis.
pub(crate) fn inputs(manifests: &[Value]) -> Inputs {
    let server = manifests.iter().find(|manifest| manifest["kind"] == "VirtualMCPServer");
    let server: VirtualMCPServer = typed(server.expect("a case has a server"));
    let mut inputs = Inputs::new(server);
    let mut config_maps: BTreeMap<(String, String), String> = BTreeMap::new();
    for manifest in manifests {
        let name = manifest["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        match manifest["kind"].as_str().unwrap() {
            "VirtualMCPServer" => {}
            "MCPServer" => inputs.members.push(Member::Server(shared(manifest))),
            "MCPRemoteProxy" => inputs.members.push(Member::Proxy(shared(manifest))),
            "MCPServerEntry" => inputs.members.push(Member::Entry(shared(manifest))),
            "MCPExternalAuthConfig" => {
                inputs.external_auth_configs.insert(name, shared(manifest));
            }
            "MCPToolConfig" => {
                inputs.tool_configs.insert(name, shared(manifest));
            }
            "VirtualMCPCompositeToolDefinition" => {
                inputs.composite_tool_definitions.insert(name, shared(manifest));
            }
            "MCPOIDCConfig" => inputs.oidc_config = Some(shared(manifest)),
            "MCPTelemetryConfig" => inputs.telemetry_config = Some(shared(manifest)),
            "EmbeddingServer" => inputs.embedding_server = Some(shared(manifest)),
            "Secret" => {
                for key in manifest["stringData"].as_object().unwrap().keys() {
                    let source = SecretSource::new(SourceKind::Secret, &name, key);
                    inputs.available.insert(&source);
                }
            }
            "ConfigMap" => {
                for (key, text) in manifest["data"].as_object().unwrap() {
                    let source = SecretSource::new(SourceKind::ConfigMap, &name, key);
                    inputs.available.insert(&source);
                    let text = text.as_str().unwrap().to_owned();
                    config_maps.insert((name.clone(), key.clone()), text);
                }
            }
            "ClusterDefaults" => inputs.defaults = defaults(manifest),
            kind => panic!("{kind}"),
        }
    }
    let authz = inputs.server.spec.incoming_auth.authz_config.as_ref();
    let reference = authz.and_then(|authz| authz.config_map.clone());
    inputs.authorization_document =
        reference.and_then(|reference| config_maps.get(&(reference.name, reference.key)).cloned());
    inputs
}

/// Returns the inputs of a case.
pub(crate) fn case(name: &str) -> Inputs {
    inputs(&manifests(name))
}

/// Returns the values of all Secrets of a case.
pub(crate) fn secret_values(manifests: &[Value]) -> Vec<String> {
    manifests
        .iter()
        .filter(|manifest| manifest["kind"] == "Secret")
        .flat_map(|manifest| manifest["stringData"].as_object().unwrap().values())
        .map(|value| value.as_str().unwrap().to_owned())
        .collect()
}

fn defaults(manifest: &Value) -> ClusterDefaults {
    let redis = &manifest["redis"];
    let password = SecretRef {
        name: redis["passwordRef"]["name"].as_str().unwrap().to_owned(),
        key: redis["passwordRef"]["key"].as_str().unwrap().to_owned(),
    };
    let address = redis["address"].as_str().unwrap().to_owned();
    let redis = DefaultRedis { address, password: Some(password) };
    ClusterDefaults { redis: Some(redis), ..ClusterDefaults::default() }
}

fn shared<T: DeserializeOwned>(manifest: &Value) -> Arc<T> {
    Arc::new(typed(manifest))
}

/// Reads a manifest as the API server stores it: with defaults, and without fields that it does not know.
fn typed<T: DeserializeOwned>(manifest: &Value) -> T {
    let mut manifest = manifest.clone();
    manifest["apiVersion"] = json!("vmcp.dev/v1beta1");
    let kind = manifest["kind"].as_str().unwrap().to_owned();
    with_schema(&kind, |schema| {
        assert_eq!(schema.prune(&mut manifest), Vec::<String>::new(), "{manifest}");
        schema.apply_defaults(&mut manifest);
    });
    serde_json::from_value(manifest.clone()).unwrap_or_else(|error| panic!("{error}: {manifest}"))
}

/// Calls `then` with the schema of a kind. Each thread compiles it once.
fn with_schema(kind: &str, then: impl FnOnce(&Schema)) {
    thread_local! {
        static SCHEMAS: RefCell<BTreeMap<String, Schema>> = const { RefCell::new(BTreeMap::new()) };
    }
    SCHEMAS.with_borrow_mut(|schemas| {
        then(schemas.entry(kind.to_owned()).or_insert_with(|| compiled(kind)));
    });
}

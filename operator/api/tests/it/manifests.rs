//! Valid manifests: admitted as they are, and read by the types. Together they have every field of every kind.

use std::{collections::BTreeSet, fs, path::Path};

use serde_json::Value;

use crate::support::{compiled, schemas, visit};

/// Returns name and object of each manifest.
pub(crate) fn manifests() -> Vec<(String, Value)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/manifests");
    let mut all: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let text = fs::read_to_string(&path).unwrap();
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            (name, serde_saphyr::from_str(&text).unwrap())
        })
        .collect();
    all.sort_by(|left, right| left.0.cmp(&right.0));
    all
}

/// Returns the kind of a manifest.
pub(crate) fn kind(manifest: &Value) -> &str {
    manifest["kind"].as_str().unwrap()
}

#[test]
fn valid_manifests_are_admitted() {
    for (name, mut manifest) in manifests() {
        let schema = compiled(kind(&manifest));
        assert_eq!(schema.prune(&mut manifest), Vec::<String>::new(), "{name}");
        schema.apply_defaults(&mut manifest);
        assert_eq!(schema.validate(&manifest, None), [], "{name}");
    }
}

#[test]
fn manifests_have_every_field() {
    let manifests = manifests();
    for (kind_name, schema) in schemas() {
        let mut missing = BTreeSet::new();
        visit(&schema["properties"]["spec"], "spec", &mut |path, _| {
            let mut of_kind = manifests.iter().filter(|(_, manifest)| kind(manifest) == kind_name);
            if !of_kind.any(|(_, manifest)| !find(manifest, path).is_empty()) {
                missing.insert(path.to_owned());
            }
        });
        assert!(missing.is_empty(), "{kind_name}: {missing:#?}");
    }
}

#[test]
fn admitted_manifests_pass_the_parser() {
    for (name, mut manifest) in manifests() {
        compiled(kind(&manifest)).apply_defaults(&mut manifest);
        if let Err(errors) = parse(&manifest) {
            panic!("{name}: {errors}");
        }
    }
}

/// Reads a manifest with its type, and its inline parts.
fn parse(manifest: &Value) -> Result<(), String> {
    fn read<T: serde::de::DeserializeOwned + serde::Serialize>(value: &Value) -> Result<T, String> {
        let object: T = serde_json::from_value(value.clone()).map_err(|error| error.to_string())?;
        // A field that the type drops would be lost at the next write.
        let again = serde_json::to_value(&object).unwrap();
        let mut lost = Vec::new();
        lost_fields(value, &again, "", &mut lost);
        if lost.is_empty() { Ok(object) } else { Err(format!("lost {lost:?}")) }
    }
    fn inline<T: vmcp_api::InlineType>(part: Option<&vmcp_api::Inline<T>>) -> Result<(), String> {
        part.map_or(Ok(()), |part| part.parse().map(drop).map_err(|errors| errors.to_string()))
    }
    match kind(manifest) {
        "VirtualMCPServer" => {
            let server: vmcp_api::VirtualMCPServer = read(manifest)?;
            inline(server.spec.config.as_ref())?;
            inline(server.spec.auth_server_config.as_ref())
        }
        "MCPExternalAuthConfig" => {
            let config: vmcp_api::MCPExternalAuthConfig = read(manifest)?;
            inline(config.spec.embedded_auth_server.as_ref())?;
            inline(config.spec.aws_sts.as_ref())?;
            inline(config.spec.upstream_inject.as_ref())
        }
        "MCPToolConfig" => {
            let config: vmcp_api::MCPToolConfig = read(manifest)?;
            config.spec.tools_override.values().try_for_each(|part| inline(Some(part)))
        }
        "VirtualMCPCompositeToolDefinition" => {
            let definition: vmcp_api::VirtualMCPCompositeToolDefinition = read(manifest)?;
            definition.spec.parse().map(drop).map_err(|errors| errors.to_string())
        }
        "MCPGroup" => read::<vmcp_api::MCPGroup>(manifest).map(drop),
        "MCPServer" => read::<vmcp_api::MCPServer>(manifest).map(drop),
        "MCPRemoteProxy" => read::<vmcp_api::MCPRemoteProxy>(manifest).map(drop),
        "MCPServerEntry" => read::<vmcp_api::MCPServerEntry>(manifest).map(drop),
        "MCPOIDCConfig" => read::<vmcp_api::MCPOIDCConfig>(manifest).map(drop),
        "MCPTelemetryConfig" => read::<vmcp_api::MCPTelemetryConfig>(manifest).map(drop),
        "EmbeddingServer" => read::<vmcp_api::EmbeddingServer>(manifest).map(drop),
        other => Err(format!("unknown kind {other}")),
    }
}

fn lost_fields(before: &Value, after: &Value, path: &str, lost: &mut Vec<String>) {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            for (name, value) in before {
                let path = format!("{path}.{name}");
                match after.get(name) {
                    Some(after) => lost_fields(value, after, &path, lost),
                    None => lost.push(path),
                }
            }
        }
        (Value::Array(before), Value::Array(after)) if before.len() == after.len() => {
            for (before, after) in before.iter().zip(after) {
                lost_fields(before, after, path, lost);
            }
        }
        _ if before == after => {}
        _ => lost.push(path.to_owned()),
    }
}

/// Returns pointers to all values of a manifest under a path of its schema.
pub(crate) fn find(manifest: &Value, path: &str) -> Vec<String> {
    let mut found = vec![(String::new(), manifest)];
    for segment in path.split('.') {
        let name = segment.trim_end_matches("[]");
        let depth = (segment.len() - name.len()) / 2;
        found = found
            .into_iter()
            .filter_map(|(pointer, value)| Some((format!("{pointer}/{name}"), value.get(name)?)))
            .collect();
        for _ in 0..depth {
            found =
                found.into_iter().flat_map(|(pointer, value)| entries(&pointer, value)).collect();
        }
    }
    found.into_iter().map(|(pointer, _)| pointer).collect()
}

fn entries<'a>(pointer: &str, value: &'a Value) -> Vec<(String, &'a Value)> {
    let escape = |key: &str| key.replace('~', "~0").replace('/', "~1");
    match value {
        Value::Array(items) => items
            .iter()
            .enumerate()
            .map(|(index, item)| (format!("{pointer}/{index}"), item))
            .collect(),
        Value::Object(map) => {
            map.iter().map(|(key, value)| (format!("{pointer}/{}", escape(key)), value)).collect()
        }
        _ => Vec::new(),
    }
}

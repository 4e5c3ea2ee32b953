//! A server judged by itself, for any cluster.
//!
//! All that it refers to is assumed: the smallest resources that no server has a mistake with. The code that converts a server
//! in a cluster judges the rest.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use vmcp_config::Config;

use super::{
    Checks, ClusterDefaults, Conversion, ConversionError, Inputs, Member, convert, references,
};
use crate::{
    Inline, MCPExternalAuthConfig, MCPServer, MCPToolConfig, VirtualMCPCompositeToolDefinition,
    VirtualMCPServer, VirtualMCPServerSpec, virtual_mcp_server::BackendAuth,
};

/// Name of a server that the API server has yet to name.
const UNNAMED: &str = "server";

/// Issuer of tokens, for servers that do not issue them.
const ISSUER: &str = "https://issuer.invalid";

/// Document with policies in a ConfigMap.
const POLICIES: &str =
    r#"{"type": "cedarv1", "cedar": {"policies": ["permit(principal, action, resource);"]}}"#;

impl VirtualMCPServer {
    /// Converts a server as a cluster would in which all that it refers to exists and is valid. Of `defaults`, only the domain of
    /// the cluster counts: a mistake in the others is one of the operator's settings.
    ///
    /// # Errors
    ///
    /// Returns the errors that the server has in each cluster.
    pub fn convert_standalone(
        &self,
        defaults: &ClusterDefaults,
        checks: &Arc<dyn Checks>,
    ) -> Result<Conversion, Vec<ConversionError>> {
        let mut server = Self { status: None, ..self.clone() };
        server.metadata.name.get_or_insert_with(|| UNNAMED.to_owned());
        let mut inputs = assumed(&Arc::new(server));
        inputs.defaults = ClusterDefaults { redis: None, ..defaults.clone() };
        inputs.checks = Some(Arc::clone(checks));
        inputs.available = references(&inputs).into_iter().map(|entry| entry.source).collect();
        convert(&inputs)
    }
}

/// Returns the inputs of a server whose references exist.
fn assumed(server: &Arc<VirtualMCPServer>) -> Inputs {
    let spec = &server.spec;
    let mut inputs = Inputs::new(Arc::clone(server));
    let Ok(config) = spec.config.clone().unwrap_or_default().parse() else {
        // The conversion has the same errors, and ends before it reads a reference.
        return inputs;
    };
    inputs.members = members(spec, &config);
    inputs.external_auth_configs = external_auth_configs(spec);
    inputs.tool_configs = tool_configs(&config);
    inputs.composite_tool_definitions = definitions(&config);
    if let Some(reference) = &spec.incoming_auth.oidc_config_ref {
        let issuer = issuer(spec);
        let is_plain = issuer.starts_with("http://");
        let inline = json!({ "issuer": issuer, "insecureAllowHTTP": is_plain });
        let spec = json!({ "type": "inline", "inline": inline });
        inputs.oidc_config = Some(resource("MCPOIDCConfig", &reference.name, &spec));
    }
    if let Some(reference) = &spec.telemetry_config_ref {
        let spec = json!({ "prometheus": { "enabled": true } });
        inputs.telemetry_config = Some(resource("MCPTelemetryConfig", &reference.name, &spec));
    }
    if let Some(reference) = &spec.embedding_server_ref {
        let status =
            json!({ "phase": "Ready", "readyReplicas": 1, "url": "http://embeddings.invalid" });
        let server = object("EmbeddingServer", &reference.name, &json!({}), &status);
        inputs.embedding_server = Some(Arc::new(server));
    }
    inputs.authorization_document = Some(POLICIES.to_owned());
    inputs
}

/// Returns the issuer of the tokens of callers: with an embedded authorization server, that one.
fn issuer(spec: &VirtualMCPServerSpec) -> &str {
    let section = spec.auth_server_config.as_ref().map(Inline::value);
    section.and_then(|section| section["issuer"].as_str()).unwrap_or(ISSUER)
}

/// Returns a member for each backend that the server names, so that the settings of none are without effect.
fn members(spec: &VirtualMCPServerSpec, config: &Config) -> Vec<Member> {
    let listed = config.backends.iter().map(|backend| backend.name.as_str());
    let inline = config.outgoing_auth.iter().flat_map(|outgoing| outgoing.backends.keys());
    let outgoing = spec.outgoing_auth.iter().flat_map(|outgoing| outgoing.backends.keys());
    let names: BTreeSet<&str> = listed.chain(inline.chain(outgoing).map(String::as_str)).collect();
    let status = json!({ "url": "http://backend.invalid" });
    let member = |name| object::<MCPServer>("MCPServer", name, &json!({ "image": "i" }), &status);
    names.into_iter().map(|name| Member::Server(Arc::new(member(name)))).collect()
}

fn external_auth_configs(
    spec: &VirtualMCPServerSpec,
) -> BTreeMap<String, Arc<MCPExternalAuthConfig>> {
    let outgoing = spec.outgoing_auth.iter();
    let choices = outgoing.flat_map(|auth| auth.default.iter().chain(auth.backends.values()));
    let names = choices
        .filter_map(|BackendAuth { kind: _, external_auth_config_ref }| {
            external_auth_config_ref.as_ref()
        })
        .map(|reference| &reference.name);
    resources("MCPExternalAuthConfig", names, &json!({ "type": "unauthenticated" }))
}

fn tool_configs(config: &Config) -> BTreeMap<String, Arc<MCPToolConfig>> {
    let references = config.aggregation.tools.iter().filter_map(|tools| {
        let reference = tools.tool_config_ref.as_ref()?;
        Some(&reference.name)
    });
    resources("MCPToolConfig", references, &json!({}))
}

/// Returns a composite tool for each reference, with a name that no other tool has.
fn definitions(config: &Config) -> BTreeMap<String, Arc<VirtualMCPCompositeToolDefinition>> {
    let is_free = |name: &String| config.composite_tools.iter().all(|tool| tool.name != *name);
    let mut free = (0_u32..).map(|number| format!("referenced_{number}")).filter(is_free);
    let definitions = config.composite_tool_refs.iter().filter_map(|reference| {
        let spec = json!({ "name": free.next()?, "steps": [{ "id": "a", "tool": "b.c" }] });
        let definition = resource("VirtualMCPCompositeToolDefinition", &reference.name, &spec);
        Some((reference.name.clone(), definition))
    });
    definitions.collect()
}

fn resources<'n, R: DeserializeOwned>(
    kind: &str,
    names: impl Iterator<Item = &'n String>,
    spec: &Value,
) -> BTreeMap<String, Arc<R>> {
    names.map(|name| (name.clone(), resource(kind, name, spec))).collect()
}

fn resource<R: DeserializeOwned>(kind: &str, name: &str, spec: &Value) -> Arc<R> {
    Arc::new(object(kind, name, spec, &Value::Null))
}

/// Returns a resource. Its status is absent if it is `null`.
fn object<R: DeserializeOwned>(kind: &str, name: &str, spec: &Value, status: &Value) -> R {
    let mut object = json!({
        "apiVersion": format!("{}/{}", crate::GROUP, crate::VERSION), "kind": kind,
        "metadata": { "name": name }, "spec": spec,
    });
    if !status.is_null() {
        object["status"] = status.clone();
    }
    serde_json::from_value(object).expect("the resource is one of its kind")
}

#[cfg(test)]
mod tests {
    use vmcp_config::CompositeTool;

    use super::*;

    #[test]
    fn referenced_tools_have_free_names() {
        let tool = |name: &str| json!({ "name": name, "steps": [{ "id": "a", "tool": "b.c" }] });
        let config = json!({
            "compositeTools": [tool("referenced_0")],
            "compositeToolRefs": [{ "name": "one" }, { "name": "two" }],
        });
        let config: Config = Inline::new(config).parse().unwrap();
        let definitions = definitions(&config);
        let name = |key: &str| {
            let tool: CompositeTool = definitions[key].spec.parse().unwrap();
            tool.name
        };
        assert_eq!([name("one"), name("two")], ["referenced_1", "referenced_2"]);
    }
}

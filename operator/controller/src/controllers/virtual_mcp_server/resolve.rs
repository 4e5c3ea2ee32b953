//! Resources that a server refers to, from the stores.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use vmcp_api::conversion::{
    Available, ClusterDefaults, ConditionUpdate, Inputs, Member, SecretSource, SourceKind,
    references,
};
use vmcp_api::virtual_mcp_server::{AuthzSource, GroupRefValidated, Phase};
use vmcp_api::{
    EmbeddingServer, GroupPhase, MCPExternalAuthConfig, MCPGroup, MCPOIDCConfig, MCPRemoteProxy,
    MCPServer, MCPServerEntry, MCPTelemetryConfig, MCPToolConfig,
    VirtualMCPCompositeToolDefinition, VirtualMCPServer,
};

use crate::apply::ApplyError;
use crate::controllers::Context;
use crate::dependencies::Topic;
use crate::key::Kind;
use crate::lookup::Lookup;
use crate::references::Referrer;
use crate::server_checks::ServerChecks;
use crate::stores::WatchedWhole;

/// Resources that a server refers to.
pub(super) struct Resolved {
    pub(super) inputs: Inputs,
    /// Digests of the values that exist.
    pub(super) digests: BTreeMap<SecretSource, [u8; 32]>,
    pub(super) group: ConditionUpdate,
    /// Phase that the group prevents the server from leaving.
    pub(super) blocked: Option<Phase>,
}

/// Resources of vmcp that a server refers to. Secrets and ConfigMaps are missing still.
pub(crate) struct Resources {
    pub(crate) inputs: Inputs,
    pub(crate) group: ConditionUpdate,
    /// Phase that the group prevents the server from leaving.
    pub(crate) blocked: Option<Phase>,
}

/// Collects everything that the conversion of a server reads.
pub(super) async fn resolve(
    context: &Context,
    lookup: &mut Lookup<'_>,
    server: Arc<VirtualMCPServer>,
) -> Result<Resolved, ApplyError> {
    let defaults = context.settings.defaults.clone();
    let Resources { mut inputs, group, blocked } = resources(lookup, &server, defaults);
    let mut digests = BTreeMap::new();
    for entry in references(&inputs) {
        let SecretSource { kind, name, key, form: _ } = &entry.source;
        let source = SecretSource::new(*kind, name, key);
        let kind = match source.kind {
            SourceKind::ConfigMap => Kind::ConfigMap,
            SourceKind::Secret => Kind::Secret,
        };
        let object = lookup.source(kind, &source.name);
        let values = context.sources.digests(&object).await?;
        if let Some(digest) = values.and_then(|values| values.get(&source.key).copied()) {
            digests.insert(source, digest);
        }
    }
    inputs.available = digests.keys().cloned().collect::<Available>();
    let authz = server.spec.incoming_auth.authz_config.as_ref();
    if let Some(map) = authz
        .filter(|authz| authz.kind == AuthzSource::ConfigMap)
        .and_then(|authz| authz.config_map.as_ref())
    {
        let object = lookup.source(Kind::ConfigMap, &map.name);
        inputs.authorization_document = context.sources.text(&object.key, &map.key).await?;
    }
    Ok(Resolved { inputs, digests, group, blocked })
}

/// Collects the resources of vmcp.
pub(crate) fn resources(
    lookup: &mut Lookup<'_>,
    server: &Arc<VirtualMCPServer>,
    defaults: ClusterDefaults,
) -> Resources {
    let mut inputs = Inputs::new(Arc::clone(server));
    let (group, blocked) = group(lookup, &server.spec.group_ref.name);
    inputs.members = members(lookup, &server.spec.group_ref.name);
    inputs.external_auth_configs = external_auth_configs(lookup, server, &inputs.members);
    referenced(lookup, server, &mut inputs);
    inputs.defaults = defaults;
    inputs.checks = Some(Arc::new(ServerChecks));
    Resources { inputs, group, blocked }
}

fn group(lookup: &mut Lookup<'_>, name: &str) -> (ConditionUpdate, Option<Phase>) {
    let Some(group) = lookup.get::<MCPGroup>(name) else {
        let message = format!("MCPGroup {name} does not exist");
        let update = ConditionUpdate::new(GroupRefValidated::NotFound, message);
        return (update, Some(Phase::Failed));
    };
    let phase = group.status.as_ref().map(|status| status.phase).unwrap_or_default();
    if phase == GroupPhase::Ready {
        let message = format!("MCPGroup {name} is ready");
        return (ConditionUpdate::new(GroupRefValidated::Valid, message), None);
    }
    let message = format!("MCPGroup {name} is not ready: its phase is {phase:?}");
    (ConditionUpdate::new(GroupRefValidated::NotReady, message), Some(Phase::Pending))
}

fn members(lookup: &mut Lookup<'_>, group: &str) -> Vec<Member> {
    lookup.depend(Topic::Members(lookup.key().sibling(group)));
    let is_member = |name: Option<&str>| name == Some(group);
    let servers = lookup.list::<MCPServer>(|server| {
        is_member(server.spec.group_ref.as_ref().map(|group| group.name.as_str()))
    });
    let proxies = lookup.list::<MCPRemoteProxy>(|proxy| {
        is_member(proxy.spec.group_ref.as_ref().map(|group| group.name.as_str()))
    });
    let entries =
        lookup.list::<MCPServerEntry>(|entry| is_member(Some(&entry.spec.group_ref.name)));
    let servers = servers.into_iter().map(Member::Server);
    let proxies = proxies.into_iter().map(Member::Proxy);
    servers.chain(proxies).chain(entries.into_iter().map(Member::Entry)).collect()
}

fn external_auth_configs(
    lookup: &mut Lookup<'_>,
    server: &VirtualMCPServer,
    members: &[Member],
) -> BTreeMap<String, Arc<MCPExternalAuthConfig>> {
    let mut names = server.names_of(Kind::MCPExternalAuthConfig);
    let own = members.iter().filter_map(|member| match member {
        Member::Server(server) => server.spec.external_auth_config_ref.as_ref(),
        Member::Proxy(proxy) => proxy.spec.external_auth_config_ref.as_ref(),
        Member::Entry(entry) => entry.spec.external_auth_config_ref.as_ref(),
    });
    names.extend(own.map(|reference| reference.name.clone()));
    objects::<MCPExternalAuthConfig>(lookup, names)
}

/// Reads the other resources that the server refers to.
fn referenced(lookup: &mut Lookup<'_>, server: &VirtualMCPServer, inputs: &mut Inputs) {
    let spec = &server.spec;
    inputs.tool_configs = objects::<MCPToolConfig>(lookup, server.names_of(Kind::MCPToolConfig));
    let definitions = server.names_of(Kind::VirtualMCPCompositeToolDefinition);
    inputs.composite_tool_definitions =
        objects::<VirtualMCPCompositeToolDefinition>(lookup, definitions);
    let oidc = spec.incoming_auth.oidc_config_ref.as_ref();
    inputs.oidc_config = oidc.and_then(|oidc| lookup.get::<MCPOIDCConfig>(&oidc.name));
    let telemetry = spec.telemetry_config_ref.as_ref();
    inputs.telemetry_config =
        telemetry.and_then(|telemetry| lookup.get::<MCPTelemetryConfig>(&telemetry.name));
    let embedding = spec.embedding_server_ref.as_ref();
    inputs.embedding_server =
        embedding.and_then(|embedding| lookup.get::<EmbeddingServer>(&embedding.name));
}

fn objects<W: WatchedWhole<Kept = W>>(
    lookup: &mut Lookup<'_>,
    names: BTreeSet<String>,
) -> BTreeMap<String, Arc<W>> {
    let found = names.into_iter().filter_map(|name| {
        let object = lookup.get::<W>(&name)?;
        Some((name, object))
    });
    found.collect()
}

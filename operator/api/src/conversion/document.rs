//! The configuration as a whole.

use std::collections::{BTreeMap, BTreeSet};

use vmcp_config::{
    Aggregation, AuthServer, Backend, Config, EnvName, File, Format, IncomingMethod, Never,
    OutgoingAuth, ResourceRef, SecretRef, Source, Strategy, backend::ResourceDocument,
};

use super::{
    Backends, Conversion, WarningReason,
    aggregation::{for_discovery, with_tools},
    auth_server::{self, providers},
    backends::{Converted, Credentials},
    composite_tools::LocatedTools,
    converter::Converter,
    strategy::Providers,
};
use crate::{
    FreeForm, Inline, NameRef,
    virtual_mcp_server::{
        AuthConfigured, AuthServerConfigValidated, ServerValid, VirtualMCPServerSpec,
    },
};

/// Parts of the resource that have the types of the configuration.
struct Parts {
    config: Config,
    has_session_storage: bool,
    auth_server: Option<AuthServer<SecretRef>>,
}

/// Conversion of the whole configuration, before the server's parser has read it.
pub(super) struct Draft {
    file: File,
    left_out: Vec<super::LeftOut>,
    tools: LocatedTools,
}

/// Sections of the configuration that concern backends.
struct BackendSections {
    aggregation: Aggregation<Never>,
    backends: Vec<Backend>,
    variables: Vec<EnvName>,
    outgoing_auth: OutgoingAuth,
    left_out: Vec<super::LeftOut>,
}

impl Converter<'_> {
    /// Reads the parts of the resource. Their errors are recorded.
    fn parts(&mut self) -> Option<Parts> {
        let inline = self.inputs.server.spec.config.clone().unwrap_or_default();
        let config = match inline.parse() {
            Ok(config) => Some(config),
            Err(errors) => {
                self.reject_part("spec.config", ServerValid::Invalid, &errors);
                None
            }
        };
        let errors = self.errors.len();
        let auth_server = self.auth_server_section();
        let has_session_storage = is_given(&inline, "sessionStorage");
        let config = config.filter(|_| self.errors.len() == errors)?;
        Some(Parts { config, has_session_storage, auth_server })
    }

    /// Converts the members alone.
    pub(super) fn discovered_backends(&mut self) -> Option<Backends> {
        let Parts { config, has_session_storage: _, auth_server } = self.parts()?;
        let providers = providers(auth_server.as_ref(), self.inputs.server.spec.incoming_auth.kind);
        let credentials = self.credentials(config.outgoing_auth, &providers);
        let (tools, errors) = self.tools(config.aggregation.tools);
        for (path, message) in errors {
            self.warn(WarningReason::ToolConfigInvalid, format!("{path}: {message}"));
        }
        let Converted { backends, variables, strategies, left_out } =
            self.members(&credentials, &config.backends, &providers);
        Some(Backends {
            backends,
            variables: variables.into_iter().collect(),
            outgoing_auth: resolved(strategies),
            tools,
            secrets: self.take_secrets(),
            left_out,
            warnings: std::mem::take(&mut self.warnings),
            conditions: self.take_conditions(),
        })
    }

    /// Converts the whole resource.
    pub(super) fn draft(&mut self) -> Option<Draft> {
        let Parts { config, has_session_storage, auth_server } = self.parts()?;
        let Config {
            name,
            group_ref: inline_group,
            metadata,
            aggregation,
            mut audit,
            backends: listed,
            composite_tool_refs,
            composite_tools,
            incoming_auth: inline_incoming,
            outgoing_auth: inline_outgoing,
            operational,
            optimizer,
            session_storage,
            telemetry,
        } = config;
        let server = self.inputs.server.clone();
        let (NameRef { name: group }, pod_template) = group_and_template(&server.spec);
        self.warn_overridden(inline_group.as_deref(), inline_incoming.is_some());
        self.check_log_file(audit.log_file.as_deref(), pod_template);
        if audit.enabled {
            audit.component = audit.component.or_else(|| Some(self.inputs.name().to_owned()));
        }
        let providers = providers(auth_server.as_ref(), self.inputs.server.spec.incoming_auth.kind);
        let incoming_auth = self.incoming_auth(&providers);
        self.check_auth_server(auth_server.as_ref(), incoming_auth.as_ref());
        let credentials = self.credentials(inline_outgoing, &providers);
        let members = self.backend_sections(&credentials, aggregation, &listed, &providers);
        let located = self.composite_tools(composite_tools, &composite_tool_refs);
        let optimizer = self.optimizer(optimizer);
        let storage = self.session_storage(has_session_storage.then_some(session_storage));
        let telemetry = self.telemetry(telemetry);
        let auth_server = self.auth_server(auth_server);
        let BackendSections { aggregation, backends, variables, outgoing_auth, left_out } = members;
        let file = File {
            name: name.unwrap_or_else(|| self.inputs.name().to_owned()),
            group_ref: Some(group.clone()),
            metadata,
            aggregation,
            audit,
            backends,
            variables,
            composite_tools: located.iter().map(|(tool, _)| tool.clone()).collect(),
            incoming_auth: incoming_auth?,
            outgoing_auth,
            operational,
            optimizer: optimizer.ok()?,
            session_storage: storage?,
            telemetry: telemetry.ok()?,
            auth_server: auth_server.ok()?,
        };
        Some(Draft { file, left_out, tools: located })
    }

    /// Converts what concerns backends. A server that discovers its backends has none in its configuration.
    fn backend_sections(
        &mut self,
        credentials: &Credentials,
        aggregation: Aggregation<ResourceRef>,
        listed: &[Backend<ResourceDocument>],
        providers: &Providers,
    ) -> BackendSections {
        let outgoing_path = self.outgoing_path();
        for (path, message) in credentials.provider_errors() {
            let path = format!("{outgoing_path}.{path}");
            self.reject(path, AuthServerConfigValidated::Invalid, message);
        }
        let Converted { backends, variables, strategies, left_out } =
            self.members(credentials, listed, providers);
        let (tools, tool_errors) = self.tools(aggregation.tools.clone());
        for (path, message) in tool_errors {
            self.reject(path, ServerValid::Invalid, message);
        }
        match credentials.source {
            Source::Discovered => {
                let tools = for_discovery(&aggregation.tools);
                let source = Source::Discovered;
                let outgoing_auth = OutgoingAuth { source, ..OutgoingAuth::default() };
                let aggregation = with_tools(aggregation, tools);
                let (backends, variables) = (Vec::new(), Vec::new());
                BackendSections { aggregation, backends, variables, outgoing_auth, left_out }
            }
            Source::Inline => {
                let outgoing_auth = resolved(strategies);
                let aggregation = with_tools(aggregation, tools);
                let variables = variables.into_iter().collect();
                BackendSections { aggregation, backends, variables, outgoing_auth, left_out }
            }
        }
    }

    /// Warns of sections that the resource replaces always.
    fn warn_overridden(&mut self, inline_group: Option<&str>, has_incoming: bool) {
        let group = &self.inputs.server.spec.group_ref.name;
        if inline_group.is_some_and(|other| other != group) {
            let message = "spec.config.groupRef has no effect: spec.groupRef replaces it";
            self.warn(WarningReason::ConfigOverridden, message);
        }
        if has_incoming {
            let message = "spec.config.incomingAuth has no effect: spec.incomingAuth replaces it";
            self.warn(WarningReason::ConfigOverridden, message);
        }
    }

    /// Reads the draft with the server's own parser. Its errors are recorded with their paths in the resources.
    pub(super) fn finish(&mut self, draft: Draft) -> Option<Conversion> {
        let Draft { file, left_out, tools } = draft;
        let yaml = match to_yaml(&file) {
            Ok(yaml) => yaml,
            Err(error) => {
                self.reject("spec.config", ServerValid::Invalid, error);
                return None;
            }
        };
        let file = match File::parse(&yaml, Format::Yaml) {
            Ok(file) => file,
            Err(errors) => {
                for error in &errors {
                    self.reject_in_resource(error, &tools);
                }
                return None;
            }
        };
        let checks = self.inputs.checks.clone();
        let more = checks.map(|checks| checks.file(&file)).unwrap_or_default();
        for error in file.contradictions().into_iter().chain(more) {
            self.reject_in_resource(&error, &tools);
        }
        if !self.errors.is_empty() {
            return None;
        }
        self.report(AuthConfigured::Valid, "all Secrets of the server exist");
        self.report(ServerValid::Valid, "the configuration of the server is valid");
        Some(Conversion {
            environment: self.environment(file.telemetry.as_ref()),
            hosts: hosts(&file, &self.inputs.server.spec),
            file,
            yaml,
            secrets: self.take_secrets(),
            left_out,
            warnings: std::mem::take(&mut self.warnings),
            conditions: self.take_conditions(),
        })
    }

    fn take_conditions(&mut self) -> Vec<super::ConditionUpdate> {
        let mut conditions = std::mem::take(&mut self.conditions);
        conditions.sort_by(|left, right| left.type_.cmp(&right.type_));
        conditions
    }

    /// Checks that the embedded authorization server is the issuer of the tokens of callers.
    fn check_auth_server(
        &mut self,
        section: Option<&AuthServer<SecretRef>>,
        incoming: Option<&vmcp_config::IncomingAuth>,
    ) {
        let Some(section) = section else { return };
        let Some(incoming) = incoming else { return };
        let IncomingMethod::Oidc(oidc) = &incoming.method else {
            let message = "found a type without tokens with authServerConfig; allowed: oidc, with the issuer of authServerConfig";
            self.reject("spec.incomingAuth.type", AuthServerConfigValidated::Invalid, message);
            return;
        };
        if oidc.issuer != section.issuer.as_str() {
            let message = format!(
                "found \"{}\"; allowed: the issuer of spec.incomingAuth.oidcConfigRef, \"{}\"",
                section.issuer, oidc.issuer
            );
            let path = format!("{}.issuer", auth_server::AT);
            self.reject(path, AuthServerConfigValidated::Invalid, message);
            return;
        }
        let message = "the embedded authorization server is valid";
        self.report(AuthServerConfigValidated::Valid, message);
    }

    /// Checks that the audit file is on a volume: the rest of the file system is read-only.
    fn check_log_file(&mut self, file: Option<&str>, template: Option<&FreeForm>) {
        let Some(file) = file.filter(|file| !file.is_empty()) else { return };
        let volumes = mounted_volumes(template);
        let is_within = |mount: &String| {
            let rest = file.strip_prefix(mount.trim_end_matches('/'));
            rest.is_some_and(|rest| rest.len() > 1 && rest.starts_with('/'))
        };
        let climbs = file.split('/').any(|part| part == "..");
        if climbs || !volumes.iter().any(is_within) {
            let message = format!(
                "found \"{file}\"; allowed: a file on a volume that podTemplateSpec mounts in the container vmcp: {}",
                volumes.into_iter().collect::<Vec<_>>().join(", ")
            );
            self.reject("spec.config.audit.logFile", ServerValid::Invalid, message);
        }
    }
}

/// Returns the parts of the resource that no section has: the group, and the template that may mount volumes. The conversions of
/// sections and the plan of the server's objects read the others.
fn group_and_template(spec: &VirtualMCPServerSpec) -> (&NameRef, Option<&FreeForm>) {
    let VirtualMCPServerSpec {
        group_ref,
        pod_template_spec,
        auth_server_config: _,
        config: _,
        embedding_server_ref: _,
        http_route: _,
        incoming_auth: _,
        ingress: _,
        network_policy: _,
        outgoing_auth: _,
        pod_disruption_budget: _,
        session_storage: _,
        telemetry_config_ref: _,
        image_pull_secrets: _,
        replicas: _,
        service_account: _,
        service_monitor: _,
        service_type: _,
        session_affinity: _,
    } = spec;
    (group_ref, pod_template_spec.as_ref())
}

/// Returns credentials that have been resolved for each backend.
fn resolved(strategies: BTreeMap<String, Strategy>) -> OutgoingAuth {
    OutgoingAuth { source: Source::Inline, default: None, backends: strategies }
}

/// Returns `true` if the part as written has the key.
fn is_given(inline: &Inline<Config>, key: &str) -> bool {
    inline.value().get(key).is_some_and(|value| !value.is_null())
}

/// Returns the paths of the volumes that the container of the server may write to.
fn mounted_volumes(template: Option<&FreeForm>) -> BTreeSet<String> {
    let containers = template
        .and_then(|FreeForm(template)| template.get("spec")?.get("containers")?.as_array())
        .into_iter()
        .flatten();
    let mut own = containers.filter(|container| container["name"] == "vmcp");
    let mounts = own.next().and_then(|container| container["volumeMounts"].as_array());
    mounts
        .into_iter()
        .flatten()
        .filter(|mount| mount["readOnly"] != true)
        .filter_map(|mount| mount["mountPath"].as_str())
        .map(str::to_owned)
        .collect()
}

/// Writes a configuration with sorted keys. serde_json keeps the order of insertion in programs in which any crate asks for that,
/// and another order would be another configuration, which rolls the pods.
fn to_yaml(file: &File) -> Result<String, String> {
    let mut value = serde_json::to_value(file).map_err(|error| error.to_string())?;
    value.sort_all_objects();
    serde_saphyr::to_string(&value).map_err(|error| error.to_string())
}

/// Returns the hosts of the server's public URLs and routes, sorted.
fn hosts(file: &File, spec: &VirtualMCPServerSpec) -> Vec<String> {
    let mut urls = Vec::new();
    if let IncomingMethod::Oidc(oidc) = &file.incoming_auth.method {
        urls.push(oidc.resource().to_owned());
    }
    if let Some(server) = &file.auth_server {
        urls.push(server.issuer.as_str().to_owned());
        urls.extend(server.authorization_endpoint_base_url.iter().map(ToString::to_string));
    }
    let mut hosts: BTreeSet<String> = urls
        .iter()
        .filter_map(|url| url::Url::parse(url).ok()?.host_str().map(str::to_owned))
        .collect();
    hosts.extend(spec.ingress.iter().map(|route| route.host.clone()));
    let names = spec.http_route.iter().flat_map(|route| &route.hostnames);
    hosts.extend(names.map(|host| host.0.clone()));
    hosts.into_iter().collect()
}

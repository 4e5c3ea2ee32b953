//! Resources that servers and workloads share, judged by themselves: as the smallest server that refers to them would.

use std::{fmt, sync::Arc};

use kube::ResourceExt;
use serde_json::{Value, json};
use vmcp_config::{AuthServer, ConfigError, SecretRef};

use super::{
    Available, Checks, Inputs, SecretEntry,
    auth_server::synthesized_identities,
    composite_tools::DefinitionErrors,
    convert,
    converter::{Converter, describe, join},
    references,
};
use crate::{
    ExternalAuthIdentitySynthesized, ExternalAuthType, Inline, InlineType, MCPExternalAuthConfig,
    MCPOIDCConfig, MCPTelemetryConfig, MCPToolConfig, NameRef, OidcConfigRef, TelemetryConfigRef,
    VirtualMCPCompositeToolDefinition, VirtualMCPServer, VirtualMCPServerSpec, WorkflowValidated,
    condition::ConditionReason,
    conversion::ConditionUpdate,
    virtual_mcp_server::{
        AuthConfigured, IncomingAuth, IncomingAuthType, OutgoingAuth, OutgoingAuthSource,
        ServiceType, SessionAffinity,
    },
};

/// Section of an MCPExternalAuthConfig with the authorization server of a workload.
const EMBEDDED: &str = "spec.embeddedAuthServer";

/// Resource that servers and workloads share.
pub trait SharedResource {
    /// Returns the errors that each server with a reference to the resource has.
    fn errors(&self, checks: &Arc<dyn Checks>) -> Vec<ResourceError>;

    /// Returns the keys of Secrets and ConfigMaps that the resource names, whether they exist or not.
    fn key_references(&self) -> Vec<SecretEntry>;

    /// Returns an error for each key that the resource needs and that is not `available`.
    fn missing_keys(&self, available: &Available) -> Vec<ResourceError>;
}

/// Error of a resource by itself.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ResourceError {
    /// Path of the field.
    pub path: String,
    /// Found value, and what is allowed.
    pub message: String,
}

impl SharedResource for MCPExternalAuthConfig {
    fn errors(&self, checks: &Arc<dyn Checks>) -> Vec<ResourceError> {
        let spec = &self.spec;
        let mut errors = part_errors(EMBEDDED, spec.embedded_auth_server.as_ref());
        errors.extend(part_errors("spec.awsSts", spec.aws_sts.as_ref()));
        errors.extend(part_errors("spec.upstreamInject", spec.upstream_inject.as_ref()));
        if !errors.is_empty() {
            return errors;
        }
        if spec.kind == ExternalAuthType::EmbeddedAuthServer {
            let message = "found no value; allowed: a value with type: embeddedAuthServer";
            let is_absent = spec.embedded_auth_server.is_none();
            return is_absent.then(|| ResourceError::new(EMBEDDED, message)).into_iter().collect();
        }
        let inputs = Inputs { checks: Some(Arc::clone(checks)), ..referrer(self, |_| {}) };
        let name = self.name_any();
        let result = Converter::for_references(&inputs).own_settings(&name, spec);
        result.err().map(|error| of_message(self, &error.message)).into_iter().collect()
    }

    fn key_references(&self) -> Vec<SecretEntry> {
        let inputs = referrer(self, |_| {});
        let mut converter = Converter::for_references(&inputs);
        // Errors leave out references that depend on what is wrong.
        if let Some(section) = self.auth_server() {
            _ = converter.auth_server(Some(section));
        } else if self.spec.kind != ExternalAuthType::EmbeddedAuthServer {
            _ = converter.own_settings(&self.name_any(), &self.spec);
        }
        converter.take_secrets()
    }

    fn missing_keys(&self, available: &Available) -> Vec<ResourceError> {
        let inputs = Inputs { available: available.clone(), ..referrer(self, |_| {}) };
        let mut converter = Converter::new(&inputs);
        if let Some(section) = self.auth_server() {
            _ = converter.auth_server(Some(section));
            let errors = converter.errors.into_iter();
            let located = errors.map(|error| {
                let rest = error.path.strip_prefix(super::auth_server::AT).unwrap_or_default();
                ResourceError::new(format!("{EMBEDDED}{rest}"), error.condition.message)
            });
            return located.collect();
        }
        let entries = self.key_references().into_iter();
        let missing = entries.filter(|entry| !available.contains(&entry.source));
        missing
            .map(|entry| {
                let path = strip_owner(self, &entry.path).to_owned();
                ResourceError::new(path, super::converter::Missing(entry.source).to_string())
            })
            .collect()
    }
}

impl MCPExternalAuthConfig {
    /// Returns the authorization server of a workload, if the resource has one without errors.
    #[must_use]
    pub fn auth_server(&self) -> Option<AuthServer<SecretRef>> {
        let is_auth_server = self.spec.kind == ExternalAuthType::EmbeddedAuthServer;
        let section = self.spec.embedded_auth_server.as_ref().filter(|_| is_auth_server)?;
        section.parse().ok()
    }

    /// Returns the condition about upstream providers without a source of identities. Absent without providers of OAuth 2.0.
    #[must_use]
    pub fn identities(&self) -> Option<ConditionUpdate> {
        let section = self.auth_server()?;
        Some(match synthesized_identities(&section.upstream_providers)? {
            Ok(message) => {
                ConditionUpdate::new(ExternalAuthIdentitySynthesized::WithUserInfo, message)
            }
            Err(message) => {
                ConditionUpdate::new(ExternalAuthIdentitySynthesized::WithoutUserInfo, message)
            }
        })
    }
}

/// Resource that the conversion of a server reads as a whole.
trait Referred: ResourceExt<DynamicType = ()> {
    /// Returns the inputs of the smallest server that refers to the resource. Its status does not count.
    fn referrer(&self) -> Inputs;

    /// Returns the path in the resource of an error in the server.
    fn path_of(path: &str) -> String {
        path.to_owned()
    }
}

impl Referred for MCPOIDCConfig {
    fn referrer(&self) -> Inputs {
        let reference = OidcConfigRef {
            name: self.name_any(),
            audience: "audience".to_owned(),
            ..OidcConfigRef::default()
        };
        let mut inputs = referrer(self, |spec| {
            spec.incoming_auth.kind = IncomingAuthType::Oidc;
            spec.incoming_auth.oidc_config_ref = Some(reference);
        });
        inputs.oidc_config = Some(Arc::new(Self { status: None, ..self.clone() }));
        inputs
    }
}

impl Referred for MCPTelemetryConfig {
    fn referrer(&self) -> Inputs {
        let reference = TelemetryConfigRef { name: self.name_any(), service_name: None };
        let mut inputs = referrer(self, |spec| spec.telemetry_config_ref = Some(reference));
        inputs.telemetry_config = Some(Arc::new(Self { status: None, ..self.clone() }));
        inputs
    }
}

impl Referred for MCPToolConfig {
    fn referrer(&self) -> Inputs {
        let tools =
            json!([{ "workload": "workload", "toolConfigRef": { "name": self.name_any() } }]);
        let mut inputs = referrer(self, |spec| {
            spec.config = Some(Inline::new(json!({ "aggregation": { "tools": tools } })));
        });
        let config = Self { status: None, ..self.clone() };
        inputs.tool_configs.insert(self.name_any(), Arc::new(config));
        inputs
    }

    fn path_of(path: &str) -> String {
        let Some(rest) = path.strip_prefix("spec.config.aggregation.tools[0].") else {
            return path.to_owned();
        };
        let places = [("filter", "spec.toolsFilter"), ("overrides", "spec.toolsOverride")];
        let found =
            places.iter().find_map(|(from, to)| Some(format!("{to}{}", rest.strip_prefix(from)?)));
        found.unwrap_or_else(|| "spec".to_owned())
    }
}

impl<R: Referred> SharedResource for R {
    fn errors(&self, checks: &Arc<dyn Checks>) -> Vec<ResourceError> {
        let mut inputs = self.referrer();
        inputs.available = references(&inputs).into_iter().map(|entry| entry.source).collect();
        inputs.checks = Some(Arc::clone(checks));
        conversion_errors(self, &inputs, |_| true)
    }

    fn key_references(&self) -> Vec<SecretEntry> {
        references(&self.referrer())
    }

    fn missing_keys(&self, available: &Available) -> Vec<ResourceError> {
        let inputs = Inputs { available: available.clone(), ..self.referrer() };
        conversion_errors(self, &inputs, |type_| type_ == AuthConfigured::TYPE)
    }
}

impl VirtualMCPCompositeToolDefinition {
    /// Returns the errors that each server with a reference to the definition has, and the reason that they have in common.
    ///
    /// # Errors
    ///
    /// All errors of the definition, with paths in the resource. None without checks that the tool compiles.
    pub fn check(
        &self,
        checks: &Arc<dyn Checks>,
    ) -> Result<(), (WorkflowValidated, Vec<ResourceError>)> {
        let inputs = Inputs { checks: Some(Arc::clone(checks)), ..referrer(self, |_| {}) };
        let Err(errors) = Converter::new(&inputs).definition_tool(&self.spec) else {
            return Ok(());
        };
        let located = errors.list().iter().map(|error| located("spec", error)).collect();
        Err((errors.reason(self.spec.value()), located))
    }
}

impl DefinitionErrors {
    /// Returns the reason that all errors of a definition have in common.
    fn reason(&self, definition: &Value) -> WorkflowValidated {
        if self.list().iter().all(|error| is_cycle(definition, error)) {
            return WorkflowValidated::DependencyCycle;
        }
        match self {
            Self::Schema(_) => WorkflowValidated::SchemaInvalid,
            Self::Workflow(errors) if errors.iter().all(is_of_template) => {
                WorkflowValidated::TemplateInvalid
            }
            Self::Workflow(_) => WorkflowValidated::Failed,
        }
    }
}

/// Returns whether an error is about a cycle of steps: the others about `dependsOn` are about ids that no step has.
fn is_cycle(definition: &Value, error: &ConfigError) -> bool {
    let step = error.path.strip_prefix("steps[").and_then(|rest| rest.strip_suffix("].dependsOn"));
    let Some(index) = step.and_then(|index| index.parse::<usize>().ok()) else { return false };
    let steps = &definition["steps"];
    let dependencies = steps[index]["dependsOn"].as_array();
    let exists =
        |id: &Value| steps.as_array().is_some_and(|all| all.iter().any(|one| one["id"] == *id));
    dependencies.is_some_and(|ids| ids.iter().all(exists))
}

/// Returns whether an error is at a field that holds a template.
fn is_of_template(error: &ConfigError) -> bool {
    let path = error.path.as_str();
    let last = path.rsplit('.').next().unwrap_or_default();
    matches!(last, "condition" | "message" | "collection" | "value")
        || path.contains(".arguments.")
        || path.contains(".arguments[")
}

impl ResourceError {
    fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { path: path.into(), message: message.into() }
    }
}

impl fmt::Display for ResourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, message } = self;
        if path.is_empty() { f.write_str(message) } else { write!(f, "{path}: {message}") }
    }
}

impl std::error::Error for ResourceError {}

/// Returns the inputs of the smallest server in the namespace of a resource, after a change of its spec.
fn referrer(
    resource: &impl ResourceExt<DynamicType = ()>,
    change: impl FnOnce(&mut VirtualMCPServerSpec),
) -> Inputs {
    let mut spec = VirtualMCPServerSpec {
        auth_server_config: None,
        config: None,
        embedding_server_ref: None,
        group_ref: NameRef { name: "group".to_owned() },
        image_pull_secrets: Vec::new(),
        incoming_auth: IncomingAuth {
            kind: IncomingAuthType::Anonymous,
            oidc_config_ref: None,
            authz_config: None,
        },
        outgoing_auth: Some(OutgoingAuth {
            source: OutgoingAuthSource::Inline,
            ..OutgoingAuth::default()
        }),
        http_route: None,
        ingress: None,
        network_policy: None,
        pod_disruption_budget: None,
        pod_template_spec: None,
        replicas: None,
        service_account: None,
        service_monitor: None,
        service_type: ServiceType::default(),
        session_affinity: SessionAffinity::default(),
        session_storage: None,
        telemetry_config_ref: None,
    };
    change(&mut spec);
    let mut server = VirtualMCPServer::new("server", spec);
    server.metadata.namespace = resource.namespace();
    Inputs::new(server)
}

/// Returns the errors of a conversion whose condition matches, with paths in the resource.
fn conversion_errors<R: Referred>(
    resource: &R,
    inputs: &Inputs,
    is_wanted: impl Fn(&str) -> bool,
) -> Vec<ResourceError> {
    let errors = convert(inputs).err().unwrap_or_default().into_iter();
    let wanted = errors.filter(|error| is_wanted(&error.condition.type_));
    wanted
        .map(|error| {
            let of_message = of_message(resource, &error.condition.message);
            if !of_message.path.is_empty() {
                return of_message;
            }
            let path = R::path_of(strip_owner(resource, &error.path));
            ResourceError::new(path, error.condition.message)
        })
        .collect()
}

/// Returns the path within a resource of one that has kind and name of the resource in front.
fn strip_owner<'p>(resource: &impl ResourceExt<DynamicType = ()>, path: &'p str) -> &'p str {
    let owner = format!("{}/{}: ", kind_of(resource), resource.name_any());
    path.strip_prefix(&owner).unwrap_or(path)
}

/// Splits a message with kind and name of the resource in front into the path after them and the rest. Others have no path.
fn of_message(resource: &impl ResourceExt<DynamicType = ()>, message: &str) -> ResourceError {
    let owner = format!("{} {}: ", kind_of(resource), resource.name_any());
    let located = message.strip_prefix(&owner).and_then(|rest| rest.split_once(": "));
    match located {
        Some((path, message)) => ResourceError::new(path, message),
        None => ResourceError::new("", message),
    }
}

fn kind_of<R: ResourceExt<DynamicType = ()>>(_: &R) -> std::borrow::Cow<'static, str> {
    R::kind(&())
}

fn part_errors<T: InlineType>(path: &str, part: Option<&Inline<T>>) -> Vec<ResourceError> {
    let errors = part.and_then(|part| part.parse().err());
    errors.iter().flatten().map(|error| located(path, error)).collect()
}

fn located(at: &str, error: &ConfigError) -> ResourceError {
    ResourceError::new(join(at, &error.path), describe(error))
}

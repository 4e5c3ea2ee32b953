//! Configuration documents: the inline configuration of a resource, and the file that the server reads.

mod rules;

use std::{collections::BTreeMap, path::Path};

use serde::Serialize;

use crate::{
    ConfigError, ConfigErrors,
    aggregation::Aggregation,
    audit::Audit,
    auth_server::{AuthServer, SecretFile, SecretRef},
    backend::{Backend, FileDocument, ResourceDocument},
    composite::CompositeTool,
    config_value::{ConfigValue, Constraint, Rule, section},
    context::{Context, FileReference},
    incoming_auth::IncomingAuth,
    operational::Operational,
    optimizer::Optimizer,
    outgoing_auth::OutgoingAuth,
    reference::ResourceRef,
    session_storage::SessionStorage,
    string_types::EnvName,
    telemetry::Telemetry,
    tree::{MAX_BYTES, Node},
};

section! {
    /// Inline configuration of a resource, `VirtualMCPServer.spec.config`. The operator fills in the rest.
    pub struct Config {
        /// Name of the server. Absent means the name of the resource.
        pub name: Option<String>;
        /// Group of the backends. Filled in from the resource.
        pub group_ref: Option<String>;
        /// Free-form data in the status.
        pub metadata: BTreeMap<String, String> = BTreeMap::new();
        /// Aggregation of the tools of all backends into one list.
        pub aggregation: Aggregation<ResourceRef> = Aggregation::default();
        /// Audit events of client requests.
        pub audit: Audit = Audit::default();
        /// The backends, with `outgoingAuth.source: inline`.
        pub backends: Vec<Backend<ResourceDocument>> = Vec::new();
        /// VirtualMCPCompositeToolDefinition resources in the same namespace.
        pub composite_tool_refs: Vec<ResourceRef> = Vec::new();
        /// Tools of several steps.
        pub composite_tools: Vec<CompositeTool> = Vec::new();
        /// Authentication and authorization of callers. Overwritten from the resource.
        pub incoming_auth: Option<IncomingAuth>;
        /// Credentials for backends. Overwritten from the resource.
        pub outgoing_auth: Option<OutgoingAuth>;
        /// Timeouts, failure handling and logging.
        pub operational: Operational = Operational::default();
        /// Shows clients a search instead of all tools.
        pub optimizer: Option<Optimizer>;
        /// Storage of client sessions. Overwritten from the resource.
        pub session_storage: SessionStorage<SecretRef> = SessionStorage::Memory;
        /// Traces and metrics. Prefer a telemetry resource.
        pub telemetry: Option<Telemetry>;
    }
    rules [
        Rule::Moved("variables", "references to Secrets; only the file of a server has variables"),
        Rule::Moved("authServer", "spec.authServerConfig of the resource"),
        Rule::Unique("backends", "name"),
        Rule::Unique("compositeTools", "name"),
        Rule::Unique("compositeToolRefs", "name"),
        Rule::Custom(rules::check_discovered_backends),
        Rule::Cel(
            "!has(self.backends) || size(self.backends) == 0 || !has(self.outgoingAuth) || \
             self.outgoingAuth.source != 'discovered'",
            "backends only with outgoingAuth.source: inline",
        ),
    ]
}

section! {
    /// The configuration of one server: the file that `vmcp serve` reads.
    pub struct File {
        /// Name of the server.
        pub name: String, [Constraint::NotEmpty];
        /// Group of the backends. Absent means the name of the server.
        pub group_ref: Option<String>;
        /// Free-form data in the status.
        pub metadata: BTreeMap<String, String> = BTreeMap::new();
        /// Aggregation of the tools of all backends into one list.
        pub aggregation: Aggregation = Aggregation::default();
        /// Audit events of client requests.
        pub audit: Audit = Audit::default();
        /// The MCP servers behind this one.
        pub backends: Vec<Backend<FileDocument>> = Vec::new();
        /// Environment variables that `${NAME}` in `url` and `headers` of backends may read.
        pub variables: Vec<EnvName> = Vec::new();
        /// Tools of several steps.
        pub composite_tools: Vec<CompositeTool> = Vec::new();
        /// Authentication and authorization of callers.
        pub incoming_auth: IncomingAuth;
        /// Credentials for backends.
        pub outgoing_auth: OutgoingAuth = OutgoingAuth::default();
        /// Timeouts, failure handling and logging.
        pub operational: Operational = Operational::default();
        /// Shows clients a search instead of all tools.
        pub optimizer: Option<Optimizer>;
        /// Storage of client sessions.
        pub session_storage: SessionStorage = SessionStorage::Memory;
        /// Traces and metrics.
        pub telemetry: Option<Telemetry>;
        /// Embedded authorization server.
        pub auth_server: Option<AuthServer<SecretFile>>;
    }
    rules [
        Rule::Moved("mcpServers", "backends; convert the file of a client with: vmcp init --from FILE"),
        Rule::Moved("servers", "backends; convert the file of a client with: vmcp init --from FILE"),
        Rule::Moved("compositeToolRefs", "compositeTools; only the operator resolves references"),
        Rule::Unique("backends", "name"),
        Rule::Unique("compositeTools", "name"),
        Rule::Custom(rules::check_discovered_backends),
        Rule::Custom(rules::check_listed_variables),
        Rule::Custom(rules::check_issuer),
        Rule::Custom(rules::check_providers),
    ]
}

/// Error of writing the configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot write the configuration as YAML: {0}")]
pub struct WriteError(String);

/// Format of a document.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// YAML 1.2, and so JSON too.
    #[default]
    Yaml,
    /// JSON, strictly.
    Json,
}

// === impl Format ===

impl Format {
    /// Returns the format for a file name: JSON for `.json`, YAML for all others.
    #[must_use]
    pub fn from_path(path: &Path) -> Self {
        match path.extension() {
            Some(extension) if extension.eq_ignore_ascii_case("json") => Self::Json,
            Some(_) | None => Self::Yaml,
        }
    }
}

// === impl Config ===

impl Config {
    /// Reads a resource's inline configuration.
    ///
    /// # Errors
    ///
    /// Returns all errors of the document.
    pub fn parse(text: &str, format: Format) -> Result<Self, ConfigErrors> {
        crate::config_value::parse(&tree(text, format)?)
    }

    /// Writes the configuration as YAML, with all defaults, and with its secrets in plain text.
    ///
    /// # Errors
    ///
    /// Returns the error of the YAML writer.
    pub fn to_yaml(&self) -> Result<String, WriteError> {
        write(self)
    }
}

// === impl File ===

impl File {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// Returns all errors of the document.
    pub fn parse(text: &str, format: Format) -> Result<Self, ConfigErrors> {
        crate::config_value::parse(&tree(text, format)?)
    }

    /// Reads the valid parts of a document with errors, so that they can be checked as well. Defaults and placeholders
    /// replace invalid and missing values. Returns `None` for text that is not a document.
    #[must_use]
    pub fn parse_lossy(text: &str, format: Format) -> Option<Self> {
        crate::config_value::parse_lossy(&tree(text, format).ok()?)
    }

    /// Returns the files that a document names, such as those of secrets and CA bundles. Of a document with errors, it
    /// returns those in the valid parts. A changed file changes the configuration of the same document.
    #[must_use]
    pub fn file_references(text: &str, format: Format) -> Vec<FileReference> {
        let Ok(tree) = tree(text, format) else { return Vec::new() };
        let mut cx = Context::default();
        _ = <Self as ConfigValue>::read(&tree, &mut cx);
        cx.file_references()
    }

    /// Returns the group of the backends: `groupRef`, or else the name of the server.
    #[must_use]
    pub fn group(&self) -> &str {
        self.group_ref.as_deref().unwrap_or(&self.name)
    }

    /// Writes the configuration as YAML, with all defaults, and with its secrets in plain text.
    ///
    /// # Errors
    ///
    /// Returns the error of the YAML writer.
    pub fn to_yaml(&self) -> Result<String, WriteError> {
        write(self)
    }
}

fn write<T: Serialize>(value: &T) -> Result<String, WriteError> {
    serde_saphyr::to_string(value).map_err(|error| WriteError(error.to_string()))
}

fn tree(text: &str, format: Format) -> Result<Node, ConfigErrors> {
    if text.len() > MAX_BYTES {
        let (found, allowed) =
            (format!("{} bytes", text.len()), format!("at most {MAX_BYTES} bytes"));
        return Err(ConfigErrors::single(ConfigError::new("", found, allowed)));
    }
    match format {
        Format::Yaml => crate::tree::parse_yaml(text),
        Format::Json => crate::tree::parse_json(text),
    }
}

//! VirtualMCPCompositeToolDefinition: a composite tool that several servers share.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use vmcp_config::{CompositeTool, ConfigErrors};

use crate::{
    Inline,
    condition::{conditions, conditions_schema},
};

/// Composite tool that several servers share; the same fields as an entry of `compositeTools` in a server's configuration.
#[derive(Clone, CustomResource, Debug, Default, Deserialize, PartialEq, Serialize)]
#[kube(
    group = "vmcp.dev",
    version = "v1beta1",
    kind = "VirtualMCPCompositeToolDefinition",
    plural = "virtualmcpcompositetooldefinitions",
    shortname = "vmcpctd",
    shortname = "compositetool",
    category = "mcp",
    namespaced,
    schema = "disabled",
    status = "VirtualMCPCompositeToolDefinitionStatus",
    derive = "PartialEq",
    printcolumn(name = "Workflow", type_ = "string", json_path = ".spec.name"),
    printcolumn(name = "Status", type_ = "string", json_path = ".status.validationStatus"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Ready')].status"
    )
)]
#[serde(transparent)]
pub struct VirtualMCPCompositeToolDefinitionSpec {
    tool: Inline<CompositeTool>,
}

/// Observed state of a VirtualMCPCompositeToolDefinition.
#[derive(Clone, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct VirtualMCPCompositeToolDefinitionStatus {
    /// Result of the check of the definition.
    #[serde(default)]
    pub validation_status: ValidationStatus,
    /// Errors of the definition.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub validation_errors: Vec<String>,
    /// Names of the VirtualMCPServer resources that refer to this one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub referencing_virtual_servers: Vec<String>,
    /// Generation of the resource that this status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Conditions of the definition.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions_schema")]
    pub conditions: Vec<Condition>,
}

/// Result of the check of a definition.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum ValidationStatus {
    /// Servers can use it.
    Valid,
    /// Servers cannot use it.
    Invalid,
    /// It was not checked yet.
    #[default]
    Unknown,
}

conditions! {
    /// Condition that tells whether the definition is valid.
    WorkflowValidated: "WorkflowValidated" {
        Success = True "ValidationSuccess",
        Failed = False "ValidationFailed",
        SchemaInvalid = False "SchemaInvalid",
        TemplateInvalid = False "TemplateInvalid",
        DependencyCycle = False "DependencyCycle",
    }
    /// Condition that tells whether servers can use the definition.
    WorkflowReady: "Ready" {
        Ready = True "WorkflowReady",
        NotReady = False "WorkflowNotReady",
    }
}

// === impl VirtualMCPCompositeToolDefinitionSpec ===

impl VirtualMCPCompositeToolDefinitionSpec {
    /// Takes a definition as written.
    #[must_use]
    pub fn new(tool: Inline<CompositeTool>) -> Self {
        Self { tool }
    }

    /// Returns the definition as written.
    pub(crate) fn value(&self) -> &serde_json::Value {
        self.tool.value()
    }

    /// Reads the composite tool.
    ///
    /// # Errors
    ///
    /// Returns all errors of the definition, with paths within `spec`.
    pub fn parse(&self) -> Result<CompositeTool, ConfigErrors> {
        self.tool.parse()
    }
}

impl JsonSchema for VirtualMCPCompositeToolDefinitionSpec {
    fn inline_schema() -> bool {
        Inline::<CompositeTool>::inline_schema()
    }

    fn schema_name() -> Cow<'static, str> {
        Inline::<CompositeTool>::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Inline::<CompositeTool>::json_schema(generator)
    }
}

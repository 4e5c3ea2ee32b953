//! EmbeddingServer: text-embeddings-inference for the optimizer of servers.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use vmcp_config::SecretRef;

use crate::{
    FreeForm,
    condition::{conditions, conditions_schema},
    reference::{EnvVar, MetadataOverrides, ResourceRequirements},
};

/// Embedding service for the optimizer of servers: text-embeddings-inference.
#[derive(Clone, CustomResource, Debug, Deserialize, KubeSchema, PartialEq, Serialize)]
#[kube(
    group = "vmcp.dev",
    version = "v1beta1",
    kind = "EmbeddingServer",
    plural = "embeddingservers",
    shortname = "emb",
    shortname = "embedding",
    category = "mcp",
    namespaced,
    schema = "disabled",
    status = "EmbeddingServerStatus",
    derive = "PartialEq",
    printcolumn(name = "Status", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Model", type_ = "string", json_path = ".spec.model"),
    printcolumn(name = "Ready", type_ = "integer", json_path = ".status.readyReplicas"),
    printcolumn(name = "URL", type_ = "string", json_path = ".status.url"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[x_kube(validation = (
    "!has(self.args) || self.args.all(one, !one.startsWith('--model-id') && !one.startsWith('--port'))",
    "args must not have --model-id and --port: set model and port",
))]
#[x_kube(validation = (
    "has(self.modelCache) == has(oldSelf.modelCache) && (!has(self.modelCache) || self.modelCache == oldSelf.modelCache)",
    "modelCache cannot change, because volume claims cannot: create another EmbeddingServer",
))]
#[x_kube(validation = (
    "(has(self.resourceOverrides) && has(self.resourceOverrides.persistentVolumeClaim)) == (has(oldSelf.resourceOverrides) && has(oldSelf.resourceOverrides.persistentVolumeClaim)) && (!has(self.resourceOverrides) || !has(self.resourceOverrides.persistentVolumeClaim) || self.resourceOverrides.persistentVolumeClaim == oldSelf.resourceOverrides.persistentVolumeClaim)",
    "resourceOverrides.persistentVolumeClaim cannot change, because volume claims cannot: create another EmbeddingServer",
))]
#[serde(rename_all = "camelCase")]
pub struct EmbeddingServerSpec {
    /// Model that computes the embeddings.
    #[serde(default = "model")]
    pub model: String,
    /// Token for the hub that the model is downloaded from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hf_token_secret_ref: Option<SecretRef>,
    /// Image of text-embeddings-inference.
    #[serde(default = "image")]
    pub image: String,
    /// Policy for pulling the image.
    #[serde(default)]
    pub image_pull_policy: ImagePullPolicy,
    /// Port of the service.
    #[serde(default = "port")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: i32,
    /// Further arguments, but --model-id and --port.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub args: Vec<String>,
    /// Further environment variables.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub env: Vec<EnvVar>,
    /// Compute resources of the container.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,
    /// Volume of each replica that keeps the model between restarts. Absent is none. It cannot change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_cache: Option<ModelCache>,
    /// Pod template that is merged over the generated one. The container is named embedding.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_template_spec: Option<FreeForm>,
    /// Annotations and labels of the generated objects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_overrides: Option<EmbeddingOverrides>,
    /// Number of replicas.
    #[serde(default = "replicas")]
    #[schemars(range(min = 1))]
    pub replicas: i32,
}

/// Policy for pulling an image.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum ImagePullPolicy {
    /// At each start.
    Always,
    /// Only images of the node.
    Never,
    /// Images that the node lacks.
    #[default]
    IfNotPresent,
}

/// Volume that keeps the model between restarts.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelCache {
    /// Enables the volume.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// Storage class. Absent is the default of the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage_class_name: Option<String>,
    /// Size of the volume.
    #[serde(default = "size")]
    pub size: String,
    /// Access mode of the volume.
    #[serde(default)]
    pub access_mode: AccessMode,
}

/// Access mode of a volume.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum AccessMode {
    /// One node reads and writes.
    #[default]
    ReadWriteOnce,
    /// Several nodes read and write.
    ReadWriteMany,
    /// Several nodes read.
    ReadOnlyMany,
}

/// Annotations and labels of the generated objects.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EmbeddingOverrides {
    /// Of the StatefulSet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stateful_set: Option<StatefulSetOverrides>,
    /// Of the Service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<MetadataOverrides>,
    /// Of the volume claim.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub persistent_volume_claim: Option<MetadataOverrides>,
}

/// Annotations and labels of a StatefulSet and its pods.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StatefulSetOverrides {
    /// Annotations and labels of the StatefulSet.
    #[serde(flatten)]
    pub metadata: MetadataOverrides,
    /// Annotations and labels of its pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_template_metadata_overrides: Option<MetadataOverrides>,
}

fn model() -> String {
    "BAAI/bge-small-en-v1.5".to_owned()
}

fn image() -> String {
    "ghcr.io/huggingface/text-embeddings-inference:cpu-latest".to_owned()
}

fn port() -> i32 {
    8080
}

fn replicas() -> i32 {
    1
}

fn yes() -> bool {
    true
}

fn size() -> String {
    "10Gi".to_owned()
}

/// Observed state of an EmbeddingServer.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EmbeddingServerStatus {
    /// Phase of the service.
    #[serde(default)]
    pub phase: EmbeddingPhase,
    /// Details of the phase.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// URL of the service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Number of ready replicas.
    #[serde(default)]
    pub ready_replicas: i32,
    /// Generation of the resource that this status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Conditions of the service.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions_schema")]
    pub conditions: Vec<Condition>,
}

/// Phase of an embedding service.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum EmbeddingPhase {
    /// No replica exists yet.
    #[default]
    Pending,
    /// Replicas download the model.
    Downloading,
    /// A replica is ready.
    Ready,
    /// The service cannot run.
    Failed,
    /// The service is being deleted.
    Terminating,
}

conditions! {
    /// Condition that tells whether the spec is valid.
    EmbeddingValid: "Valid" {
        Valid = True "ValidationSucceeded",
        Invalid = False "ValidationFailed",
    }
    /// Condition that tells whether the pod template is valid.
    EmbeddingPodTemplate: "PodTemplateValid" {
        Valid = True "PodTemplateSpecValid",
        Invalid = False "InvalidPodTemplateSpec",
    }
    /// Condition that tells whether the Secret with the token for the hub exists.
    EmbeddingToken: "TokenSecretValidated" {
        Valid = True "TokenSecretValid",
        NotFound = False "TokenSecretNotFound",
    }
    /// Condition that tells whether a replica serves.
    EmbeddingReady: "Ready" {
        StatefulSetReady = True "StatefulSetReady",
        StatefulSetNotReady = False "StatefulSetNotReady",
    }
}

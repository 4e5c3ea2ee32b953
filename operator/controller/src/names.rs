//! Names that the operator gives to what it writes.

/// Field manager of all that the operator applies, and value of its label.
pub(crate) const FIELD_MANAGER: &str = "vmcp-operator";

/// Field manager that holds the replicas of a Deployment while they are left to an autoscaler.
pub(crate) const REPLICAS_MANAGER: &str = "vmcp-operator-replicas";

/// Finalizer of resources that servers and workloads share. It goes when nothing refers to them any more.
pub(crate) const FINALIZER: &str = "vmcp.dev/referenced";

/// Annotation with the hash of what was applied.
pub(crate) const APPLIED_HASH: &str = "vmcp.dev/applied-hash";

/// Annotation with the generation of the server that an object was applied for.
pub(crate) const SERVER_GENERATION: &str = "vmcp.dev/server-generation";

//! Secrets of a server, without their contents.

use k8s_openapi::api::core::v1::Secret;
use vmcp_api::names::{owned_secret_name, seal_secret_name};

use super::metadata::Owner;

/// Key of the Secret with the keys that replicas share. Further keys rotate it: the server reads them all, the one whose name is
/// greatest first.
pub const SEAL_KEY: &str = "ring";

/// Plans the Secret with the keys that replicas share.
pub(super) fn seal_secret(owner: Owner<'_>) -> Secret {
    secret(owner, seal_secret_name(owner.name()))
}

/// Plans the Secret with copies of the keys that the server refers to.
pub(super) fn owned_secret(owner: Owner<'_>) -> Secret {
    secret(owner, owned_secret_name(owner.name()))
}

fn secret(owner: Owner<'_>, name: String) -> Secret {
    Secret { metadata: owner.metadata(name), type_: Some("Opaque".to_owned()), ..Secret::default() }
}

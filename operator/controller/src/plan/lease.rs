//! Lease for reports of the status.

use k8s_openapi::api::coordination::v1::Lease;
use vmcp_api::names::status_lease_name;

use super::metadata::Owner;

/// Plans the Lease. Its spec is that of the replica which holds it, so none of its fields are applied.
pub(super) fn status_lease(owner: Owner<'_>) -> Lease {
    Lease { metadata: owner.metadata(status_lease_name(owner.name())), ..Lease::default() }
}

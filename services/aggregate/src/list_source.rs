//! Catalog for a list or a search of tools, with the backends that are missing from it.

use std::sync::Arc;

use vmcp_core::Rejection;
use vmcp_wire::write_json_string;

use crate::cache::caller_catalog_cache::CallerView;
use crate::call::Call;
use crate::settings::PartialFailure;
use crate::snapshot::{BackendCatalog, MissingBackend, Snapshot};

/// Member of a list's `_meta` that names the backends whose items may be missing.
const INCOMPLETE: &str = "vmcp.dev/incomplete";

/// Catalog for a list request, and the backends missing from it.
pub(crate) struct ListSource {
    pub(crate) catalog: Arc<BackendCatalog>,
    pub(crate) gaps: Vec<MissingBackend>,
}

/// Returns the catalog to list. If the configuration was replaced during the wait, the new one is used, because the missing
/// offers of the old one are not fetched any more.
pub(crate) async fn offered(call: &Call) -> Result<ListSource, Rejection> {
    let (mut snapshot, generation) = (Arc::clone(&call.snapshot), call.generation());
    loop {
        let mut complete = snapshot.known_down(generation);
        if complete.is_ok() {
            snapshot.wait_ready().await;
            complete = snapshot.complete(generation);
        }
        let newest = call.context.catalogs.snapshot();
        if complete.is_ok() || Arc::ptr_eq(&newest, &snapshot) {
            complete?;
            return own(call, &snapshot).await;
        }
        snapshot = newest;
    }
}

/// Merges the shared offers with the caller's own.
async fn own(call: &Call, snapshot: &Arc<Snapshot>) -> Result<ListSource, Rejection> {
    let generation = call.generation();
    let mut gaps = snapshot.gaps(generation);
    if !snapshot.per_caller {
        return Ok(ListSource { catalog: snapshot.catalog(generation), gaps });
    }
    let seen = call.context.catalogs.seen_by(snapshot, &call.caller, call.cause());
    let seen = Box::pin(seen).await;
    let CallerView { catalogs, missing } = seen.ok_or_else(Rejection::internal)?;
    let first = missing.first().filter(|_| snapshot.partial_failure == PartialFailure::Fail);
    if let Some((_, rejection)) = first {
        return Err(rejection.clone());
    }
    gaps.extend(
        missing
            .iter()
            .map(|(backend, rejection)| MissingBackend::new(backend, rejection.message())),
    );
    Ok(ListSource { catalog: Arc::clone(catalogs.of(generation)), gaps })
}

/// Appends the member that reports missing backends. Policies decide on single items, and those of a missing backend are
/// unknown. Therefore, if the caller's permissions are restricted, the member neither names nor counts backends.
pub(crate) fn write_gaps(call: &Call, gaps: &[MissingBackend], out: &mut Vec<u8>) {
    write_json_string(INCOMPLETE, out);
    if call.permissions.is_some() {
        out.extend_from_slice(b":[{\"reason\":\"a backend is unavailable\"}]");
        return;
    }
    out.extend_from_slice(b":[");
    for (index, MissingBackend { backend, reason }) in gaps.iter().enumerate() {
        let open: &[u8] = if index == 0 { b"{\"backend\":" } else { b",{\"backend\":" };
        out.extend_from_slice(open);
        write_json_string(backend, out);
        out.extend_from_slice(b",\"reason\":");
        write_json_string(reason, out);
        out.push(b'}');
    }
    out.push(b']');
}

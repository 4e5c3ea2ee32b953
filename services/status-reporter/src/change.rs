//! Decision whether a status has to be written.

use crate::{message::without_count, status::PodStatus};

/// Write of this replica.
#[derive(Clone, Debug)]
pub(crate) struct Written {
    /// The applied fields.
    pub(crate) applied: PodStatus,
    /// The status after that, which may have more: entries of another manager are not deleted.
    pub(crate) result: PodStatus,
}

/// Returns whether `desired` differs from what is there. Times of health checks and numbers of failures count only with
/// `with_checks`.
pub(crate) fn is_changed(
    present: &PodStatus,
    desired: &PodStatus,
    written: Option<&Written>,
    with_checks: bool,
) -> bool {
    // A status that is as the last write left it has nothing new, even if it is not what was applied.
    let base = match written {
        Some(written) if written.result == *present => &written.applied,
        _ => present,
    };
    if with_checks { base != desired } else { without_checks(base) != without_checks(desired) }
}

fn without_checks(status: &PodStatus) -> PodStatus {
    let mut status = status.clone();
    for backend in &mut status.discovered_backends {
        backend.last_health_check = None;
        backend.consecutive_failures = None;
        if let Some(message) = &mut backend.message {
            *message = without_count(message).to_owned();
        }
    }
    status
}

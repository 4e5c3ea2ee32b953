//! Times of a pod's end.

/// Seconds between the order to stop and the server's own stop: as long as load balancers may take to notice.
const NOTICE: i64 = 5;

/// Seconds for the last audit events and measurements after the drain: three exports of at most five each.
const FLUSH: i64 = 15;

/// Seconds until a pod is killed, unless its template says otherwise: calls in progress have 30 of these.
const GRACE: i64 = 60;

/// Times of a pod's end, in seconds. Their sum is at most the grace period, so that no call in progress is killed earlier than
/// necessary.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Shutdown {
    /// Time until the pod is killed.
    pub(super) grace: i64,
    /// Time before the server stops to accept connections.
    pub(super) notice: i64,
    /// Time for calls in progress.
    pub(super) drain: i64,
}

// === impl Shutdown ===

impl Shutdown {
    /// Divides the grace period of the pod's template, or the default one.
    pub(super) fn new(grace: Option<i64>) -> Self {
        let grace = grace.unwrap_or(GRACE).max(0);
        let notice = NOTICE.min(grace / 4);
        let flush = FLUSH.min((grace - notice) / 2);
        // Ten seconds are left for the start and the end of the drain itself if the period is long.
        let reserve = (grace / 6).min(10);
        Self { grace, notice, drain: (grace - notice - flush - reserve).max(1) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drain_ends_within_grace_period() {
        for grace in 0..4_000 {
            let Shutdown { grace, notice, drain } = Shutdown::new(Some(grace));
            assert!(notice + drain <= grace.max(1), "{grace}");
        }
        assert_eq!(Shutdown::new(None), Shutdown { grace: 60, notice: 5, drain: 30 });
        assert_eq!(Shutdown::new(Some(-1)), Shutdown { grace: 0, notice: 0, drain: 1 });
    }
}

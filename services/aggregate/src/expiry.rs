//! Expiry of work started with a caller's token: when the token expires or its session ends.

use std::time::{Duration, SystemTime};

use tokio::time::{Instant, sleep};
use vmcp_core::{Caller, Clock, Identity};

/// Returns the remaining lifetime of the caller's token; `None` if it does not expire.
pub(crate) fn time_to_expiry(caller: &Identity) -> Option<Duration> {
    time_to_expiry_at(caller, SystemTime::now())
}

/// Returns `true` if requests with the caller's token are rejected at this moment.
pub(crate) fn is_expired(caller: &Identity, clock: &Clock) -> bool {
    caller.is_revoked() || caller.expires_at().is_some_and(|at| at <= clock.now())
}

/// Waits until the caller's token has expired or its session has ended. At expiry, `caller` is evaluated again because it may
/// hold a newer token by then.
pub(crate) async fn wait_for_expiry(caller: impl Fn() -> Caller) {
    let (started, began) = (Instant::now(), SystemTime::now());
    loop {
        let caller = caller();
        let time = async {
            match time_to_expiry_at(caller.identity(), began + started.elapsed()) {
                Some(left) if left.is_zero() => return true,
                Some(left) => sleep(left).await,
                None => std::future::pending().await,
            }
            false
        };
        tokio::select! {
            over = time => if over { return },
            () = wait_for_revocation(caller.identity()) => return,
        }
    }
}

/// Waits until the caller's session has ended.
pub(crate) async fn wait_for_revocation(caller: &Identity) {
    match caller.revoked() {
        Some(ended) => ended.await,
        None => std::future::pending().await,
    }
}

fn time_to_expiry_at(caller: &Identity, now: SystemTime) -> Option<Duration> {
    Some(caller.expires_at()?.duration_since(now).unwrap_or(Duration::ZERO))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn caller(seconds: u64) -> Caller {
        let until = SystemTime::now() + Duration::from_secs(seconds);
        Caller::User(Identity::builder("i", "s").expires_at(until).build())
    }

    #[tokio::test(start_paused = true)]
    async fn newer_token_extends_expiry() {
        let tokens = [caller(60), caller(90), caller(90)];
        let (reads, begun) = (Cell::new(0), Instant::now());
        wait_for_expiry(|| {
            reads.set(reads.get() + 1);
            tokens[reads.get() - 1].clone()
        })
        .await;
        assert!(begun.elapsed().abs_diff(Duration::from_secs(90)) < Duration::from_secs(1));
    }

    #[tokio::test(start_paused = true)]
    async fn expires_when_session_is_revoked() {
        let over = || async { sleep(Duration::from_secs(5)).await };
        let caller = Identity::builder("i", "s").revocation(std::sync::Arc::new(over)).build();
        let begun = Instant::now();
        wait_for_expiry(|| Caller::User(caller.clone())).await;
        assert_eq!(begun.elapsed(), Duration::from_secs(5));
    }

    #[tokio::test(start_paused = true)]
    async fn anonymous_caller_never_expires() {
        let nobody = wait_for_expiry(|| Caller::User(Identity::anonymous()));
        assert!(tokio::time::timeout(Duration::from_secs(1 << 30), nobody).await.is_err());
    }
}

//! Errors of accepting connections.

use std::io;
use std::pin::pin;
use std::time::Duration;

use rustix::io::Errno;
use tokio::time::{Instant, timeout};

use crate::connection_limit::ConnectionLimit;

/// The time until the next attempt, unless a connection is closed before.
const RETRY_DELAY: Duration = Duration::from_millis(50);

/// The least time between two warnings.
const WARNING_INTERVAL: Duration = Duration::from_secs(10);

/// Handles the errors of one listener.
#[derive(Debug, Default)]
pub(crate) struct AcceptErrors {
    warned: Option<Instant>,
}

impl AcceptErrors {
    /// Waits until another attempt is worth it. Without free file descriptors, the connection that has been idle for
    /// longest is closed, as where all places are taken: it would keep new ones waiting for more than a minute.
    pub(crate) async fn wait(&mut self, error: &io::Error, limit: &ConnectionLimit) {
        // Before the eviction, whose connection may be closed at once.
        let mut released = pin!(limit.released());
        released.as_mut().enable();
        let evicted = is_out_of_files(error) && limit.make_room();
        let now = Instant::now();
        if self.warned.is_none_or(|at| now - at >= WARNING_INTERVAL) {
            self.warned = Some(now);
            tracing::warn!(%error, evicted, "failed to accept a connection: trying again");
        }
        // Either way the next attempt follows: the end of this wait says nothing more.
        _ = timeout(RETRY_DELAY, released).await;
    }
}

/// Returns whether the process or the system is out of file descriptors.
fn is_out_of_files(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event_loop::Activity;

    fn full() -> io::Error {
        Errno::MFILE.into()
    }

    #[tokio::test(start_paused = true)]
    async fn evicts_one_idle_connection_per_attempt() {
        let limit = ConnectionLimit::new(10);
        let epoch = Instant::now();
        let all: Vec<_> = (0..3).map(|_| Activity::new(epoch)).collect();
        let permits: Vec<_> = all.iter().map(|one| limit.admit(one).unwrap()).collect();
        all[0].set_busy();
        tokio::time::advance(Duration::from_secs(1)).await;
        let mut errors = AcceptErrors::default();
        let other = io::Error::from(Errno::CONNABORTED);
        errors.wait(&other, &limit).await;
        assert_eq!(limit.evictions(), 0, "there is room");
        for evicted in 1..=2 {
            errors.wait(&full(), &limit).await;
            assert_eq!(limit.evictions(), evicted);
        }
        assert!(!all[0].must_close() && all[1].must_close() && all[2].must_close());
        // A connection that answers a request stays.
        errors.wait(&full(), &limit).await;
        assert_eq!(limit.evictions(), 2);
        drop(permits);
    }

    #[tokio::test(start_paused = true)]
    async fn retries_accept_when_connection_closes() {
        let limit = ConnectionLimit::new(10);
        let activity = Activity::new(Instant::now());
        let permit = limit.admit(&activity).unwrap();
        tokio::time::advance(Duration::from_secs(1)).await;
        let begun = Instant::now();
        let mut errors = AcceptErrors::default();
        let error = full();
        tokio::join!(errors.wait(&error, &limit), async { drop(permit) });
        assert_eq!(begun.elapsed(), Duration::ZERO);
        errors.wait(&error, &limit).await;
        assert_eq!(begun.elapsed(), RETRY_DELAY);
    }
}

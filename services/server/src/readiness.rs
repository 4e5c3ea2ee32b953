//! Flag of `/readyz`.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;
use vmcp_aggregate::Gateway;

/// Time in which backends have to be discovered. After it, the server is ready without backends, because an API server that is
/// away must not take all replicas out; clients see backends as soon as they are discovered.
const DISCOVERY_TIMEOUT: Duration = Duration::from_mins(1);

/// Flag that becomes true when the server is ready, and then stays so.
#[derive(Clone, Debug)]
pub(crate) struct Readiness {
    is_ready: watch::Receiver<bool>,
    /// `true` once the backends are those that were discovered.
    discovered: watch::Sender<bool>,
}

impl Readiness {
    /// Returns a flag that becomes true when each backend has responded, failed or timed out. If backends are discovered, it
    /// waits for the first of them at most a minute.
    pub(crate) fn new(gateway: Gateway, is_discovered: bool) -> Self {
        let (sender, is_ready) = watch::channel(false);
        let discovered = watch::Sender::new(!is_discovered);
        let mut first = discovered.subscribe();
        tokio::spawn(async move {
            if timeout(DISCOVERY_TIMEOUT, first.wait_for(|is_there| *is_there)).await.is_err() {
                let seconds = DISCOVERY_TIMEOUT.as_secs();
                tracing::error!(
                    "no backends were discovered within {seconds} s; the server is ready without backends"
                );
            }
            gateway.wait_ready().await;
            sender.send_replace(true);
        });
        Self { is_ready, discovered }
    }

    /// Records that the discovered backends are those of the server.
    pub(crate) fn set_discovered(&self) {
        self.discovered.send_replace(true);
    }

    /// Returns `true` if the backends are known, and each of them has responded, failed or timed out once.
    #[cfg(feature = "kubernetes")]
    pub(crate) fn knows_backends(&self) -> bool {
        self.is_ready() && *self.discovered.borrow()
    }

    /// Returns `true` if the server is ready.
    pub(crate) fn is_ready(&self) -> bool {
        *self.is_ready.borrow()
    }

    /// Waits until the server is ready.
    pub(crate) async fn wait(mut self) {
        // The sender is dropped only after it was used.
        _ = self.is_ready.wait_for(|is_ready| *is_ready).await;
    }
}

#[cfg(test)]
mod tests {
    use vmcp_aggregate::settings::{Limits, Settings};
    use vmcp_core::Clock;
    use vmcp_seal::KeyRing;

    use super::*;

    fn gateway() -> Gateway {
        let ring = KeyRing::ephemeral(Clock::system()).unwrap();
        Gateway::new(Settings::new("x".to_owned()), Limits::default(), ring)
    }

    #[tokio::test(start_paused = true)]
    async fn waits_for_discovered_backends() {
        let readiness = Readiness::new(gateway(), true);
        tokio::time::sleep(Duration::from_secs(30)).await;
        assert!(!readiness.is_ready());
        readiness.set_discovered();
        readiness.clone().wait().await;
        assert!(readiness.is_ready());
    }

    #[cfg(feature = "kubernetes")]
    #[tokio::test(start_paused = true)]
    async fn ready_server_may_lack_discovered_backends() {
        let readiness = Readiness::new(gateway(), true);
        readiness.clone().wait().await;
        assert!(readiness.is_ready() && !readiness.knows_backends());
        readiness.set_discovered();
        assert!(readiness.knows_backends());
    }

    #[tokio::test(start_paused = true)]
    async fn silent_api_server_does_not_hide_server_forever() {
        let readiness = Readiness::new(gateway(), true);
        let start = tokio::time::Instant::now();
        readiness.wait().await;
        assert_eq!(start.elapsed(), DISCOVERY_TIMEOUT);
    }

    #[tokio::test(start_paused = true)]
    async fn static_configuration_waits_for_no_discovery() {
        let start = tokio::time::Instant::now();
        Readiness::new(gateway(), false).wait().await;
        assert_eq!(start.elapsed(), Duration::ZERO);
    }
}

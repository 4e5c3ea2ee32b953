//! Stores in a test's own Redis.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use vmcp_auth_redis::{Namespace, RedisStore};
use vmcp_auth_store::Limits;
use vmcp_auth_store::contract::TestEnv;
use vmcp_core::Clock;
use vmcp_redis::{Address, Credentials, Node, Redis, Settings, Timeouts};

pub(crate) const TIMEOUTS: Timeouts = Timeouts {
    dial: Duration::from_secs(5),
    read: Duration::from_secs(3),
    write: Duration::from_secs(3),
};

/// Returns settings for a server without TLS and password.
pub(crate) fn standalone(port: u16) -> Settings {
    Settings {
        address: Address::Standalone(Node::new("127.0.0.1", port)),
        credentials: Credentials::default(),
        tls: None,
        timeouts: TIMEOUTS,
    }
}

/// Returns a name unique to the test.
pub(crate) fn namespace() -> Namespace {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    Namespace::new(&format!("test/{}", NEXT.fetch_add(1, Ordering::Relaxed))).unwrap()
}

/// Returns a clock set to 2027.
pub(crate) fn clock() -> Clock {
    Clock::manual(SystemTime::UNIX_EPOCH + Duration::from_hours(500_000))
}

/// Creates an empty store and opens it for two replicas with separate connections.
pub(crate) async fn world(settings: &Settings, limits: Limits) -> TestEnv {
    let (clock, namespace) = (clock(), namespace());
    let start = async || {
        let redis = Redis::connect(settings.clone()).await.unwrap();
        RedisStore::start(redis, &namespace, limits.clone(), clock.clone()).await.unwrap()
    };
    let (store, replica) = (Arc::new(start().await), Arc::new(start().await));
    TestEnv { store, replica, clock }
}

/// Waits until a condition holds.
pub(crate) async fn until(within: Duration, condition: impl Fn() -> bool) -> Duration {
    let begun = tokio::time::Instant::now();
    while !condition() {
        assert!(begun.elapsed() < within, "the condition does not hold within {within:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    begun.elapsed()
}

//! Three replicas of the gateway with the same keys, behind a load balancer without affinity.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use vmcp_test_support::mcp_backend::Protocol;
use vmcp_tests::counterparts::{Gateway, free_port};
use vmcp_tests::round_robin::RoundRobin;

use super::ledger::Ledger;

const REPLICAS: usize = 3;

/// Settings of the replicas, apart from backends and keys.
#[derive(Debug, Clone, Default)]
pub(crate) struct Setup {
    /// Further sections of the configuration.
    pub(crate) yaml: String,
    /// `true` if replicas forward requests to each other.
    pub(crate) has_peers: bool,
}

/// The replicas and their surroundings.
pub(crate) struct Rig {
    pub(crate) front: RoundRobin,
    pub(crate) replicas: Vec<Gateway>,
    pub(crate) stateful: Ledger,
    pub(crate) stateless: Ledger,
    setup: Setup,
    key: PathBuf,
    /// Port on which replicas listen for each other, each on a loopback address of its own.
    peer_port: u16,
    started: u8,
}

impl Rig {
    pub(crate) async fn start(setup: Setup) -> Self {
        static STARTED: AtomicU64 = AtomicU64::new(0);
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let key = PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("scale-out-{}-{number}.key", std::process::id()));
        fs::write(&key, "0123456789abcdef".repeat(4)).unwrap();
        let stateful = Ledger::start(Protocol::Stateful);
        let stateless = Ledger::start(Protocol::Stateless);
        let front = RoundRobin::start().await.unwrap();
        let peer_port = free_port().await.unwrap();
        let replicas = Vec::new();
        let mut rig =
            Self { front, replicas, stateful, stateless, setup, key, peer_port, started: 0 };
        for _ in 0..REPLICAS {
            let replica = rig.replica().await;
            rig.replicas.push(replica);
        }
        rig.balance();
        rig
    }

    async fn replica(&mut self) -> Gateway {
        self.started += 1;
        let (stateful, stateless) = (self.stateful.backend.url(), self.stateless.backend.url());
        let yaml = format!(
            "name: replicas\n\
             incomingAuth: {{type: anonymous}}\n\
             backends:\n\
             - {{name: stateful, url: \"{stateful}\", transport: streamable-http}}\n\
             - {{name: stateless, url: \"{stateless}\", transport: streamable-http}}\n\
             {}",
            self.setup.yaml
        );
        let mut arguments = vec!["--seal-key", self.key.to_str().unwrap()];
        let listen = format!("127.0.1.{}:{}", self.started, self.peer_port);
        if self.setup.has_peers {
            arguments.extend(["--peer-listen", &listen, "--peer-network", "127.0.1.0/24"]);
        }
        Gateway::start_with(&yaml, &arguments).await.unwrap()
    }

    fn balance(&self) {
        self.front.balance_over(self.replicas.iter().map(Gateway::port).collect());
    }

    /// Kills a replica. The load balancer still tries it.
    pub(crate) async fn kill(&mut self, replica: usize) {
        self.replicas.remove(replica).kill().await.unwrap();
    }

    /// Starts a replica in place of a killed one.
    pub(crate) async fn replace(&mut self) {
        let replica = self.replica().await;
        self.replicas.push(replica);
        self.balance();
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        // A file below target is harmless.
        _ = fs::remove_file(&self.key);
    }
}

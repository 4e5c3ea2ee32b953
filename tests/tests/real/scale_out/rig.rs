//! Three replicas of the gateway with the same keys, behind a load balancer without affinity.

use vmcp_test_support::mcp_backend::Protocol;
use vmcp_tests::counterparts::{Gateway, free_port};
use vmcp_tests::round_robin::{Balance, RoundRobin};

use super::ledger::Ledger;
use super::secret_mount::SecretMount;

const REPLICAS: usize = 3;

/// Settings of the replicas, apart from backends and keys.
#[derive(Debug, Clone, Default)]
pub(crate) struct Setup {
    /// Further sections of the configuration.
    pub(crate) yaml: String,
    /// `true` if replicas forward requests to each other.
    pub(crate) has_peers: bool,
    /// `true` if the load balancer sends each client to one replica while that accepts connections.
    pub(crate) has_affinity: bool,
}

/// The replicas and their surroundings.
pub(crate) struct Rig {
    pub(crate) front: RoundRobin,
    pub(crate) replicas: Vec<Gateway>,
    /// Directory of each replica with its keys.
    pub(crate) mounts: Vec<SecretMount>,
    pub(crate) stateful: Ledger,
    pub(crate) stateless: Ledger,
    setup: Setup,
    /// Port on which replicas listen for each other, each on a loopback address of its own.
    peer_port: u16,
    started: u8,
}

impl Rig {
    /// Name and content of the key's file.
    pub(crate) const KEY: (&str, &str) =
        ("2026-10", "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef");

    pub(crate) async fn start(setup: Setup) -> Self {
        let stateful = Ledger::start(Protocol::Stateful);
        let stateless = Ledger::start(Protocol::Stateless);
        let front = RoundRobin::start().await.unwrap();
        let peer_port = free_port().await.unwrap();
        let (replicas, mounts) = (Vec::new(), Vec::new());
        let mut rig =
            Self { front, replicas, mounts, stateful, stateless, setup, peer_port, started: 0 };
        for _ in 0..REPLICAS {
            rig.start_replica().await;
        }
        rig.balance();
        rig
    }

    async fn start_replica(&mut self) {
        self.started += 1;
        let mount = SecretMount::create(&[Self::KEY]);
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
        let mut arguments = vec!["--seal-key", mount.path().to_str().unwrap()];
        let listen = format!("127.0.1.{}:{}", self.started, self.peer_port);
        if self.setup.has_peers {
            arguments.extend(["--peer-listen", &listen, "--peer-network", "127.0.1.0/24"]);
        }
        self.replicas.push(Gateway::start_with(&yaml, &arguments).await.unwrap());
        self.mounts.push(mount);
    }

    fn balance(&self) {
        self.front.balance_over(self.replicas.iter().map(Gateway::port).collect());
    }

    /// Returns the URL for a client, or for clients of one address.
    pub(crate) async fn url(&self, balance: Balance) -> String {
        if self.setup.has_affinity {
            return self.front.client_url().await.unwrap();
        }
        self.front.url(balance)
    }

    /// Kills a replica. The load balancer still tries it.
    pub(crate) async fn kill(&mut self, replica: usize) {
        self.mounts.remove(replica);
        self.replicas.remove(replica).kill().await.unwrap();
    }

    /// Starts a replica in place of a killed one.
    pub(crate) async fn replace(&mut self) {
        self.start_replica().await;
        self.balance();
    }
}

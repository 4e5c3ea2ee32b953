//! The gateway, as `vmcp serve` runs it, but with a store of runs in a file or in Redis. It is a process of this test program.

use std::env;
use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};
use vmcp_aggregate::settings::Limits;
use vmcp_compose::store::FileWorkflowStore;
use vmcp_compose::{StoreLimits, WorkflowStore};
use vmcp_compose_redis::RedisWorkflowStore;
use vmcp_config::{File, Format};
use vmcp_core::Clock;
use vmcp_egress::{Egress, Settings};
use vmcp_redis::{Address, Credentials, Node, Redis, Timeouts};
use vmcp_seal::{KeyRing, SealKey, SealKeyFiles};
use vmcp_server::parts::Parts;
use vmcp_server::serve::{Options, Server};
use vmcp_tests::counterparts::{free_port, get};

/// Variable with the directory of the gateway's files. Without it, [`process`] does nothing.
const DIRECTORY: &str = "VMCP_CRASH_DIRECTORY";

/// Variable with the port of the gateway.
const PORT: &str = "VMCP_CRASH_PORT";

/// Variable with the port of Redis and the prefix of the keys there. Without it, the store is in a file.
const REDIS: &str = "VMCP_CRASH_REDIS";

/// Lease of a run: a killed gateway holds it for so long. It is renewed every third of this time.
const LEASE: Duration = Duration::from_secs(1);

/// Timeout until the gateway has the catalogs of its backends.
const START: Duration = Duration::from_secs(20);

/// Directory with configuration, key and store of a gateway, and its process while it runs.
pub(crate) struct Gateway {
    directory: PathBuf,
    pub(crate) url: String,
    redis: Option<String>,
}

impl Gateway {
    /// Creates a directory with this configuration.
    pub(crate) fn new(name: &str, yaml: &str) -> Self {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("crash-{name}-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("vmcp.yaml"), yaml).unwrap();
        fs::write(directory.join("key"), "0123456789abcdef".repeat(4)).unwrap();
        Self { directory, url: String::new(), redis: None }
    }

    /// Creates a replica whose store is in Redis at this port.
    pub(crate) fn with_redis(name: &str, yaml: &str, (port, prefix): (u16, &str)) -> Self {
        let mut replica = Self::new(name, yaml);
        replica.redis = Some(format!("{port} {prefix}"));
        replica
    }

    /// Starts the process and waits until it has the catalogs of its backends.
    pub(crate) async fn start(&mut self) -> Child {
        let port = free_port().await.unwrap();
        let mut command = Command::new(env::current_exe().unwrap());
        let mut child = command
            .args(["--exact", "gateway::process", "--nocapture"])
            .env(DIRECTORY, &self.directory)
            .env(PORT, port.to_string())
            .envs(self.redis.as_ref().map(|redis| (REDIS, redis)))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let origin = format!("http://127.0.0.1:{port}");
        self.url = format!("{origin}/mcp");
        let deadline = Instant::now() + START;
        while !is_ready(&origin).await {
            assert!(Instant::now() < deadline, "the gateway is not ready");
            assert_eq!(child.try_wait().unwrap(), None, "the gateway ended");
            sleep(Duration::from_millis(10)).await;
        }
        child
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // A directory below target is harmless.
        _ = fs::remove_dir_all(&self.directory);
    }
}

async fn is_ready(origin: &str) -> bool {
    let Ok(reply) = get(&format!("{origin}/status")).await else { return false };
    let status: Value = reply.message().unwrap();
    status["backends"].as_array().unwrap().iter().all(|backend| backend["status"] == "ready")
}

/// Serves until standard input closes, in the process of [`Gateway::start`].
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn process() {
    let Some(directory) = env::var_os(DIRECTORY).map(PathBuf::from) else { return };
    let port = env::var(PORT).unwrap().parse().unwrap();
    let yaml = fs::read_to_string(directory.join("vmcp.yaml")).unwrap();
    let store = open_store(&directory).await;
    let egress = Egress::new(Settings::default());
    let file = File::parse(&yaml, Format::Yaml).unwrap();
    let parts = Parts::builder(&egress).build(file).unwrap();
    let options = Options {
        address: SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
        seal_keys: SealKeyFiles::new(vec![directory.join("key")]),
        limits: Limits { workflow_store: store, ..Limits::default() },
        ..Options::default()
    };
    let server = Server::start(parts, egress, options).await.unwrap();
    let until_closed = || io::copy(&mut io::stdin(), &mut io::sink());
    let closed = tokio::task::spawn_blocking(until_closed);
    server.run(async { _ = closed.await }).await;
}

/// Opens the store of the process.
async fn open_store(directory: &Path) -> Arc<dyn WorkflowStore> {
    let limits = StoreLimits { lease: LEASE, ..StoreLimits::default() };
    let Ok(redis) = env::var(REDIS) else {
        let store = FileWorkflowStore::open(&directory.join("runs"), limits, Clock::system());
        return Arc::new(store.unwrap());
    };
    let (port, prefix) = redis.split_once(' ').unwrap();
    let second = Duration::from_secs(1);
    let redis = Redis::connect(vmcp_redis::Settings {
        address: Address::Standalone(Node::new("127.0.0.1", port.parse().unwrap())),
        credentials: Credentials::default(),
        tls: None,
        timeouts: Timeouts { dial: 5 * second, read: 3 * second, write: 3 * second },
    });
    let settings = vmcp_compose_redis::Settings { key_prefix: prefix.to_owned(), limits };
    let key = SealKey::read(&directory.join("key")).unwrap();
    let ring = KeyRing::new("tests", &[key], Clock::system()).unwrap();
    let redis = redis.await.unwrap();
    RedisWorkflowStore::start(redis, settings, ring, Clock::system()).await.unwrap()
}

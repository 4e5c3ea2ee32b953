//! Redis 7 in its three modes, and Valkey 8.

use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::{Instant, sleep};

use super::install::{Debian, redis, valkey};
use super::process::output;
use super::{Certificates, POLL_INTERVAL, TestError, folder, free_port};

/// Timeout for a server's start and for the formation of a group.
const START: Duration = Duration::from_secs(20);

/// File of the output, in the folder of the server.
const LOG: &str = "server.log";

/// Text of the log if another process has the port.
const PORT_TAKEN: &str = "Address already in use";

/// A running Redis, killed on drop or when the test program exits.
#[derive(Debug)]
pub struct Redis {
    make: Make,
    /// Port on the loopback interface.
    pub port: u16,
    folder: PathBuf,
    arguments: Vec<String>,
    running: Option<RedisProcess>,
}

/// Implementation of a server.
#[derive(Clone, Copy, Debug)]
enum Make {
    Redis,
    Valkey,
}

#[derive(Debug)]
struct RedisProcess {
    /// Kept open: the server exits when this closes.
    tether: ChildStdin,
    child: Child,
}

/// A cluster of three masters with a replica each.
#[derive(Debug)]
pub struct RedisCluster {
    /// Nodes of the cluster.
    pub nodes: Vec<Redis>,
}

/// A master with a replica, and three Sentinels that watch it as `mymaster`.
#[derive(Debug)]
pub struct RedisSentinels {
    /// Master and replica.
    pub servers: [Redis; 2],
    /// The Sentinels.
    pub sentinels: Vec<Redis>,
}

impl Redis {
    /// Starts a server with these arguments in addition to the common ones.
    ///
    /// # Errors
    /// Returns an error if the installation or the startup fails.
    pub async fn start(arguments: &[&str]) -> Result<Self, TestError> {
        Self::made_by(Make::Redis, arguments).await
    }

    /// As [`Redis::start`], with Valkey.
    ///
    /// # Errors
    /// Returns an error if the installation or the startup fails.
    pub async fn valkey(arguments: &[&str]) -> Result<Self, TestError> {
        Self::made_by(Make::Valkey, arguments).await
    }

    async fn made_by(make: Make, arguments: &[&str]) -> Result<Self, TestError> {
        let folder = folder("redis")?;
        let arguments = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        let mut server = Self { make, port: 0, folder, arguments, running: None };
        let mut attempts = 3;
        loop {
            server.port = free_port().await?;
            attempts -= 1;
            match server.run().await {
                // Another process took the port before the server did.
                Err(_) if attempts > 0 && server.log().contains(PORT_TAKEN) => server.kill()?,
                result => return result.map(|()| server),
            }
        }
    }

    /// Restarts it at the same port.
    ///
    /// # Errors
    /// Returns an error if the startup fails.
    pub async fn run(&mut self) -> Result<(), TestError> {
        let (tools, program) = self.make.program().await?;
        let mut command = Command::new("sh");
        let script = r#""$@" >server.log 2>&1 & echo $! >server.pid; read -r _; kill -KILL $!"#;
        command.args(["-c", script, "sh"]).arg(tools.program(program));
        let is_sentinel = self.folder.join("sentinel.conf").exists();
        if is_sentinel {
            command.args(["sentinel.conf", "--sentinel"]);
        } else {
            let port = self.port.to_string();
            let tls = self.arguments.iter().any(|argument| argument == "--tls-cert-file");
            let (plain, secured) = if tls { ("0", &*port) } else { (&*port, "0") };
            command.args(["--port", plain, "--tls-port", secured, "--bind", "127.0.0.1"]);
            command.args(["--save", "", "--appendonly", "no", "--repl-diskless-sync-delay", "0"]);
            command.args(&self.arguments);
        }
        command.env("LD_LIBRARY_PATH", tools.libraries()).current_dir(&self.folder);
        // Its lines would stand for those of this start.
        _ = fs::remove_file(self.folder.join(LOG));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn()?;
        let tether = child.stdin.take().ok_or("standard input is not piped")?;
        self.running = Some(RedisProcess { tether, child });
        let until = Instant::now() + START;
        // A listener at the port may be another process.
        let ready = if is_sentinel { "Sentinel ID is" } else { "Ready to accept connections" };
        while !self.log().contains(ready)
            || TcpStream::connect(("127.0.0.1", self.port)).await.is_err()
        {
            if Instant::now() > until || self.log().contains(PORT_TAKEN) {
                return Err(format!("Redis doesn't start:\n{}", self.log()).into());
            }
            sleep(POLL_INTERVAL).await;
        }
        Ok(())
    }

    /// Kills the server and waits for its exit.
    ///
    /// # Errors
    /// Returns an error if the system reports no status.
    pub fn kill(&mut self) -> Result<(), TestError> {
        if let Some(RedisProcess { tether, mut child }) = self.running.take() {
            drop(tether);
            child.wait()?;
        }
        Ok(())
    }

    /// Sends it a signal, such as `STOP`.
    ///
    /// # Errors
    /// Returns an error if the signal cannot be sent.
    pub async fn signal(&self, name: &str) -> Result<(), TestError> {
        let pid = fs::read_to_string(self.folder.join("server.pid"))?;
        let mut command = tokio::process::Command::new("kill");
        let sent = command.args(["-s", name, pid.trim()]).status().await?;
        if sent.success() { Ok(()) } else { Err(format!("kill ended with {sent}").into()) }
    }

    /// Returns the output of `redis-cli` for a command, preceded by options of `redis-cli` if any.
    ///
    /// # Errors
    /// Returns an error if the server is unreachable.
    pub async fn cli<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Result<String, TestError> {
        let port = self.port.to_string();
        let mut all = ["-h", "127.0.0.1", "-p", &port].map(OsStr::new).to_vec();
        all.extend(arguments.iter().map(AsRef::as_ref));
        cli(&all).await
    }

    /// Returns the complete log.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.join(LOG)).unwrap_or_default()
    }
}

impl Make {
    async fn program(self) -> Result<(Debian, &'static str), TestError> {
        Ok(match self {
            Self::Redis => (redis().await?, "redis-server"),
            Self::Valkey => (valkey().await?, "valkey-server"),
        })
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.kill();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl RedisCluster {
    /// Starts a cluster.
    ///
    /// # Errors
    /// Returns an error if the installation fails, or the cluster does not form.
    pub async fn start(tls: Option<&Certificates>) -> Result<Self, TestError> {
        let mut nodes = Vec::new();
        let secured = tls.map(Certificates::arguments).unwrap_or_default();
        for _ in 0..6 {
            let bus = free_port().await?.to_string();
            let mut arguments = vec!["--cluster-enabled", "yes", "--cluster-node-timeout", "1000"];
            arguments.extend(["--cluster-port", &bus, "--cluster-allow-replica-migration", "no"]);
            arguments.extend(secured.iter().map(String::as_str));
            if tls.is_some() {
                arguments.extend(["--tls-cluster", "yes", "--tls-replication", "yes"]);
            }
            nodes.push(Redis::start(&arguments).await?);
        }
        let addresses: Vec<_> =
            nodes.iter().map(|node| format!("127.0.0.1:{}", node.port)).collect();
        let mut create = vec!["--cluster", "create"];
        create.extend(addresses.iter().map(String::as_str));
        create.extend(["--cluster-replicas", "1", "--cluster-yes"]);
        cli(&command(tls, &create)).await?;
        let cluster = Self { nodes };
        for node in &cluster.nodes {
            node.until(&command(tls, &["CLUSTER", "INFO"]), "cluster_state:ok").await?;
        }
        Ok(cluster)
    }
}

impl RedisSentinels {
    /// Starts the group. `tls` is for the servers, `sentinel_tls` for the Sentinels.
    ///
    /// # Errors
    /// Returns an error if the installation fails, or the group does not form.
    pub async fn start(
        tls: Option<&Certificates>,
        sentinel_tls: Option<&Certificates>,
    ) -> Result<Self, TestError> {
        let mut secured = tls.map(Certificates::arguments).unwrap_or_default();
        if tls.is_some() {
            secured.extend(["--tls-replication".to_owned(), "yes".to_owned()]);
        }
        let arguments: Vec<_> = secured.iter().map(String::as_str).collect();
        let master = Redis::start(&arguments).await?;
        let port = master.port.to_string();
        let replica =
            Redis::start(&[&arguments[..], &["--replicaof", "127.0.0.1", &port]].concat()).await?;
        let asked = command(tls, &["INFO", "replication"]);
        replica.until(&asked, "master_link_status:up").await?;
        let mut sentinels = Vec::new();
        for _ in 0..3 {
            sentinels.push(sentinel(&port, tls, sentinel_tls).await?);
        }
        let group = Self { servers: [master, replica], sentinels };
        let asked = command(sentinel_tls, &["SENTINEL", "MASTER", "mymaster"]);
        for sentinel in &group.sentinels {
            sentinel.until(&asked, "num-slaves\n1").await?;
            sentinel.until(&asked, "num-other-sentinels\n2").await?;
        }
        Ok(group)
    }
}

impl Redis {
    /// Waits until a command's response contains this text.
    ///
    /// # Errors
    /// Returns an error on a timeout.
    pub async fn until<S: AsRef<OsStr>>(&self, command: &[S], text: &str) -> Result<(), TestError> {
        let until = Instant::now() + START;
        loop {
            let answer = self.cli(command).await.unwrap_or_default();
            if answer.contains(text) {
                return Ok(());
            }
            if Instant::now() > until {
                return Err(format!("Redis never says {text:?}:\n{answer}").into());
            }
            sleep(POLL_INTERVAL * 5).await;
        }
    }
}

/// Adds the TLS options of `redis-cli` to a command, if TLS is on.
fn command(tls: Option<&Certificates>, command: &[&str]) -> Vec<String> {
    let plain = || command.iter().map(|word| (*word).to_owned()).collect();
    tls.map_or_else(plain, |tls| tls.cli(command))
}

async fn sentinel(
    master: &str,
    tls: Option<&Certificates>,
    sentinel_tls: Option<&Certificates>,
) -> Result<Redis, TestError> {
    let folder = folder("sentinel")?;
    let port = free_port().await?;
    let mut settings = vec![
        "bind 127.0.0.1".to_owned(),
        format!("sentinel monitor mymaster 127.0.0.1 {master} 2"),
        "sentinel down-after-milliseconds mymaster 1000".to_owned(),
        "sentinel failover-timeout mymaster 3000".to_owned(),
        if sentinel_tls.is_some() {
            format!("port 0\ntls-port {port}")
        } else {
            format!("port {port}")
        },
    ];
    // A Sentinel uses one set of certificates both for its clients and for the servers that it watches.
    for pair in sentinel_tls.or(tls).map(Certificates::arguments).unwrap_or_default().chunks(2) {
        settings.push(pair.join(" ").trim_start_matches("--").to_owned());
    }
    if tls.is_some() {
        settings.push("tls-replication yes".to_owned());
    }
    fs::write(folder.join("sentinel.conf"), settings.join("\n") + "\n")?;
    let mut sentinel =
        Redis { make: Make::Redis, port, folder, arguments: Vec::new(), running: None };
    sentinel.run().await?;
    Ok(sentinel)
}

impl Certificates {
    /// Returns the server options that enable them.
    #[must_use]
    pub fn arguments(&self) -> Vec<String> {
        [
            ("--tls-cert-file", self.certificate()),
            ("--tls-key-file", self.key()),
            ("--tls-ca-cert-file", self.trusted()),
            ("--tls-auth-clients", "no".to_owned()),
        ]
        .into_iter()
        .flat_map(|(name, value)| [name.to_owned(), value])
        .collect()
    }

    /// Prefixes a command with the `redis-cli` options that enable them.
    #[must_use]
    pub fn cli(&self, command: &[&str]) -> Vec<String> {
        let ca = self.ca();
        [&["--tls", "--cacert", &ca], command].concat().into_iter().map(ToOwned::to_owned).collect()
    }
}

async fn cli<S: AsRef<OsStr>>(arguments: &[S]) -> Result<String, TestError> {
    let tools = redis().await?;
    let mut command = tokio::process::Command::new(tools.program("redis-cli"));
    command.env("LD_LIBRARY_PATH", tools.libraries()).args(arguments);
    output("redis-cli", command).await
}

//! `vmcp serve`.

mod peers;
mod virtual_server;

use std::collections::HashSet;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::Args;
use tokio::signal::unix::{SignalKind, signal};
use vmcp_aggregate::settings::Limits;
use vmcp_aggregate::status::Entry;
use vmcp_audit_log::Overflow;
use vmcp_config::{Duration, File};
use vmcp_core::set_worker_count;
use vmcp_seal::SealKeyFiles;
use vmcp_server::parts::{AuditOptions, ServerInfo};
use vmcp_server::serve::{
    AdminToken, Options, PeerError, PeerOptions, ServeError, Server, VirtualServer, default_budget,
};

use self::peers::PeerArgs;
use self::virtual_server::VirtualServerArgs;
use super::arguments::{
    address, admin_token, attribute, host_name, origin, positive, positive_number, seal_key,
    threads,
};
use super::config::{ConfigFile, LoadedConfig, Start};
use super::log::{self, LogFormat};
use super::output::{Failure, block_on};

#[derive(Debug, Args)]
pub(crate) struct Serve {
    #[command(flatten)]
    config: ConfigFile,
    /// The address to listen on.
    #[arg(long, default_value = "127.0.0.1", value_parser = address)]
    host: IpAddr,
    /// The port to listen on; 0 takes a free one.
    #[arg(long, default_value_t = 4483)]
    port: u16,
    /// Idle timeout of sessions, such as 30m or 1h30m.
    #[arg(
        long,
        default_value = "30m",
        value_name = "DURATION",
        value_parser = positive,
        allow_hyphen_values = true
    )]
    session_ttl: Duration,
    /// Maximum number of sessions of clients of revision 2025-11-25 and older.
    #[arg(long, default_value = "10000", value_name = "NUMBER", value_parser = positive_number)]
    max_sessions: NonZeroUsize,
    /// Maximum number of client connections. At the limit, a new connection closes the one that has been idle longest; if
    /// none is idle, its requests get 503. 256 more connections are accepted for /livez and /readyz.
    #[arg(long, default_value = "4096", value_name = "NUMBER", value_parser = positive_number)]
    max_connections: NonZeroUsize,
    /// Maximum number of concurrent requests; further requests get 503.
    #[arg(long, default_value = "4096", value_name = "NUMBER", value_parser = positive_number)]
    max_requests: NonZeroUsize,
    /// Maximum size of a client message, in bytes.
    #[arg(long, default_value = "8388608", value_name = "BYTES", value_parser = positive_number)]
    max_message_bytes: NonZeroUsize,
    /// Maximum number of bytes in buffered messages, apart from messages of up to 4 KiB. One caller may use half of
    /// the bytes that other callers leave. Further messages wait for up to 2 s and then get 503. At least twice
    /// --max-message-bytes. The default is a quarter of the memory limit of the control group (cgroup), or 128 MiB.
    #[arg(long, value_name = "BYTES", value_parser = positive_number)]
    max_buffered_bytes: Option<NonZeroUsize>,
    /// Number of event loops for requests. The default is the number of processors.
    #[arg(long, value_name = "NUMBER", value_parser = threads)]
    threads: Option<NonZeroUsize>,
    /// Time limit for requests and tasks in progress after a signal to stop.
    #[arg(long, default_value = "10s", value_name = "DURATION")]
    drain: Duration,
    /// An allowed host name, in addition to those of this machine. Repeatable.
    #[arg(long, value_name = "HOST", value_parser = host_name)]
    allow_host: Vec<String>,
    /// An allowed origin of web pages: scheme, host and port. Repeatable.
    #[arg(long, value_name = "ORIGIN", value_parser = origin)]
    allow_origin: Vec<String>,
    /// Separate address for /status, /metrics and /api/backends/health. The default for a server on a network address
    /// is 127.0.0.1:4484: its main port does not serve these paths.
    #[arg(long, value_name = "ADDRESS:PORT")]
    admin_listen: Option<SocketAddr>,
    /// A file with a bearer token of at least 16 characters, required for /status, /metrics and /api/backends/health.
    /// With it, the main port also serves these paths to other machines.
    #[arg(long, value_name = "FILE", value_parser = admin_token)]
    admin_token_file: Option<AdminToken>,
    /// Accept anonymous callers (incomingAuth of type anonymous) on a network address: any client that reaches the
    /// server may use all backends.
    #[arg(long)]
    allow_anonymous_network: bool,
    /// A file with a key, such as from `openssl rand -hex 32`, or a directory of such files, the newest name first. Keys
    /// seal what clients carry between requests, so that each replica with the same keys accepts it. All keys open; a new
    /// one seals five minutes after its file was written. To rotate, put the new key first. Changed files are read again.
    /// Repeatable. Without a key, the server generates one at each start.
    #[arg(long, value_name = "FILE", value_parser = seal_key)]
    seal_key: Vec<PathBuf>,
    #[command(flatten)]
    peers: PeerArgs,
    #[command(flatten)]
    virtual_server: VirtualServerArgs,
    /// Number of trusted reverse proxies; selects the client address from X-Forwarded-For. Audit events show this
    /// address, and the limits of the authorization server, of sessions, of buffered bytes and of concurrent requests
    /// count by it.
    #[arg(long, default_value = "0", value_name = "NUMBER")]
    trusted_proxies: usize,
    /// A resource attribute of all telemetry signals, besides telemetry.customAttributes, which it overrides. Repeatable.
    #[arg(long, value_name = "KEY=VALUE", value_parser = attribute)]
    telemetry_attribute: Vec<(String, String)>,
    /// The format of the log on standard error. The variable RUST_LOG, such as info,vmcp_egress=debug, wins over
    /// operational.logLevel.
    #[arg(long, default_value = "auto", value_name = "FORMAT")]
    log_format: LogFormat,
    /// Handling of audit events that cannot be written as fast as they occur, for example because the disk is full:
    /// drop and count them, or delay responses.
    #[arg(long, default_value = "drop", value_name = "ACTION")]
    audit_overflow: AuditOverflow,
}

/// Handling of audit events that exceed the capacity of the queue.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum AuditOverflow {
    Drop,
    Wait,
}

/// Places of the server among its replicas.
struct Places {
    peers: Option<PeerOptions>,
    virtual_server: Option<VirtualServer>,
}

impl Serve {
    pub(crate) fn run(self) -> Result<(), Failure> {
        self.check()?;
        let places = Places {
            peers: self.peers.options(!self.seal_key.is_empty())?,
            virtual_server: self.virtual_server.replica()?,
        };
        let threads = self.threads.or_else(|| std::thread::available_parallelism().ok());
        let threads = threads.unwrap_or(NonZeroUsize::MIN);
        // Other components allocate per-worker state, so the count must be set first.
        set_worker_count(threads.get());
        block_on(self.serve(threads, places))
    }

    /// Checks options that belong together.
    fn check(&self) -> Result<(), Failure> {
        let largest = self.max_message_bytes;
        match self.max_buffered_bytes {
            Some(buffered) if buffered.get() / 2 < largest.get() => Err(Failure::Usage(format!(
                "--max-buffered-bytes is {buffered}: must be at least twice --max-message-bytes, {largest}, since one \
                 caller may hold half"
            ))),
            Some(_) | None => Ok(()),
        }
    }

    async fn serve(self, threads: NonZeroUsize, places: Places) -> Result<(), Failure> {
        let Places { peers, virtual_server } = places;
        let start =
            Start { attributes: &self.telemetry_attribute, is_replica: virtual_server.is_some() };
        let loaded = self.config.require_started(&start)?;
        let LoadedConfig { text, named, file, parts, warnings, egress } = loaded;
        self.check_attributes(&file)?;
        if let Some(error) = log::start(self.log_format, parts.debug) {
            tracing::warn!("{error}");
        }
        super::file_limit::raise_limit(self.max_connections.get());
        for warning in warnings {
            tracing::warn!("{warning}");
        }
        let stop = stop_signal();
        let info = parts.info.clone();
        let (config, mut options) = self.into_options(threads);
        options.peers = peers;
        options.virtual_server = virtual_server;
        let path = config.path().to_owned();
        let server = Server::start(parts, egress, options).await.map_err(|e| start_failure(&e))?;
        let address = server.address().map_err(|error| Failure::Error(error.to_string()))?;
        server.watch(config.path().to_owned(), text, named);
        tracing::info!("listening on http://{address}/mcp");
        let summary =
            StartSummary { endpoint: format!("http://{address}/mcp"), configuration: path, info };
        let reporting =
            tokio::spawn(report(server.gateway().clone(), server.wait_ready(), summary));
        server.run(stop).await;
        reporting.abort();
        Ok(())
    }

    /// Checks that there is telemetry to add the attributes of the command line to.
    fn check_attributes(&self, file: &File) -> Result<(), Failure> {
        if self.telemetry_attribute.is_empty() || file.telemetry.is_some() {
            return Ok(());
        }
        let reason = "--telemetry-attribute needs a telemetry section in the configuration";
        Err(Failure::Error(reason.to_owned()))
    }

    fn into_options(self, threads: NonZeroUsize) -> (ConfigFile, Options) {
        let Self {
            config,
            host,
            port,
            session_ttl,
            max_sessions,
            max_connections,
            max_requests,
            max_message_bytes,
            max_buffered_bytes,
            threads: _,
            drain,
            allow_host,
            allow_origin,
            admin_listen,
            admin_token_file,
            allow_anonymous_network,
            seal_key,
            peers: _,
            virtual_server: _,
            trusted_proxies,
            audit_overflow,
            log_format: _,
            telemetry_attribute: _,
        } = self;
        let overflow = match audit_overflow {
            AuditOverflow::Drop => Overflow::Drop,
            AuditOverflow::Wait => Overflow::Wait,
        };
        let limits = Limits {
            sessions: max_sessions.get(),
            session_ttl: session_ttl.into(),
            ..Limits::default()
        };
        let options = Options {
            address: SocketAddr::new(host, port),
            allowed_hosts: allow_host,
            allowed_origins: allow_origin,
            admin_address: admin_listen,
            admin_token: admin_token_file,
            allow_anonymous_network,
            connections: max_connections.get(),
            requests: max_requests.get(),
            message_bytes: max_message_bytes.get(),
            buffered_bytes: max_buffered_bytes
                .map_or_else(|| default_budget(max_message_bytes.get()), NonZeroUsize::get),
            drain: drain.into(),
            threads: Some(threads),
            seal_keys: SealKeyFiles::new(seal_key),
            peers: None,
            virtual_server: None,
            environment: config.environment(),
            audit_options: AuditOptions { trusted_proxies, overflow },
            limits,
            set_debug: log::set_debug,
        };
        (config, options)
    }
}

/// Describes a start-up error and its remedy.
pub(crate) fn start_failure(error: &ServeError) -> Failure {
    let in_use = |address: &SocketAddr, option: &str| {
        let port = address.port();
        Failure::Error(format!(
            "port {port} is in use: choose another with {option}, or stop what listens on {address}"
        ))
    };
    match error {
        ServeError::Listen { address, source } if source.kind() == ErrorKind::AddrInUse => {
            in_use(address, "--port")
        }
        ServeError::AdminListen { address, source } if source.kind() == ErrorKind::AddrInUse => {
            in_use(address, "--admin-listen")
        }
        ServeError::Peers(PeerError::Listen { address, source })
            if source.kind() == ErrorKind::AddrInUse =>
        {
            in_use(address, "--peer-listen")
        }
        ServeError::Listen { .. }
        | ServeError::AdminListen { .. }
        | ServeError::Peers(_)
        | ServeError::Thread(_)
        | ServeError::SealKeys(_)
        | ServeError::SessionStorage(_)
        | ServeError::Audit(_)
        | ServeError::Exposed(_)
        | ServeError::AuthServer(_)
        | ServeError::Cluster(_) => Failure::Error(error.to_string()),
    }
}

/// Facts of the started server for the log.
struct StartSummary {
    endpoint: String,
    configuration: std::path::PathBuf,
    info: ServerInfo,
}

/// Logs each ready backend, then a summary. Other code logs backends that are not ready, and name conflicts.
async fn report(
    gateway: vmcp_aggregate::Gateway,
    ready: impl Future<Output = ()>,
    summary: StartSummary,
) {
    ready.await;
    let StartSummary { endpoint, configuration, info } = summary;
    let report = gateway.report();
    for backend in &report.backends {
        let url = info.backends.get(&backend.name).map_or("", |known| &known.url);
        if backend.failure.is_none() && backend.offered {
            let revision = match &backend.revisions[..] {
                [] => "unknown".to_owned(),
                revisions => revisions.join(", "),
            };
            tracing::info!(backend = backend.name, url, revision, "backend ready");
        }
    }
    for rule in &report.unmatched_rules {
        tracing::warn!("{}", super::survey::unmatched_rule(rule));
    }
    if let Some(first) = report.nonconforming_names.first() {
        // A prefix affects all names, so one warning covers them.
        tracing::warn!(
            names = report.nonconforming_names.len(),
            "{}",
            super::survey::nonconforming_name(first)
        );
    }
    let ready = report.backends.iter().filter(|backend| backend.offered).count();
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        endpoint,
        configuration = %configuration.display(),
        backends = format!("{ready} of {} ready", report.backends.len()),
        tools = count_tools(&report.entries),
        conflicts = report.conflicts.len(),
        "started"
    );
}

/// Counts the names of tools. A name in both generations counts once, even with different descriptions.
fn count_tools(entries: &[Entry]) -> usize {
    let shown = entries.iter().filter(|entry| entry.shown && entry.kind == "tool");
    shown.map(|entry| &entry.name).collect::<HashSet<_>>().len()
}

/// Waits for a signal to stop the process. The handlers are installed by the call; an earlier signal ends the process
/// immediately.
pub(crate) fn stop_signal() -> impl Future<Output = ()> {
    let mut signals: Vec<_> =
        [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::quit()]
            .into_iter()
            .filter_map(|kind| signal(kind).ok())
            .collect();
    std::future::poll_fn(move |cx| {
        let any = signals.iter_mut().any(|signal| signal.poll_recv(cx).is_ready());
        if any { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
}

#[cfg(test)]
mod tests {
    use vmcp_core::{Generation, ToolAnnotations};

    use super::*;

    #[test]
    fn tools_of_both_generations_count_once() {
        let entry = |kind, name: &str, shown, generation| Entry {
            kind,
            name: name.to_owned(),
            backend: "a".to_owned(),
            original: name.to_owned(),
            wanted: name.to_owned(),
            annotations: ToolAnnotations::default(),
            shown,
            hidden_reason: None,
            composite: None,
            generation,
        };
        let entries = [
            entry("tool", "x", true, Some(Generation::Stateful)),
            entry("tool", "x", true, Some(Generation::Stateless)),
            entry("tool", "y", true, None),
            entry("tool", "hidden", false, None),
            entry("prompt", "z", true, None),
        ];
        assert_eq!(count_tools(&entries), 2);
    }
}

//! `vmcp serve`.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use tokio::signal::unix::{SignalKind, signal};
use vmcp_aggregate::settings::Limits;
use vmcp_config::{File, Format};
use vmcp_egress::{Egress, Settings};

use super::log;
use crate::parts::Parts;
use crate::serve::{Options, Server};

#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// The configuration file.
    #[arg(short, long, value_name = "FILE")]
    config: PathBuf,
    /// The address to listen on.
    #[arg(long, default_value = "127.0.0.1")]
    host: IpAddr,
    /// The port to listen on; 0 takes a free one.
    #[arg(long, default_value_t = 4483)]
    port: u16,
    /// How long an unused session lives, such as 30m or 1h30m.
    #[arg(long, default_value = "30m", value_name = "DURATION")]
    session_ttl: vmcp_config::Duration,
    /// A host name that is served, besides those of this machine. Repeatable.
    #[arg(long, value_name = "HOST")]
    allow_host: Vec<String>,
    /// An origin whose pages may use the server, such as https://app.example.com. Repeatable.
    #[arg(long, value_name = "ORIGIN")]
    allow_origin: Vec<String>,
}

impl Serve {
    pub(crate) fn run(self) -> ExitCode {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
        let outcome = match runtime {
            Ok(runtime) => runtime.block_on(self.serve()),
            Err(error) => Err(format!("cannot start: {error}")),
        };
        match outcome {
            Ok(()) => ExitCode::SUCCESS,
            Err(message) => {
                eprintln!("{message}");
                ExitCode::FAILURE
            }
        }
    }

    async fn serve(self) -> Result<(), String> {
        let Self { config, host, port, session_ttl, allow_host, allow_origin } = self;
        let text = std::fs::read_to_string(&config)
            .map_err(|error| format!("cannot read {}: {error}", config.display()))?;
        let file = File::parse(&text, Format::Yaml)
            .map_err(|mistakes| format!("{}:\n{mistakes}", config.display()))?;
        let warnings = file.warnings();
        let egress = Egress::new(Settings::default());
        let parts =
            Parts::new(file, &egress).map_err(|error| format!("{}:\n{error}", config.display()))?;
        log::start(parts.debug);
        for warning in warnings {
            tracing::warn!("{warning}");
        }
        let options = Options {
            address: SocketAddr::new(host, port),
            allowed_hosts: allow_host,
            allowed_origins: allow_origin,
            limits: Limits { session_ttl: session_ttl.into(), ..Limits::default() },
            ..Options::default()
        };
        let server =
            Server::start(parts, egress, options).await.map_err(|error| error.to_string())?;
        let address = server.address().map_err(|error| error.to_string())?;
        tracing::info!("listening on http://{address}/mcp");
        server.watch(config);
        server.run(stopped()).await;
        Ok(())
    }
}

/// Ready when the process is asked to stop.
pub(crate) async fn stopped() {
    let mut signals: Vec<_> =
        [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::quit()]
            .into_iter()
            .filter_map(|kind| signal(kind).ok())
            .collect();
    std::future::poll_fn(|cx| {
        let any = signals.iter_mut().any(|signal| signal.poll_recv(cx).is_ready());
        if any { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
}

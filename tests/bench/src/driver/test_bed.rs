//! The processes of one measurement.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::future::try_join_all;
use http::{HeaderValue, Method, StatusCode};
use serde_json::json;
use tokio::process::Command;
use tokio::time::{Instant, sleep};

use super::dimensions::{BACKENDS, CHAIN, CHAIN_LENGTH, TOOLS};
use super::full::Full;
use super::http::{fetch, free_port};
use super::process::{POLL_INTERVAL, Process, WAIT_TIMEOUT};
use super::programs::Programs;
use super::rows::Stack;
use crate::backend::Stats;
use crate::client::{Client, Endpoint};
use crate::{BoxError, Generation};

/// Configuration section that allows everything to anonymous clients.
pub(super) const ANONYMOUS: &str = "incomingAuth: {type: anonymous}\n";

/// All processes for one generation and one gateway setup.
#[derive(Debug)]
pub(super) struct TestBed {
    pub(super) generation: Generation,
    /// Backends of the gateway.
    pub(super) backends: Vec<Backend>,
    /// Number of tools that the gateway lists to clients.
    pub(super) visible: usize,
    /// A single backend with as many tools as all of the others together.
    pub(super) large: Backend,
    /// Proxy of the first backend.
    pub(super) proxy: ServerProcess,
    /// Proxy of the large backend.
    pub(super) list_proxy: ServerProcess,
    /// Gateway of all backends.
    pub(super) gateway: ServerProcess,
    /// External services of the gateway, unless its setup is plain.
    pub(super) full: Option<Full>,
}

#[derive(Debug)]
pub(super) struct Backend {
    address: String,
    _process: Process,
}

/// Process that clients connect to: the gateway or the proxy.
#[derive(Debug)]
pub(super) struct ServerProcess {
    address: String,
    process: Process,
}

impl TestBed {
    /// Starts all processes and waits until the gateway lists all tools.
    pub(super) async fn start(
        programs: &Programs,
        generation: Generation,
        stack: Stack,
    ) -> Result<Self, BoxError> {
        let full = match stack {
            Stack::Plain | Stack::Composite => None,
            Stack::Full => Some(Full::start(programs, false).await?),
            Stack::FullWithArguments => Some(Full::start(programs, true).await?),
        };
        // The policies hide the blob tools.
        let hidden = if full.is_some() { BACKENDS } else { 0 };
        let visible = TOOLS * BACKENDS - hidden + usize::from(stack == Stack::Composite);
        let backend = |number: usize, tools| {
            let name = format!("{}{number}", generation.word());
            async move { Backend::start(programs, generation, &name, tools).await }
        };
        let backends = try_join_all((1..=BACKENDS).map(|number| backend(number, TOOLS))).await?;
        let large = backend(0, visible).await?;
        let proxy = ServerProcess::proxy(programs, &backends[0]).await?;
        let list_proxy = ServerProcess::proxy(programs, &large).await?;
        let mut sections = full.as_ref().map_or_else(|| ANONYMOUS.to_owned(), Full::sections);
        if stack == Stack::Composite {
            sections += &chain_section();
        }
        let gateway = ServerProcess::gateway(programs, &backends, &sections).await?;
        let bearer = full.as_ref().map(Full::bearer).transpose()?;
        gateway.until_listed(generation, bearer, visible).await?;
        Ok(Self { generation, backends, visible, large, proxy, list_proxy, gateway, full })
    }

    /// Returns the counters of each backend of the gateway.
    pub(super) async fn stats(&self) -> Result<Vec<Stats>, BoxError> {
        try_join_all(self.backends.iter().map(Backend::stats)).await
    }
}

impl Backend {
    async fn start(
        programs: &Programs,
        generation: Generation,
        name: &str,
        tools: usize,
    ) -> Result<Self, BoxError> {
        let mut command = Command::new(&programs.backend);
        command.args(["--name", name, "--tools", &tools.to_string()]);
        command.args(["--generation", generation.word()]);
        let (process, address) =
            Process::announced(&mut command, &programs.scratch(&format!("{name}.log"))).await?;
        Ok(Self { address, _process: process })
    }

    pub(super) async fn stats(&self) -> Result<Stats, BoxError> {
        let reply = fetch(Method::GET, &self.address, "/stats").await?;
        Ok(serde_json::from_slice(reply.body())?)
    }

    /// Renames a tool and returns its new name.
    pub(super) async fn change(&self) -> Result<String, BoxError> {
        let reply = fetch(Method::POST, &self.address, "/change").await?;
        Ok(serde_json::from_slice(reply.body())?)
    }
}

impl ServerProcess {
    /// Starts the bare proxy and waits until it listens.
    pub(super) async fn proxy(programs: &Programs, to: &Backend) -> Result<Self, BoxError> {
        let mut command = Command::new(&programs.proxy);
        command.args(["--to", &to.address]);
        let (process, address) =
            Process::announced(&mut command, &programs.scratch("proxy.log")).await?;
        Ok(Self { address, process })
    }

    /// Starts the bare proxy without waiting for it.
    pub(super) async fn proxy_at_once(programs: &Programs, to: &Backend) -> Result<Self, BoxError> {
        let address = format!("127.0.0.1:{}", free_port().await?);
        let mut command = Command::new(&programs.proxy);
        command.args(["--to", &to.address, "--listen", &address]);
        let process = Process::start(&mut command, &programs.scratch("proxy.log"))?;
        Ok(Self { address, process })
    }

    /// Starts the gateway and waits until it is ready.
    pub(super) async fn gateway(
        programs: &Programs,
        backends: &[Backend],
        sections: &str,
    ) -> Result<Self, BoxError> {
        let mut gateway = Self::gateway_at_once(programs, backends, sections).await?;
        eprintln!("the gateway is process {}", gateway.pid());
        let deadline = Instant::now() + WAIT_TIMEOUT;
        loop {
            let reply = fetch(Method::GET, &gateway.address, "/readyz").await;
            if reply.is_ok_and(|reply| reply.status() == StatusCode::OK) {
                return Ok(gateway);
            }
            if gateway.process.ended()? {
                return Err(gateway.process.fault("ended"));
            }
            if Instant::now() > deadline {
                return Err(gateway.process.fault("is not ready"));
            }
            sleep(POLL_INTERVAL).await;
        }
    }

    /// Starts the gateway without waiting for it.
    pub(super) async fn gateway_at_once(
        programs: &Programs,
        backends: &[Backend],
        sections: &str,
    ) -> Result<Self, BoxError> {
        static STARTED: AtomicU64 = AtomicU64::new(0);
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let port = free_port().await?;
        let config = programs.scratch(&format!("gateway-{number}.yaml"));
        let addresses = backends.iter().map(|backend| &*backend.address);
        fs::write(&config, configuration(sections, addresses))?;
        let mut command = Command::new(&programs.vmcp);
        command.arg("serve").arg("--config").arg(&config);
        command.args(["--host", "127.0.0.1", "--port", &port.to_string()]);
        let log = programs.scratch(&format!("gateway-{number}.log"));
        let process = Process::start(&mut command, &log)?;
        Ok(Self { address: format!("127.0.0.1:{port}"), process })
    }

    pub(super) fn pid(&self) -> u32 {
        self.process.pid()
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// Returns the URL of the MCP endpoint.
    pub(super) fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    pub(super) async fn end(self) -> Result<(), BoxError> {
        self.process.end().await
    }

    /// Returns an unconnected client.
    pub(super) fn client(&self, generation: Generation) -> Result<Client, BoxError> {
        Ok(Client::new(Arc::new(Endpoint::new(&self.url(), generation)?)))
    }

    /// Waits until a client with token `bearer` lists `count` tools.
    pub(super) async fn until_listed(
        &self,
        generation: Generation,
        bearer: Option<HeaderValue>,
        count: usize,
    ) -> Result<(), BoxError> {
        let deadline = Instant::now() + WAIT_TIMEOUT;
        let mut client = self.client(generation)?;
        client.show(bearer);
        client.open().await?;
        loop {
            let listed = client.list().await;
            if listed.as_ref().is_ok_and(|names| names.len() == count) {
                break;
            }
            if Instant::now() > deadline {
                let found = listed.map_or_else(|fault| fault.to_string(), |l| l.len().to_string());
                let what = format!("should list {count} tools, but: {found}");
                return Err(self.process.fault(&what));
            }
            sleep(POLL_INTERVAL).await;
        }
        match client.leave() {
            Some(session) => client.end(session).await,
            None => Ok(()),
        }
    }
}

/// Returns the section of a composite tool that passes a text through the `echo` of one backend after the other.
fn chain_section() -> String {
    let step = |number: usize| {
        let (text, before) = if number == 1 {
            ("{{.params.text}}".to_owned(), Vec::new())
        } else {
            let before = format!("s{}", number - 1);
            (format!("{{{{.steps.{before}.output.text}}}}"), vec![before])
        };
        json!({"id": format!("s{number}"), "tool": format!("be{number}.echo"), "dependsOn": before,
            "arguments": {"text": text}})
    };
    let tool = json!({
        "name": CHAIN,
        "parameters": {
            "type": "object", "required": ["text"], "properties": {"text": {"type": "string"}},
        },
        "steps": (1..=CHAIN_LENGTH).map(step).collect::<Vec<_>>(),
    });
    // JSON is valid YAML.
    format!("compositeTools: [{tool}]\n")
}

/// Returns a configuration with these sections and backends `be1`, `be2` and so on, and default settings.
fn configuration<'a>(sections: &str, addresses: impl Iterator<Item = &'a str>) -> String {
    let mut yaml = format!("name: bench\n{sections}backends:\n");
    for (number, address) in (1..).zip(addresses) {
        let url = format!("http://{address}/mcp");
        let line = format!("- {{name: be{number}, url: \"{url}\", transport: streamable-http}}\n");
        yaml.push_str(&line);
    }
    yaml
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configuration_names_backends_in_given_order() {
        assert_eq!(
            configuration(ANONYMOUS, ["127.0.0.1:1", "127.0.0.1:2"].into_iter()),
            "name: bench\n\
             incomingAuth: {type: anonymous}\n\
             backends:\n\
             - {name: be1, url: \"http://127.0.0.1:1/mcp\", transport: streamable-http}\n\
             - {name: be2, url: \"http://127.0.0.1:2/mcp\", transport: streamable-http}\n"
        );
    }
}

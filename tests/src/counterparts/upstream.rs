//! An identity provider that a server sends its users to.

use std::time::Duration;

use tokio::process::Command;

use super::{Certificates, Fault, Process, free_port, npm, until_listening};

/// Until it listens; interpreters start slowly on a busy machine.
const START: Duration = Duration::from_secs(60);

/// Where its users come back to; the port does not matter.
const CALLBACK: &str = "http://127.0.0.1:9/oauth/callback";

/// A running `oidc-provider`. `upstream.mjs` says which clients it has.
#[derive(Debug)]
pub struct UpstreamProvider {
    port: u16,
    scheme: &'static str,
    process: Process,
}

impl UpstreamProvider {
    /// Starts one at a free port, whose refresh tokens are good for one refresh if it `rotates`.
    ///
    /// # Errors
    /// When it cannot be installed or does not come up.
    pub async fn start(rotates: bool) -> Result<Self, Fault> {
        Self::start_for(CALLBACK, rotates).await
    }

    /// As [`UpstreamProvider::start`], over TLS, with the certificate of this test program.
    ///
    /// # Errors
    /// When it cannot be installed or does not come up.
    pub async fn start_secured(rotates: bool) -> Result<Self, Fault> {
        Self::run(CALLBACK, rotates, Some(Certificates::shared()?)).await
    }

    /// As [`UpstreamProvider::start`], for a server that its users come back to at `callback`.
    ///
    /// # Errors
    /// When it cannot be installed or does not come up.
    pub async fn start_for(callback: &str, rotates: bool) -> Result<Self, Fault> {
        Self::run(callback, rotates, None).await
    }

    async fn run(
        callback: &str,
        rotates: bool,
        secured: Option<&Certificates>,
    ) -> Result<Self, Fault> {
        let npm = npm().await?;
        let port = free_port().await?;
        let mut command = Command::new(npm.node24());
        command.arg(npm.script("upstream.mjs")).arg(port.to_string());
        command.arg(if rotates { "rotates" } else { "keeps" }).arg(callback);
        if let Some(certificates) = secured {
            command.args([certificates.certificate(), certificates.key()]);
        }
        let mut process = Process::start("upstream", command, false)?;
        until_listening(port, &mut process, START).await?;
        let scheme = if secured.is_some() { "https" } else { "http" };
        Ok(Self { port, scheme, process })
    }

    /// Its issuer.
    #[must_use]
    pub fn issuer(&self) -> String {
        format!("{}://127.0.0.1:{}", self.scheme, self.port)
    }

    /// Ends it at once.
    ///
    /// # Errors
    /// When it cannot be ended.
    pub async fn kill(self) -> Result<(), Fault> {
        self.process.kill().await
    }
}

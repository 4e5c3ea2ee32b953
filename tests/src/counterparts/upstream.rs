//! An upstream identity provider of an authorization server.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, header};
use serde_json::Value;
use tokio::process::Command;

use super::http::exchange;
use super::{Certificates, Process, TestError, free_port, npm, until_listening};

/// Startup timeout; interpreters start slowly on a busy machine.
const START: Duration = Duration::from_mins(1);

/// Redirect URI; the provider ignores the port.
const CALLBACK: &str = "http://127.0.0.1:9/oauth/callback";

/// A running `oidc-provider`. `upstream.mjs` defines its clients.
#[derive(Debug)]
pub struct UpstreamProvider {
    port: u16,
    scheme: &'static str,
    /// Arguments of its program.
    arguments: Vec<String>,
    process: Process,
}

impl UpstreamProvider {
    /// Starts a provider at a free port. With `rotates`, each refresh token is valid for one use.
    ///
    /// # Errors
    /// Returns an error if the installation or the startup fails.
    pub async fn start(rotates: bool) -> Result<Self, TestError> {
        Self::start_for(CALLBACK, rotates).await
    }

    /// As [`UpstreamProvider::start`], over TLS, with the certificate of this test program.
    ///
    /// # Errors
    /// Returns an error if the installation or the startup fails.
    pub async fn start_secured(rotates: bool) -> Result<Self, TestError> {
        Self::run(CALLBACK, rotates, Some(Certificates::shared()?)).await
    }

    /// As [`UpstreamProvider::start`], with the redirect URI `callback`.
    ///
    /// # Errors
    /// Returns an error if the installation or the startup fails.
    pub async fn start_for(callback: &str, rotates: bool) -> Result<Self, TestError> {
        Self::run(callback, rotates, None).await
    }

    async fn run(
        callback: &str,
        rotates: bool,
        secured: Option<&Certificates>,
    ) -> Result<Self, TestError> {
        let port = free_port().await?;
        let kind = if rotates { "rotates" } else { "keeps" };
        let mut arguments = [&*port.to_string(), kind, callback].map(str::to_owned).to_vec();
        if let Some(certificates) = secured {
            arguments.extend([certificates.certificate(), certificates.key()].map(Into::into));
        }
        let scheme = if secured.is_some() { "https" } else { "http" };
        let process = Self::listens(port, &arguments).await?;
        Ok(Self { port, scheme, arguments, process })
    }

    async fn listens(port: u16, arguments: &[String]) -> Result<Process, TestError> {
        let npm = npm().await?;
        let mut command = Command::new(npm.node24());
        command.arg(npm.script("upstream.mjs")).args(arguments);
        let mut process = Process::start("upstream", command, false)?;
        until_listening(port, &mut process, START).await?;
        Ok(process)
    }

    /// Discards its state: kills the provider and restarts it at the same port.
    ///
    /// # Errors
    /// Returns an error if the restart fails.
    pub async fn forgets(&mut self) -> Result<(), TestError> {
        self.process.end_now().await?;
        self.process = Self::listens(self.port, &self.arguments).await?;
        Ok(())
    }

    /// Returns its issuer.
    #[must_use]
    pub fn issuer(&self) -> String {
        format!("{}://127.0.0.1:{}", self.scheme, self.port)
    }

    /// Returns the account of a token, given as an `Authorization` header.
    ///
    /// # Errors
    /// Returns an error if the token is invalid, or no response arrives in time.
    pub async fn account(&self, authorization: &str) -> Result<String, TestError> {
        let mut headers = HeaderMap::new();
        headers.insert(header::AUTHORIZATION, HeaderValue::try_from(authorization)?);
        let url = format!("{}/me", self.issuer());
        let reply = exchange(Method::GET, &url, &headers, Bytes::new()).await?;
        let claims: Value = serde_json::from_slice(&reply.body)?;
        let account = claims["sub"].as_str().map(str::to_owned);
        account.ok_or_else(|| format!("no account: {}: {claims}", reply.status).into())
    }

    /// Kills the provider.
    ///
    /// # Errors
    /// Returns an error if the process cannot be killed.
    pub async fn kill(self) -> Result<(), TestError> {
        self.process.kill().await
    }
}

//! A gateway with all features on: authentication, authorization, audit, metrics and traces.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use http::{HeaderValue, Method, StatusCode};
use serde_json::json;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};

use super::Effort;
use super::http::fetch;
use super::outside::Outside;
use super::policies::policies;
use super::process::{POLL_INTERVAL, WAIT_TIMEOUT};
use super::programs::Programs;
use super::tokens::{AUDIENCE, Algorithm};
use crate::BoxError;

/// Default trace sampling ratio.
const SAMPLED: &str = "0.05";

/// Audit event types of the measured operations.
const KINDS: [&str; 2] = [r#""type":"mcp_tool_call""#, r#""type":"mcp_tools_list""#];

/// Surroundings of a gateway with all features on.
#[derive(Debug)]
pub(super) struct Full {
    outside: Outside,
    audit: PathBuf,
    repeated: PathBuf,
    new: PathBuf,
    arguments: bool,
}

/// Tokens for a run of the load tool.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tokens<'a> {
    /// Token file, one token a line.
    pub(super) file: &'a Path,
    /// Use each token for one request; otherwise for one connection.
    pub(super) each_once: bool,
}

impl Full {
    /// Starts the surroundings, with policies that inspect `arguments` or with none that does.
    pub(super) async fn start(programs: &Programs, arguments: bool) -> Result<Self, BoxError> {
        let outside = Outside::start().await?;
        let repeated = programs.scratch("tokens-repeated");
        outside.keys().write_repeated(outside.url(), &repeated)?;
        let number = outside.url().rsplit_once(':').map_or("", |(_, port)| port);
        let audit = programs.scratch(&format!("audit-{number}.log"));
        Ok(Self { outside, audit, repeated, new: programs.scratch("tokens-new"), arguments })
    }

    /// Returns the sections of the configuration.
    pub(super) fn sections(&self) -> String {
        let url = self.outside.url();
        let all = json!({
            "incomingAuth": {
                "type": "oidc",
                "oidc": {
                    "issuer": url, "clientId": "bench", "audience": AUDIENCE,
                    "insecureAllowHttp": true,
                },
                "authz": {"type": "cedar", "policies": policies(self.arguments)},
            },
            "audit": {"enabled": true, "logFile": self.audit},
            "telemetry": {
                "endpoint": url, "insecure": true, "tracingEnabled": true, "samplingRate": SAMPLED,
                "enablePrometheusMetricsPath": true,
            },
        });
        // One section a line; JSON is valid YAML.
        let sections = all.as_object().into_iter().flatten();
        sections.fold(String::new(), |lines, (name, section)| {
            lines + name + ": " + &section.to_string() + "\n"
        })
    }

    /// Returns one valid token with its scheme.
    pub(super) fn bearer(&self) -> Result<HeaderValue, BoxError> {
        let tokens = fs::read_to_string(&self.repeated)?;
        let token = tokens.lines().next().ok_or("there are no tokens")?;
        Ok(HeaderValue::from_str(&format!("Bearer {token}"))?)
    }

    /// Returns the repeated tokens.
    pub(super) fn repeated(&self) -> Tokens<'_> {
        Tokens { file: &self.repeated, each_once: false }
    }

    /// Signs `count` new tokens.
    pub(super) async fn new_ones(
        &self,
        algorithm: Algorithm,
        count: usize,
    ) -> Result<Tokens<'_>, BoxError> {
        let (keys, url, file) =
            (Arc::clone(self.outside.keys()), self.outside.url().to_owned(), self.new.clone());
        // Signing takes seconds, and the collector shares this thread.
        spawn_blocking(move || keys.write_new(&url, algorithm, count, &file)).await??;
        Ok(Tokens { file: &self.new, each_once: true })
    }

    /// Truncates the audit log.
    pub(super) fn forget(&self) -> Result<(), BoxError> {
        Ok(File::options().write(true).open(&self.audit)?.set_len(0)?)
    }

    /// Checks that all features were on while the gateway at `address` was measured and that all of its `requests` were audited.
    pub(super) async fn prove(
        &self,
        address: &str,
        requests: u64,
        effort: Effort,
    ) -> Result<(), BoxError> {
        let refused = fetch(Method::POST, address, "/mcp").await?.status();
        if refused != StatusCode::UNAUTHORIZED {
            return Err(format!("without a token the gateway answers {refused}").into());
        }
        self.recorded(requests).await?;
        let metrics = fetch(Method::GET, address, "/metrics").await?;
        if metrics.status() != StatusCode::OK || metrics.body().is_empty() {
            return Err("there are no metrics".into());
        }
        // With so few requests, sampling may select none.
        if !effort.smoke && self.outside.collected() == 0 {
            return Err("no trace was sent".into());
        }
        Ok(())
    }

    /// Waits until this many requests are audited: a request without audit event costs less than it should.
    async fn recorded(&self, requests: u64) -> Result<(), BoxError> {
        let deadline = Instant::now() + WAIT_TIMEOUT;
        loop {
            let mut found = 0;
            for line in BufReader::new(File::open(&self.audit)?).lines() {
                let line = line?;
                found += u64::from(KINDS.iter().any(|kind| line.contains(kind)));
            }
            if found >= requests {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(format!("{found} of {requests} requests are on record").into());
            }
            sleep(POLL_INTERVAL).await;
        }
    }
}

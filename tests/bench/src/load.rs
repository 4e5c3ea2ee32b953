//! `bench-load`: closed-loop load. Each worker has one connection and one session, sends the next request after the last
//! response, and checks every response. Prints one line of JSON, a [`Report`].

mod tokens;
mod worker;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep};

use self::tokens::Tokens;
use self::worker::{Shared, Worked, worker};
use crate::client::Endpoint;
use crate::summary::{micros, percentile};
use crate::usage::Usage;
use crate::{BoxError, Generation};

/// Closed-loop load on an MCP server.
#[derive(Clone, Debug, Parser)]
#[command(name = "bench-load")]
pub struct Plan {
    /// The MCP endpoint, with an address and a port.
    #[arg(long)]
    pub url: String,
    /// Request type.
    #[arg(long, value_enum, default_value_t = Mode::Call)]
    pub mode: Mode,
    /// Protocol generation.
    #[arg(long, value_enum, default_value_t = Generation::Stateful)]
    pub generation: Generation,
    /// The tools to call, in turn.
    #[arg(long, value_delimiter = ',', default_value = "echo")]
    pub tool: Vec<String>,
    /// Text length of a call, or of a blob response, in bytes.
    #[arg(long, default_value_t = 200)]
    pub bytes: usize,
    /// Expected number of distinct tools in a list; 0 accepts any number.
    #[arg(long, default_value_t = 0)]
    pub expect_tools: usize,
    /// Number of workers.
    #[arg(long, default_value_t = 16)]
    pub connections: usize,
    /// Measured requests; for `hold`, sessions.
    #[arg(long, default_value_t = 10_000)]
    pub requests: u64,
    /// Requests before the measured ones.
    #[arg(long, default_value_t = 500)]
    pub warmup: u64,
    /// Open the GET stream of each held session on its own connection.
    #[arg(long)]
    pub streams: bool,
    /// Pause before memory is read a second time, in milliseconds.
    #[arg(long, default_value_t = 0)]
    pub settle_ms: u64,
    /// File of bearer tokens, one a line. Worker `n` uses token `n`, wrapping around.
    #[arg(long, value_name = "FILE")]
    pub tokens: Option<PathBuf>,
    /// Use a different token for each request and for each session.
    #[arg(long, requires = "tokens")]
    pub each_token_once: bool,
    /// Process whose CPU time and memory are reported: NAME=PID. Repeatable.
    #[arg(long)]
    pub watch: Vec<Watch>,
}

/// Request type of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// `tools/call` with a text that the server echoes.
    Call,
    /// `tools/call` with the length of the expected text.
    Blob,
    /// All tools in order, as one request, each with the text of the response before.
    Sequence,
    /// A composite tool that passes a text through a chain of tools.
    Chain,
    /// `tools/list`, all pages.
    List,
    /// A new session: `initialize` and `notifications/initialized`.
    Init,
    /// An idle session of an SDK client: opened, listed once, each tool called once.
    Hold,
}

/// A watched process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watch {
    name: String,
    pid: u32,
}

/// Result of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// Calls sent per tool, warm-up included.
    pub sent: BTreeMap<String, u64>,
    /// Measured requests with a correct response.
    pub ok: u32,
    /// All other requests, warm-up included.
    pub errors: usize,
    /// The first error.
    pub first_error: Option<String>,
    /// Seconds from the first measured request to the last response.
    pub seconds: f64,
    /// Responses per second.
    pub rate: f64,
    /// Median latency in microseconds.
    pub p50_us: f64,
    /// 99th percentile of latency in microseconds.
    pub p99_us: f64,
    /// Watched processes by name.
    pub processes: BTreeMap<String, Cost>,
}

/// Resources that a watched process used for the measured requests.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Cost {
    /// CPU time per response in microseconds.
    pub cpu_us: f64,
    /// Resident memory before the first measured request, in KiB.
    pub before_kib: u64,
    /// Resident memory after the last response and the pause, with all sessions open, in KiB.
    pub after_kib: u64,
}

impl FromStr for Watch {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, pid) = text.split_once('=').ok_or("has to be NAME=PID")?;
        let pid = pid.parse().map_err(|error| format!("{pid}: {error}"))?;
        Ok(Self { name: name.to_owned(), pid })
    }
}

/// The program.
#[must_use]
pub fn main() -> ExitCode {
    let plan = Plan::parse();
    crate::run(1, async move {
        println!("{}", serde_json::to_string(&run(plan).await?)?);
        Ok(ExitCode::SUCCESS)
    })
}

/// Runs a plan to its end. Sessions are ended after all counters are read.
///
/// # Errors
/// Returns an error if the plan cannot start. Later errors are counted in the report.
pub async fn run(plan: Plan) -> Result<Report, BoxError> {
    let endpoint = Arc::new(Endpoint::new(&plan.url, plan.generation)?);
    let watch = plan.watch.clone();
    let settle = Duration::from_millis(plan.settle_ms);
    let tokens = Tokens::read(plan.tokens.as_deref(), plan.each_token_once)?;
    let shared = Arc::new(Shared::new(plan, tokens));
    let workers: Vec<_> = (0..shared.plan.connections)
        .map(|number| tokio::spawn(worker(number, Arc::clone(&shared), Arc::clone(&endpoint))))
        .collect();
    shared.pause().await;
    let before = read(&watch)?;
    let start = Instant::now();
    shared.pause().await;
    shared.pause().await;
    let took = start.elapsed();
    let mut after = read(&watch)?;
    if !settle.is_zero() {
        sleep(settle).await;
        for (usage, rested) in after.iter_mut().zip(read(&watch)?) {
            usage.resident_kib = rested.resident_kib;
        }
    }
    shared.pause().await;
    let mut all = Worked::default();
    for worker in workers {
        all.add(worker.await?);
    }
    Ok(report(all, took, &watch, &before, &after))
}

fn read(watch: &[Watch]) -> Result<Vec<Usage>, BoxError> {
    watch.iter().map(|watch| Usage::of(watch.pid)).collect()
}

fn report(
    mut all: Worked,
    took: Duration,
    watch: &[Watch],
    before: &[Usage],
    after: &[Usage],
) -> Report {
    all.latencies.sort_unstable();
    let ok = u32::try_from(all.latencies.len()).unwrap_or(u32::MAX);
    let processes = watch.iter().zip(before).zip(after).map(|((watch, before), after)| {
        let cpu_us = micros(after.since(before)) / f64::from(ok.max(1));
        let cost = Cost { cpu_us, before_kib: before.resident_kib, after_kib: after.resident_kib };
        (watch.name.clone(), cost)
    });
    Report {
        sent: all.sent,
        ok,
        errors: all.errors,
        first_error: all.first_error,
        seconds: took.as_secs_f64(),
        rate: f64::from(ok) / took.as_secs_f64(),
        p50_us: micros(percentile(&all.latencies, 500)),
        p99_us: micros(percentile(&all.latencies, 990)),
        processes: processes.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_watched_process() {
        assert_eq!("gw=12".parse(), Ok(Watch { name: "gw".to_owned(), pid: 12 }));
        assert!("12".parse::<Watch>().is_err());
        assert!("gw=x".parse::<Watch>().unwrap_err().contains('x'));
    }
}

//! `bench-load`: closed-loop load. Each worker has one connection and one session, asks its next question when the last
//! one is answered, and checks every answer. Prints one line of JSON, a [`Report`].

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
use crate::{Fault, Generation};

/// Closed-loop load on an MCP server.
#[derive(Clone, Debug, Parser)]
#[command(name = "bench-load")]
pub struct Plan {
    /// The MCP endpoint, with an address and a port.
    #[arg(long)]
    pub url: String,
    /// What one request is.
    #[arg(long, value_enum, default_value_t = Mode::Call)]
    pub mode: Mode,
    /// How MCP is spoken.
    #[arg(long, value_enum, default_value_t = Generation::Stateful)]
    pub generation: Generation,
    /// The tools to call, in turn.
    #[arg(long, value_delimiter = ',', default_value = "echo")]
    pub tool: Vec<String>,
    /// The length of a call's text, in bytes; of a blob's answer.
    #[arg(long, default_value_t = 200)]
    pub bytes: usize,
    /// How many distinct tools a list has to have; 0 takes any number.
    #[arg(long, default_value_t = 0)]
    pub expect_tools: usize,
    /// Workers.
    #[arg(long, default_value_t = 16)]
    pub connections: usize,
    /// Requests that are measured; sessions, when they are held.
    #[arg(long, default_value_t = 10_000)]
    pub requests: u64,
    /// Requests before that.
    #[arg(long, default_value_t = 500)]
    pub warmup: u64,
    /// Each held session opens its standing GET stream, on a connection of its own.
    #[arg(long)]
    pub streams: bool,
    /// How long sessions rest before memory is read a second time, in milliseconds.
    #[arg(long, default_value_t = 0)]
    pub settle_ms: u64,
    /// A file with bearer tokens, one a line. Each worker keeps to one of them, the first to the first one and so on.
    #[arg(long, value_name = "FILE")]
    pub tokens: Option<PathBuf>,
    /// Each request, and each session's beginning, takes a token of its own.
    #[arg(long, requires = "tokens")]
    pub each_token_once: bool,
    /// A process whose time and memory are read: NAME=PID. Repeatable.
    #[arg(long)]
    pub watch: Vec<Watch>,
}

/// What one request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// `tools/call` with a text, which has to come back.
    Call,
    /// `tools/call` with a length, of which text has to come back.
    Blob,
    /// `tools/list`, every page.
    List,
    /// A new session: `initialize` and `notifications/initialized`.
    Init,
    /// A session as an SDK client leaves it: opened, listed once, each tool called once, then idle.
    Hold,
}

/// A process to watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watch {
    name: String,
    pid: u32,
}

/// What a run showed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// Calls that were sent of each tool, warm-up included.
    pub sent: BTreeMap<String, u64>,
    /// Measured requests that were answered as they should be.
    pub ok: u32,
    /// Everything that was not, warm-up included.
    pub errors: usize,
    /// The first of the errors.
    pub first_error: Option<String>,
    /// From the first measured request to the last answer.
    pub seconds: f64,
    /// Answers in a second.
    pub rate: f64,
    /// The median of the time to an answer, in microseconds.
    pub p50_us: f64,
    /// The time that 99 of 100 answers keep within, in microseconds.
    pub p99_us: f64,
    /// By the names that were given.
    pub processes: BTreeMap<String, Cost>,
}

/// What a watched process spent on the measured requests.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Cost {
    /// Time on a processor per answered request, in microseconds.
    pub cpu_us: f64,
    /// Resident memory before the first measured request, in KiB.
    pub before_kib: u64,
    /// Resident memory after the last answer and the rest, everything still open, in KiB.
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

/// Runs a plan to its end. Sessions are ended after everything is read.
///
/// # Errors
/// When the plan cannot be begun; what goes wrong later is counted in the report.
pub async fn run(plan: Plan) -> Result<Report, Fault> {
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

fn read(watch: &[Watch]) -> Result<Vec<Usage>, Fault> {
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
    fn reads_which_process_to_watch() {
        assert_eq!("gw=12".parse(), Ok(Watch { name: "gw".to_owned(), pid: 12 }));
        assert!("12".parse::<Watch>().is_err());
        assert!("gw=x".parse::<Watch>().unwrap_err().contains('x'));
    }
}

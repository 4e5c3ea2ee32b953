//! One connection's share of a run.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use http::HeaderValue;
use tokio::sync::Barrier;
use tokio::time::Instant;

use super::tokens::Tokens;
use super::{Mode, Plan};
use crate::BoxError;
use crate::client::{Client, Endpoint, EventStream};

/// Attempts to open a session before it counts as an error.
const ATTEMPTS: usize = 3;

/// Errors that end a worker's run: a server that does not respond would cost a full timeout each time.
const WAIT_TIMEOUT: usize = 3;

/// State shared by the workers of a run.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) plan: Plan,
    warmup: AtomicU64,
    measured: AtomicU64,
    barrier: Barrier,
    tokens: Tokens,
    filler: String,
}

/// Result of one worker.
#[derive(Debug, Default)]
pub(super) struct Worked {
    pub(super) latencies: Vec<Duration>,
    pub(super) sent: BTreeMap<String, u64>,
    pub(super) errors: usize,
    pub(super) first_error: Option<String>,
}

struct Worker {
    number: usize,
    shared: Arc<Shared>,
    client: Client,
    /// Open sessions with their streams.
    kept: Vec<(Option<HeaderValue>, Option<EventStream>)>,
    worked: Worked,
}

impl Shared {
    pub(super) fn new(plan: Plan, tokens: Tokens) -> Self {
        Self {
            warmup: AtomicU64::new(plan.warmup),
            measured: AtomicU64::new(plan.requests),
            barrier: Barrier::new(plan.connections + 1),
            tokens,
            filler: "a text that is long enough ".repeat(plan.bytes / 27 + 1),
            plan,
        }
    }

    /// Waits at the barrier that all workers and the reader of the counters share.
    pub(super) async fn pause(&self) {
        self.barrier.wait().await;
    }
}

impl Worked {
    pub(super) fn add(&mut self, other: Self) {
        let Self { latencies, sent, errors, first_error } = other;
        self.latencies.extend(latencies);
        for (tool, count) in sent {
            *self.sent.entry(tool).or_default() += count;
        }
        self.errors += errors;
        self.first_error = self.first_error.take().or(first_error);
    }

    fn fail(&mut self, fault: &BoxError) {
        self.errors += 1;
        self.first_error.get_or_insert_with(|| fault.to_string());
    }
}

/// Runs one worker: warms up, measures, waits while everything stays open, then ends its sessions. The four pauses are
/// those of [`super::run`].
pub(super) async fn worker(number: usize, shared: Arc<Shared>, endpoint: Arc<Endpoint>) -> Worked {
    let mut worker = Worker {
        number,
        shared: Arc::clone(&shared),
        client: Client::new(endpoint),
        kept: Vec::new(),
        worked: Worked::default(),
    };
    if !matches!(shared.plan.mode, Mode::Init | Mode::Hold)
        && let Err(fault) = worker.open().await
    {
        worker.worked.fail(&fault);
    }
    while let Some(serial) = worker.next(&shared.warmup) {
        if let Err(fault) = worker.once(serial, "w").await {
            worker.worked.fail(&fault);
        }
    }
    shared.pause().await;
    shared.pause().await;
    while let Some(serial) = worker.next(&shared.measured) {
        let start = Instant::now();
        match worker.once(serial, "m").await {
            Ok(()) => worker.worked.latencies.push(start.elapsed()),
            Err(fault) => worker.worked.fail(&fault),
        }
    }
    shared.pause().await;
    shared.pause().await;
    worker.end().await
}

impl Worker {
    /// Opens the session of this worker. A gateway that has just started may need several attempts.
    async fn open(&mut self) -> Result<(), BoxError> {
        self.client.show(self.shared.tokens.next(self.number)?);
        let mut outcome = self.client.open().await;
        for _ in 1..ATTEMPTS {
            if outcome.is_err() {
                outcome = self.client.open().await;
            }
        }
        outcome
    }

    /// Returns the number of the next request, or `None` if none is left or too many failed.
    fn next(&self, left: &AtomicU64) -> Option<u64> {
        if self.worked.errors >= WAIT_TIMEOUT {
            return None;
        }
        left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).ok()
    }

    /// Sends one request. `phase` and `serial` make its arguments distinct.
    async fn once(&mut self, serial: u64, phase: &str) -> Result<(), BoxError> {
        let shared = Arc::clone(&self.shared);
        let plan = &shared.plan;
        self.client.show(shared.tokens.next(self.number)?);
        let turn = usize::try_from(serial)? % plan.tool.len().max(1);
        match plan.mode {
            Mode::Call => self.echo(plan.tool.get(turn), serial, phase).await,
            Mode::Blob => {
                let tool = plan.tool.get(turn).ok_or("no tool")?;
                self.count(tool);
                let arguments = format!("{{\"bytes\":{}}}", plan.bytes);
                self.client.call(tool, &arguments).await?.is_long(plan.bytes)
            }
            Mode::Sequence => {
                for tool in &plan.tool {
                    self.echo(Some(tool), serial, phase).await?;
                }
                Ok(())
            }
            Mode::Chain => {
                let tool = plan.tool.get(turn).ok_or("no tool")?;
                self.count(tool);
                let text = self.text(serial, phase);
                self.client.call(tool, &format!("{{\"text\":{text}}}")).await?.is_output(&text)
            }
            Mode::List => self.list(plan.expect_tools).await,
            Mode::Init => {
                let opened = self.client.open().await;
                self.kept.push((self.client.leave(), None));
                opened
            }
            Mode::Hold => self.hold(plan, serial, phase).await,
        }
    }

    async fn echo(
        &mut self,
        tool: Option<&String>,
        serial: u64,
        phase: &str,
    ) -> Result<(), BoxError> {
        let tool = tool.ok_or("no tool")?;
        self.count(tool);
        let text = self.text(serial, phase);
        self.client.call(tool, &format!("{{\"text\":{text}}}")).await?.is(&text)
    }

    /// Returns the text of a request as JSON.
    fn text(&self, serial: u64, phase: &str) -> String {
        let mut text = format!("\"{phase}{serial}-{}-", self.number);
        let fill = (self.shared.plan.bytes + 1).saturating_sub(text.len());
        text.push_str(&self.shared.filler[..fill]);
        text.push('"');
        text
    }

    async fn list(&mut self, expected: usize) -> Result<(), BoxError> {
        let found = self.client.list().await?.len();
        if expected == 0 || found == expected {
            return Ok(());
        }
        Err(format!("{found} tools are listed instead of {expected}").into())
    }

    async fn hold(&mut self, plan: &Plan, serial: u64, phase: &str) -> Result<(), BoxError> {
        self.client.open().await?;
        let stream = if plan.streams { Some(self.client.listen().await?) } else { None };
        let mut used = self.list(plan.expect_tools).await;
        for tool in &plan.tool {
            if used.is_ok() {
                used = self.echo(Some(tool), serial, phase).await;
            }
        }
        self.kept.push((self.client.leave(), stream));
        used
    }

    fn count(&mut self, tool: &str) {
        match self.worked.sent.get_mut(tool) {
            Some(count) => *count += 1,
            None => _ = self.worked.sent.insert(tool.to_owned(), 1),
        }
    }

    /// Ends all sessions, so that the next run starts without them.
    async fn end(mut self) -> Worked {
        self.kept.push((self.client.leave(), None));
        for (session, stream) in std::mem::take(&mut self.kept) {
            drop(stream);
            if let Some(session) = session
                && let Err(fault) = self.client.end(session).await
            {
                self.worked.fail(&fault);
            }
        }
        self.worked
    }
}

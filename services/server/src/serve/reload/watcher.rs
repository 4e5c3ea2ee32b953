//! Task that notices changes of the configuration.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Instant, MissedTickBehavior, interval_at};
use vmcp_audit_log::LogHandle;
use vmcp_config::{File, Format};

use super::{FileStamp, Inputs, NamedFiles, ReloadError, apply, changes, stamp};
use crate::kubernetes::Discovery;
use crate::parts::{DiscoveredBackends, discovers_backends};
use crate::routes::ServerState;

/// Poll interval of files. A mounted ConfigMap changes by a symbolic link swap, which file events miss.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// First and longest delay before a retry of a reload that failed for a reason outside the file.
const RETRY_DELAYS: (Duration, Duration) = (Duration::from_secs(2), Duration::from_mins(1));

/// Time that the first discovery gets when a running server begins to discover its backends. Until then it keeps those that it
/// has; after it, it has none.
const DISCOVERY_START_TIMEOUT: Duration = Duration::from_secs(10);

/// Task that notices changes of the configuration, and applies them.
struct Watcher {
    path: PathBuf,
    /// Text of the file when it was read last.
    text: String,
    /// Text of the configuration that was applied last, with the discovered backends.
    applied: String,
    /// Files that the configuration names.
    files: NamedFiles,
    file_stamp: Option<FileStamp>,
    retry: Option<Retry>,
    discovery: Option<Discovery>,
    /// Last result of the discovery.
    discovered: Option<DiscoveredBackends>,
    shared: Arc<ServerState>,
    inputs: Inputs,
}

/// Reason to look for changes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Trigger {
    Poll,
    Sighup,
    Discovery,
}

/// Time of the next retry.
#[derive(Clone, Copy)]
struct Retry {
    at: Instant,
    delay: Duration,
}

/// Watches `path`, and the `files` that its `text` names, until the process ends.
pub(in crate::serve) fn watch(
    path: PathBuf,
    text: String,
    files: NamedFiles,
    shared: Arc<ServerState>,
    inputs: Inputs,
) {
    // Installed first: without a handler, the signal ends the process.
    let hangup = signal(SignalKind::hangup()).ok();
    let mut watcher = Watcher {
        path,
        applied: text.clone(),
        text,
        files,
        // The first poll reads the file, which may have changed since `text` was read.
        file_stamp: None,
        retry: None,
        discovery: None,
        discovered: None,
        shared,
        inputs,
    };
    watcher.follow_cluster();
    tokio::spawn(watcher.run(hangup));
}

impl Watcher {
    async fn run(mut self, mut hangup: Option<Signal>) {
        let mut polls = interval_at(Instant::now() + POLL_INTERVAL, POLL_INTERVAL);
        polls.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let trigger = tokio::select! {
                _ = polls.tick() => Trigger::Poll,
                () = sighup(&mut hangup) => Trigger::Sighup,
                () = changed(&mut self.discovery) => Trigger::Discovery,
            };
            self.look(trigger).await;
        }
    }

    /// Reloads the configuration if anything has changed.
    async fn look(&mut self, trigger: Trigger) {
        let is_requested = trigger == Trigger::Sighup;
        if is_requested {
            self.reopen_logs();
        }
        let is_discovered = trigger == Trigger::Discovery && self.take_discovered();
        let is_due = self.retry.is_some_and(|retry| retry.at <= Instant::now());
        // Two equal looks at files show that no write is in progress, so that they must not follow each other too soon.
        let have_files_changed = trigger != Trigger::Discovery && self.files.have_changed();
        let is_forced = have_files_changed || is_requested || is_due || is_discovered;
        let now = stamp(&self.path);
        if !is_forced && now == self.file_stamp {
            return;
        }
        self.file_stamp = now;
        let outcome = match tokio::fs::read_to_string(&self.path).await {
            // The file was touched, but not changed.
            Ok(text) if !is_forced && text == self.text => return,
            Ok(text) => {
                self.text = text;
                self.reload().await
            }
            Err(error) => {
                let error = format!("cannot read {}: {error}", self.path.display());
                Err(ReloadError::Temporary(error))
            }
        };
        self.retry = match &outcome {
            Err(ReloadError::Temporary(_)) => Some(Retry::after(self.retry.filter(|_| is_due))),
            Ok(_) | Err(ReloadError::Permanent(_)) => None,
        };
        let outcome = outcome.map_err(|error| {
            let (ReloadError::Permanent(error) | ReloadError::Temporary(error)) = error;
            error
        });
        self.shared.reloads.report(outcome, is_due);
    }

    /// Applies the configuration, and returns a description of what has changed.
    async fn reload(&mut self) -> Result<String, ReloadError> {
        if self.follow_cluster() {
            self.await_discovery().await;
        }
        let discovered = self.discovered.clone();
        let is_discovered = discovered.is_some();
        let discovered = discovered.unwrap_or_default();
        let merged = discovered.merge(&self.text);
        let merged = merged.map_err(|error| ReloadError::Permanent(error.to_string()))?;
        // Record the metadata before the files are read, so that the next poll detects changes in between.
        self.files = NamedFiles::of(&merged, &self.inputs.environment);
        let applied = apply(&self.text, discovered, &self.shared, &self.inputs).await?;
        let changes = describe_changes(&self.applied, &applied);
        self.applied = applied;
        if is_discovered {
            self.shared.readiness.set_discovered();
        }
        Ok(changes)
    }

    /// Starts or ends the discovery of backends, as the file says. Returns `true` if it was started.
    #[cfg_attr(
        not(feature = "kubernetes"),
        expect(unreachable_code, reason = "without the feature, there is no cluster")
    )]
    fn follow_cluster(&mut self) -> bool {
        let cluster = self.shared.state.cluster.as_ref().filter(|_| discovers_backends(&self.text));
        let Some(cluster) = cluster else {
            // A file with errors is not applied, so that the discovery for the last valid one goes on.
            if File::parse(&self.text, Format::Yaml).is_ok() {
                (self.discovery, self.discovered) = (None, None);
                self.shared.reloads.set_discovery(None);
            }
            return false;
        };
        if self.discovery.is_some() {
            return false;
        }
        self.discovery = Some(cluster.discover());
        self.take_discovered();
        true
    }

    /// Waits for the first result of the discovery.
    async fn await_discovery(&mut self) {
        let end = Instant::now() + DISCOVERY_START_TIMEOUT;
        while self.discovered.is_none() {
            let changed = changed(&mut self.discovery);
            if tokio::time::timeout_at(end, changed).await.is_err() {
                tracing::error!("no backends were discovered in time; those of the file end");
                return;
            }
            self.take_discovered();
        }
    }

    /// Takes the state of the discovery. Returns `true` if the backends are others.
    fn take_discovered(&mut self) -> bool {
        let Some(discovery) = &mut self.discovery else { return false };
        let (backends, status) = discovery.take();
        self.shared.reloads.set_discovery(Some(status));
        let is_new = backends.is_some();
        if is_new {
            self.discovered = backends;
        }
        is_new
    }

    /// Log rotation sends the signal of a reload.
    fn reopen_logs(&self) {
        if let Some(audit_pipeline) = &self.shared.reloadable.load().audit_pipeline {
            audit_pipeline.log.reopen();
        }
        self.shared.retired_logs().iter().for_each(LogHandle::reopen);
    }
}

impl Retry {
    /// Returns the next retry after another failure.
    fn after(last: Option<Self>) -> Self {
        let delay = last.map_or(RETRY_DELAYS.0, |last| RETRY_DELAYS.1.min(last.delay * 2));
        Self { at: Instant::now() + delay, delay }
    }
}

/// Describes the difference between two configurations.
fn describe_changes(before: &str, after: &str) -> String {
    let parse = |text| File::parse(text, Format::Yaml).ok();
    let changes = match (parse(before), parse(after)) {
        (Some(before), Some(after)) => changes::changes(&before, &after),
        // The text at the start was invalid, so all sections count as new.
        (None, _) | (_, None) => vec!["all sections".to_owned()],
    };
    if changes.is_empty() {
        "no setting; files that it names were read again".to_owned()
    } else {
        changes.join(", ")
    }
}

async fn sighup(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => _ = signal.recv().await,
        None => std::future::pending().await,
    }
}

/// Waits for a change of the discovery, if there is one.
async fn changed(discovery: &mut Option<Discovery>) {
    match discovery {
        Some(discovery) => discovery.changed().await,
        None => std::future::pending().await,
    }
}

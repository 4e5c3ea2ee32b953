//! Task that converts the resources whenever they change.

use std::{path::PathBuf, sync::Arc, time::Duration};

use futures_util::StreamExt as _;
use kube::Client;
use tokio::{
    sync::watch,
    task::JoinHandle,
    time::{Instant, MissedTickBehavior, interval, timeout, timeout_at},
};
use vmcp_api::conversion;

use crate::{
    Discovered, DiscoveryProblem, DiscoveryState,
    directory::Directory,
    stores::{Change, Changes, Found, Stores},
};

/// Interval between listings of the secrets.
const LIST_INTERVAL: Duration = Duration::from_secs(1);

/// Time in which further changes are collected before a conversion.
const COLLECT_TIME: Duration = Duration::from_millis(100);

/// Server whose backends are discovered.
#[derive(Clone, Debug)]
pub struct Target {
    /// Namespace of the server and of its group.
    pub namespace: String,
    /// Name of the VirtualMCPServer.
    pub name: String,
    /// Directory with the files of secrets that backends refer to. Without a directory, all of them are missing.
    pub secrets: Option<PathBuf>,
}

/// Discovery that runs until it is dropped.
#[derive(Debug)]
pub struct Discovery {
    state: watch::Receiver<DiscoveryState>,
    task: JoinHandle<()>,
}

/// State of the task.
struct Task {
    name: String,
    stores: Stores,
    changes: Changes,
    directory: Directory,
    state: watch::Sender<DiscoveryState>,
}

// === impl Discovery ===

impl Discovery {
    /// Starts the discovery as a task of the current tokio runtime.
    #[must_use]
    pub fn start(client: &Client, target: Target) -> Self {
        let (stores, changes) = Stores::new(client, &target);
        let Target { namespace: _, name, secrets } = target;
        let problem = Some(stores.problem());
        let (sender, state) = watch::channel(DiscoveryState { discovered: None, problem });
        let directory = Directory::new(secrets);
        let task = Task { name, stores, changes, directory, state: sender };
        Self { state, task: tokio::spawn(task.run()) }
    }

    /// Returns a receiver of the state. It changes with each result that differs from the last one, and with each problem.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<DiscoveryState> {
        self.state.clone()
    }

    /// Waits for the first result, for at most `limit`.
    ///
    /// # Errors
    ///
    /// Returns the problem at the end of that time: resources that the API server has not listed, or a VirtualMCPServer that
    /// does not exist or is invalid. The discovery goes on.
    #[expect(clippy::missing_panics_doc, reason = "a state without a result has a problem")]
    pub async fn synchronized(&self, limit: Duration) -> Result<Arc<Discovered>, DiscoveryProblem> {
        let mut state = self.subscribe();
        _ = timeout(limit, state.wait_for(|state| state.discovered.is_some())).await;
        let DiscoveryState { discovered, problem } = state.borrow().clone();
        discovered.ok_or_else(|| problem.expect("a state without a result has a problem"))
    }
}

impl Drop for Discovery {
    fn drop(&mut self) {
        self.task.abort();
    }
}

// === impl Task ===

impl Task {
    async fn run(mut self) {
        let mut listings = interval(LIST_INTERVAL);
        listings.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let is_changed = tokio::select! {
                change = self.changes.next() => match change {
                    Some(change) => {
                        self.collect(change).await;
                        true
                    }
                    // Watches never end by themselves.
                    None => return,
                },
                _ = listings.tick() => self.directory.refresh().await,
            };
            if is_changed {
                self.update();
            }
        }
    }

    /// Records a change, and those that follow soon.
    async fn collect(&mut self, first: Change) {
        self.stores.record(first);
        let end = Instant::now() + COLLECT_TIME;
        while let Ok(Some(change)) = timeout_at(end, self.changes.next()).await {
            self.stores.record(change);
        }
    }

    /// Publishes the backends, unless they are the same as before, or the problem.
    fn update(&self) {
        match self.convert() {
            Ok(discovered) => {
                self.state.send_if_modified(|last| {
                    let is_new = last.discovered.as_deref() != Some(&discovered);
                    if is_new {
                        last.discovered = Some(Arc::new(discovered));
                    }
                    let is_solved = last.problem.take().is_some();
                    is_new || is_solved
                });
            }
            Err(problem) => {
                self.state.send_if_modified(|last| {
                    let is_new = last.problem.as_ref() != Some(&problem);
                    if is_new {
                        // Those of watches are logged with each error.
                        if !matches!(problem, DiscoveryProblem::NotListed(_)) {
                            tracing::warn!(%problem, "failed to discover the backends; the last known ones remain");
                        }
                        last.problem = Some(problem);
                    }
                    is_new
                });
            }
        }
    }

    fn convert(&self) -> Result<Discovered, DiscoveryProblem> {
        if !self.stores.are_complete() {
            return Err(self.stores.problem());
        }
        let found = self.stores.inputs(&self.name, self.directory.files());
        let missing = || DiscoveryProblem::Missing(self.name.clone());
        let Found { inputs, surplus } = found.ok_or_else(missing)?;
        let converted = conversion::backends(&inputs).map_err(|errors| {
            let errors = errors.iter().map(ToString::to_string).collect();
            DiscoveryProblem::Invalid { name: self.name.clone(), errors }
        })?;
        Ok(Discovered::new(converted, surplus))
    }
}

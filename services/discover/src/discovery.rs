//! Task that converts the resources whenever they change.

use std::{path::PathBuf, sync::Arc, time::Duration};

use futures_util::StreamExt as _;
use kube::Client;
use tokio::{
    sync::watch,
    task::JoinHandle,
    time::{Instant, MissedTickBehavior, interval, timeout_at},
};
use vmcp_api::conversion;

use crate::{
    Discovered,
    directory::Directory,
    stores::{Change, Changes, Stores},
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
    discovered: watch::Receiver<Option<Arc<Discovered>>>,
    task: JoinHandle<()>,
}

/// State of the task.
struct Task {
    name: String,
    stores: Stores,
    changes: Changes,
    directory: Directory,
    discovered: watch::Sender<Option<Arc<Discovered>>>,
}

// === impl Discovery ===

impl Discovery {
    /// Starts the discovery as a task of the current tokio runtime.
    #[must_use]
    pub fn start(client: &Client, target: Target) -> Self {
        let (stores, changes) = Stores::new(client, &target);
        let Target { namespace: _, name, secrets } = target;
        let (sender, discovered) = watch::channel(None);
        let directory = Directory::new(secrets);
        let task = Task { name, stores, changes, directory, discovered: sender };
        Self { discovered, task: tokio::spawn(task.run()) }
    }

    /// Returns a receiver of the results. `None` until all resources were listed once. A result that equals the last one is
    /// not sent.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<Option<Arc<Discovered>>> {
        self.discovered.clone()
    }

    /// Waits for the first result.
    pub async fn synchronized(&self) -> Arc<Discovered> {
        let mut discovered = self.subscribe();
        let first = discovered.wait_for(Option::is_some).await;
        match first.ok().and_then(|first| first.clone()) {
            Some(first) => first,
            // The task ends only with this value, or by a panic, which it reports itself.
            None => std::future::pending().await,
        }
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
            if is_changed && self.stores.are_complete() {
                self.convert();
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

    /// Publishes the backends, unless they are the same as before.
    fn convert(&self) {
        let Some(inputs) = self.stores.inputs(&self.name, self.directory.files()) else {
            tracing::warn!(server = self.name, "the VirtualMCPServer does not exist");
            return;
        };
        let converted = match conversion::backends(&inputs) {
            Ok(converted) => Discovered::from(converted),
            Err(errors) => {
                for error in errors {
                    tracing::warn!(server = self.name, %error, "failed to convert the backends");
                }
                return;
            }
        };
        self.discovered.send_if_modified(|last| {
            let is_new = last.as_deref() != Some(&converted);
            if is_new {
                *last = Some(Arc::new(converted));
            }
            is_new
        });
    }
}

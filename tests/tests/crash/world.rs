//! A gateway, or two replicas, and their backend.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use tokio::process::Child;
use tokio::time::{Instant, sleep};
use vmcp_tests::authority::Authority;

use crate::bank::{Bank, KillPoint};
use crate::gateway::Gateway;
use crate::transfer::{Owner, config};

/// Timeout until an operator or owner sees a change of a run.
pub(crate) const SOON: Duration = Duration::from_secs(10);

/// One gateway with its backend, and the process that runs now. With Redis there is another replica.
pub(crate) struct World<'a> {
    authority: &'a Authority,
    pub(crate) bank: Bank,
    gateway: Gateway,
    process: Option<Child>,
    /// Replica that continues the run, and its process unless it was killed.
    replica: Option<(Gateway, Option<Child>)>,
}

impl<'a> World<'a> {
    pub(crate) async fn start(name: &str, authority: &'a Authority) -> Self {
        let bank = Bank::start();
        let mut gateway = Gateway::new(name, &config(authority, &bank));
        let process = Some(gateway.start().await);
        Self { authority, bank, gateway, process, replica: None }
    }

    /// Starts two replicas with a store in Redis at this port.
    pub(crate) async fn start_replicas(name: &str, authority: &'a Authority, redis: u16) -> Self {
        let bank = Bank::start();
        let (yaml, prefix) = (config(authority, &bank), format!("vmcp:{name}:"));
        let gateway = |suffix: &str| {
            Gateway::with_redis(&format!("{name}-{suffix}"), &yaml, (redis, &prefix))
        };
        let (mut gateway, mut replica) = (gateway("one"), gateway("two"));
        let (process, other) = tokio::join!(gateway.start(), replica.start());
        let replica = Some((replica, Some(other)));
        Self { authority, bank, gateway, process: Some(process), replica }
    }

    pub(crate) fn owner(&self) -> Owner {
        Owner::at(&self.gateway.url, self.authority)
    }

    /// Returns the owner at the other replica.
    pub(crate) fn other_owner(&self) -> Owner {
        let (replica, _) = self.replica.as_ref().unwrap();
        Owner::at(&replica.url, self.authority)
    }

    /// Kills the gateway at this point, counted from now.
    pub(crate) async fn kills_at(&mut self, point: KillPoint) {
        if let Some((replica, process @ None)) = &mut self.replica {
            *process = Some(replica.start().await);
        }
        self.bank.kills(self.process.take().unwrap(), point);
    }

    /// Waits until the gateway is dead, and starts the next one, or goes on with the other replica.
    pub(crate) async fn restart(&mut self) {
        self.bank.until_killed().await;
        if let Some((replica, process)) = &mut self.replica {
            std::mem::swap(&mut self.gateway, replica);
            self.process = process.take();
        } else {
            self.process = Some(self.gateway.start().await);
        }
    }

    /// Waits until the newest run is interrupted, unless it had ended.
    pub(crate) async fn until_interrupted(&self, point: KillPoint) {
        let deadline = Instant::now() + SOON;
        loop {
            let run = self.owner().newest_run().await;
            match run["status"].as_str().unwrap() {
                "interrupted" | "completed" => return,
                "running" if Instant::now() < deadline => sleep(Duration::from_millis(50)).await,
                other => panic!("{point:?}: {other}: {run}"),
            }
        }
    }

    pub(crate) fn calls(&self, run: &Value) -> BTreeMap<String, usize> {
        self.bank.calls(run["id"].as_str().unwrap())
    }
}

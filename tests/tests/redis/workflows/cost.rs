//! Redis commands per step of the store and per run, as counted by Redis itself.

use std::time::Duration;

use vmcp_compose::store::contract::TestStore;
use vmcp_compose::{Outcome, RunId, StoreLimits};
use vmcp_tests::counterparts::{Redis, skipped};

use super::fixtures::stores;
use super::runner::{Backend, Runner, chain, owner, workflow};
use crate::fixtures::standalone;
use crate::trips::Monitor;

struct World {
    runner: Runner,
    monitor: Monitor,
    _server: Redis,
}

impl World {
    async fn start(workflow: vmcp_compose::Workflow) -> Self {
        let server = Redis::start(&[]).await.unwrap();
        let limits = StoreLimits::default();
        let TestStore { store, clock, .. } = stores(&standalone(server.port), limits).await;
        let runner = Runner { workflow, store, backend: Backend::default(), clock };
        let monitor = Monitor::start(server.port).await;
        Self { runner, monitor, _server: server }
    }

    /// Returns the number of commands since the last call.
    async fn commands(&mut self) -> usize {
        self.monitor.commands().await.len()
    }
}

#[tokio::test]
async fn run_of_three_steps_costs_five_commands() {
    if skipped() {
        return;
    }
    println!("steps  commands");
    for (steps, expected) in [(1, 3), (3, 5), (10, 12)] {
        let mut world = World::start(chain(steps)).await;
        // The first run sends the source of each script.
        for run in ["warm", "counted"] {
            world.commands().await;
            let outcome = world.runner.start(run).await;
            assert!(matches!(outcome, Outcome::Completed(_)), "{outcome:?}");
        }
        let commands = world.commands().await;
        println!("{steps:>5}  {commands:>8}");
        assert_eq!(commands, expected);
    }
}

#[tokio::test]
async fn each_step_of_store_is_one_command() {
    if skipped() {
        return;
    }
    let mut world = World::start(workflow()).await;
    for name in ["warm", "counted"] {
        let run = RunId::new(name);
        assert!(matches!(world.runner.start(name).await, Outcome::InputRequired(_)));
        world.commands().await;
        let store = &world.runner.store;
        let (lease, _) = store.acquire(&owner(), &run).await.unwrap();
        let mut costs = vec![("acquire", world.monitor.commands().await.len())];
        store.renew(&lease).await.unwrap();
        costs.push(("renew", world.monitor.commands().await.len()));
        store.read(&owner(), &run).await.unwrap();
        costs.push(("read", world.monitor.commands().await.len()));
        store.list(&owner(), 10).await.unwrap();
        costs.push(("list", world.monitor.commands().await.len()));
        store.counts().await.unwrap();
        costs.push(("counts", world.monitor.commands().await.len()));
        store.release(&lease);
        while store.renew(&lease).await.is_ok() {}
        world.commands().await;
        let store = &world.runner.store;
        store.cancel(&owner(), &run).await.unwrap();
        costs.push(("cancel", world.monitor.commands().await.len()));
        if name == "counted" {
            let expected = [1, 1, 1, 1, 1, 2];
            assert!(costs.iter().map(|(_, count)| *count).eq(expected), "{costs:?}");
        }
    }
}

#[tokio::test]
async fn parallel_steps_share_their_writes() {
    if skipped() {
        return;
    }
    let steps = (0..8).map(|n| serde_json::json!({"id": format!("s{n}"), "tool": "w.read"}));
    let definition = serde_json::json!({"name": "t", "steps": steps.collect::<Vec<_>>()});
    let definition = serde_json::from_value(definition).unwrap();
    let parallel = vmcp_compose::Workflow::compile(&definition, "x").unwrap();
    let mut world = World::start(parallel).await;
    world.runner.backend = Backend::slow(Duration::from_millis(20));
    for run in ["warm", "counted"] {
        world.commands().await;
        let outcome = world.runner.start(run).await;
        assert!(matches!(outcome, Outcome::Completed(_)), "{outcome:?}");
    }
    let commands = world.commands().await;
    println!("8 parallel steps: {commands} commands");
    assert!(commands <= 10, "{commands}");
}

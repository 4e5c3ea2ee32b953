//! Properties of runs of any graph.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use proptest::prelude::*;
use serde_json::{Value, json};
use vmcp_compose::{Answer, Outcome, Workflow};

use crate::support::{TestEnv, User, repeatable, workflow};

/// Kind of a random step, and the steps before it on which it depends.
#[derive(Clone, Debug)]
struct RandomStep {
    kind: u8,
    ms: u64,
    depends_on: Vec<prop::sample::Index>,
}

fn steps() -> impl Strategy<Value = Vec<RandomStep>> {
    let step = (0_u8..8, 0_u64..50, prop::collection::vec(any::<prop::sample::Index>(), 0..4))
        .prop_map(|(kind, ms, depends_on)| RandomStep { kind, ms, depends_on });
    prop::collection::vec(step, 1..40)
}

fn dependencies(steps: &[RandomStep], number: usize) -> Vec<usize> {
    if number == 0 {
        return Vec::new();
    }
    steps[number].depends_on.iter().map(|index| index.index(number)).collect()
}

fn build(steps: &[RandomStep]) -> Workflow {
    let list: Vec<Value> = steps
        .iter()
        .enumerate()
        .map(|(number, step)| {
            let depends_on: Vec<_> =
                dependencies(steps, number).iter().map(|n| format!("s{n}")).collect();
            let id = format!("s{number}");
            let mut value = json!({"id": id, "dependsOn": depends_on});
            match step.kind {
                0 => {
                    value["condition"] = "false".into();
                    value["defaultResults"] = json!({"id": id});
                }
                1 => {
                    value["type"] = "elicitation".into();
                    value["message"] = "m".into();
                    value["schema"] = json!({"type": "object"});
                    value["onDecline"] = json!({"action": "skip_remaining"});
                    return value;
                }
                2 => {
                    value["tool"] = "w.fail".into();
                    value["onError"] = json!({"action": "continue"});
                    value["defaultResults"] = json!({"id": id});
                    return value;
                }
                _ => {}
            }
            value["tool"] = "w.sleep".into();
            let read = |n: usize| match steps[n].kind {
                1 => format!("{{{{.steps.s{n}.output.content.id}}}}"),
                _ => format!("{{{{.steps.s{n}.output.id}}}}"),
            };
            let read: Vec<_> = dependencies(steps, number).into_iter().map(read).collect();
            value["arguments"] = json!({"ms": step.ms, "id": id, "from": read.join(" ")});
            value
        })
        .collect();
    workflow(list.into())
}

/// Asserts that each call got the outputs of its dependencies.
fn assert_data_flow(steps: &[RandomStep], world: &TestEnv) {
    for call in world.tools.calls().iter().filter(|call| &*call.tool == "w.sleep") {
        let number = call.step.step[1..].parse().unwrap();
        let ids: Vec<_> = dependencies(steps, number).iter().map(|n| format!("s{n}")).collect();
        assert_eq!(call.arguments["from"], ids.join(" "), "arguments of s{number}");
    }
}

/// User whose answer to the question of each step is the step's identifier.
fn consenting_user(steps: usize) -> Arc<User> {
    let user = User::new([]);
    for id in (0..steps).map(|number| format!("s{number}")) {
        user.answer(&id, Answer::Accept(json!({"id": id})));
    }
    user
}

/// Runs a graph; `declines` makes the user decline every question.
fn run(steps: &[RandomStep], declines: bool) -> TestEnv {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let user = if declines { User::new([]) } else { consenting_user(steps.len()) };
    for number in 0..steps.len() {
        user.answer(&format!("s{number}"), Answer::Decline);
    }
    let world = TestEnv::with_user(&user);
    let outcome = runtime.block_on(world.run(&build(steps), json!({})));
    assert!(matches!(outcome, Outcome::Completed(_)), "{outcome:?}");
    world
}

/// Runs a graph that is interrupted after each of `times`, in milliseconds, and then continues to its end. Returns the number
/// of interruptions.
fn run_interrupted(steps: &[RandomStep], times: &[u64]) -> (TestEnv, usize) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let user = consenting_user(steps.len());
    let world = TestEnv::with_user(&user).knows("w.sleep", repeatable());
    let workflow = build(steps);
    let (outcome, interruptions) = runtime.block_on(async {
        let mut run: BoxFuture<'_, Outcome> = Box::pin(world.run(&workflow, json!({})));
        for (interruptions, ms) in times.iter().enumerate() {
            match tokio::time::timeout(Duration::from_millis(*ms), run).await {
                Ok(outcome) => return (outcome, interruptions),
                Err(_) => run = Box::pin(world.resume(&workflow)),
            }
        }
        (run.await, times.len())
    });
    assert!(matches!(outcome, Outcome::Completed(_)), "{outcome:?}");
    (world, interruptions)
}

/// Returns the position of each step's event in the run.
fn positions(events: &[String], word: &str) -> HashMap<usize, usize> {
    let mut positions = HashMap::new();
    for (position, event) in events.iter().enumerate() {
        let Some((step, rest)) = event.split_once(' ') else { continue };
        let Some(number) = step.strip_prefix('s').and_then(|n| n.parse().ok()) else { continue };
        let is_start = rest == "started";
        if is_start == (word == "started") {
            assert!(positions.insert(number, position).is_none(), "{event} once");
        }
    }
    positions
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn steps_follow_their_dependencies(steps in steps()) {
        let world = run(&steps, false);
        let events = world.events();
        let (started, ended) = (positions(&events, "started"), positions(&events, "ended"));
        prop_assert_eq!(ended.len(), steps.len(), "each step ends once");
        for (&number, &start) in &started {
            for dependency in dependencies(&steps, number) {
                prop_assert!(ended[&dependency] < start, "s{} before s{}", dependency, number);
            }
        }
        prop_assert!(world.tools.max_running() <= 10);
        assert_data_flow(&steps, &world);
        let called = world.tools.steps();
        let expected = steps.iter().filter(|step| step.kind > 1).count();
        prop_assert_eq!(called.len(), expected, "each call once");
    }

    #[test]
    fn nothing_starts_after_skip_remaining(steps in steps()) {
        let events = run(&steps, true).events();
        let skipped = events.iter().position(|event| {
            let question = event.split(' ').next().and_then(|step| step.strip_prefix('s'));
            let number = question.and_then(|number| number.parse::<usize>().ok());
            event.contains(" completed ") && number.is_some_and(|n| steps[n].kind == 1)
        });
        if let Some(skipped) = skipped {
            prop_assert!(!events[skipped..].iter().any(|event| event.ends_with(" started")));
        }
        prop_assert_eq!(positions(&events, "ended").len(), steps.len());
    }

    #[test]
    fn interrupted_run_completes_each_step_once(
        steps in steps(),
        times in prop::collection::vec(1_u64..60, 0..8),
    ) {
        let (world, interruptions) = run_interrupted(&steps, &times);
        assert_data_flow(&steps, &world);
        let ended = world.events().iter().filter(|event| event.contains(" completed ")).count();
        let expected = steps.iter().filter(|step| !matches!(step.kind, 0 | 2)).count();
        prop_assert_eq!(ended, expected, "each result once");
        let calls = steps.iter().filter(|step| step.kind > 2).count();
        let failing = steps.iter().filter(|step| step.kind == 2).count();
        prop_assert_eq!(world.tools.completed(), calls + failing);
        prop_assert!(world.tools.calls().len() <= calls + failing + 10 * interruptions);
    }
}

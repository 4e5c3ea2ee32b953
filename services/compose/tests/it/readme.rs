//! Limits of the READMEs, compared with those of the code.

use std::time::Duration;

use vmcp_compose::StoreLimits;
use vmcp_compose::limits::*;

const README: &str = include_str!("../../README.md");
const USERS: &str = include_str!("../../../cli/README.md");

fn kib(bytes: usize) -> String {
    format!("{} KiB", bytes / 1024)
}

fn mib(bytes: usize) -> String {
    format!("{} MiB", bytes / 1024 / 1024)
}

fn minutes(duration: Duration) -> String {
    format!("{} min", duration.as_secs() / 60)
}

#[test]
fn readmes_name_limits_of_code() {
    let store = StoreLimits::default();
    assert_eq!((store.max_runs, store.max_runs_per_owner), (10_000, 1_000));
    assert_eq!(store.lifetime, Duration::from_hours(1));
    let (step, each, run) = (MAX_STEP_OUTPUT_BYTES, MAX_LOOP_OUTPUT_BYTES, MAX_RUN_OUTPUT_BYTES);
    for row in [
        format!("| steps of a workflow; at the same time | {MAX_STEPS}; {MAX_PARALLEL_STEPS} |"),
        format!(
            "| `timeout`; {}, {} when absent. A question waits {} at most;",
            minutes(WORKFLOW_TIMEOUT),
            minutes(STEP_TIMEOUT),
            minutes(MAX_ELICITATION_TIMEOUT)
        ),
        format!(
            "| schema of a question | {}, {MAX_ELICITATION_DEPTH} levels |",
            kib(MAX_ELICITATION_SCHEMA_BYTES)
        ),
        format!("| message of a question | {} |", kib(MAX_MESSAGE_BYTES)),
        format!("| answer | {}, {MAX_ELICITATION_DEPTH} levels |", mib(MAX_ANSWER_BYTES)),
        format!("| {}, {}, {}; {MAX_OUTPUT_DEPTH} levels |", mib(step), mib(each), mib(run)),
        format!("| texts of a call | {} |", mib(MAX_TEXT_BYTES)),
        format!(
            "| 10,000, {}; of one owner 1,000, {}; 1 h after",
            mib(store.max_bytes),
            mib(store.max_bytes_per_owner)
        ),
    ] {
        assert!(README.contains(&row), "{row}");
    }
    assert_eq!(each, run);
    let row = format!(
        "| results | of a step: at most {} of JSON, otherwise the step fails; of a `forEach` and of the call: {}.",
        mib(step),
        mib(each)
    );
    assert!(USERS.contains(&row), "{row}");
    let memory =
        format!("the others of one call have {} of memory", mib(store.max_bytes_per_owner));
    assert!(USERS.contains(&memory), "{memory}");
    let open = format!(
        "at most 1,000 and {} of memory, and at most half of what the others leave of 10,000 and {}.",
        mib(store.max_bytes_per_owner),
        mib(store.max_bytes)
    );
    assert!(USERS.contains(&open), "{open}");
}

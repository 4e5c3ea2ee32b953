//! Tests of the workflow engine over tools that the tests provide. Time is paused.

#![allow(
    clippy::needless_pass_by_value,
    clippy::panic,
    clippy::unwrap_used,
    reason = "helpers of tests"
)]

mod cancellation;
mod conditions;
mod events;
mod every_mistake;
mod findings;
mod flow;
mod for_each;
mod kept_answers;
mod mistakes;
mod output;
mod parameters;
mod questions;
mod random_graphs;
mod random_templates;
mod readme;
mod recovery;
mod retries;
mod sizes;
mod support;
mod suspension;
mod timeouts;
mod unanswered;
mod writes;

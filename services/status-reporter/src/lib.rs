#![doc = include_str!("../README.md")]

mod change;
mod conditions;
mod message;
mod progress;
mod report;
mod reporter;
mod resource;
mod status;

pub use vmcp_api::virtual_mcp_server::{BackendStatus, CircuitBreakerState};
pub use vmcp_lease::Environment;

pub use self::{
    progress::{Counts, Progress},
    report::{BackendReport, Cause, Circuit, Report, ReportSource},
    reporter::{StatusReporter, Target},
};

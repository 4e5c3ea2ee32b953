#![doc = include_str!("../README.md")]

mod change;
mod conditions;
mod message;
mod report;
mod reporter;
mod resource;
mod status;

pub use vmcp_api::virtual_mcp_server::{BackendStatus, CircuitBreakerState};
pub use vmcp_lease::Environment;

pub use self::{
    report::{BackendReport, Cause, Circuit, Report, ReportSource},
    reporter::{Counts, StatusReporter, Target},
};

//! Delivery of vmcp: charts, manifests, images, releases.
//!
//! Helm and the linter of workflows come from Go's module proxy. See `vmcp_tests::counterparts`.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail as tests do")]

mod bill_of_materials;
mod cases;
mod charts;
mod first_minutes;
mod image;
mod operator_chart;
mod pods;
mod refused_values;
mod server_chart;
mod support;
mod workflows;

//! The definitions from the outside: schemas, their rules, and the manifests that they admit.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "helpers of tests")]

mod bounds;
mod conversion;
mod cost;
mod definitions;
mod fields;
mod manifests;
mod names;
mod rules;
mod support;

//! Tests of templates as callers use them.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "helpers of tests")]

mod arbitrary;
mod errors;
mod limits;
mod paths;
mod properties;
mod values;
mod vectors;

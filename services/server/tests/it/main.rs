//! Tests of the assembled server.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "helpers of tests")]

mod legacy_sse;
mod stack_order;

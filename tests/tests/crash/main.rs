//! Runs of composite tools that survive their gateway: it is killed at many points of a run and started again over the same
//! store, by a test program that plays its backend, its client and its operator.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail as tests do")]

mod bank;
mod gateway;
mod killed;
mod replays;
mod transfer;

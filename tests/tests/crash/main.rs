//! Runs of composite tools that survive their gateway: it is killed at many points of a run and started again over the same
//! store, or another replica continues the run. The test program plays the backend, the client and the operator.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail as tests do")]

mod bank;
mod gateway;
mod killed;
mod paused;
mod replays;
mod tasks;
mod transfer;
mod world;

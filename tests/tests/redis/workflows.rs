//! Runs of composite tools in Redis.

mod contract;
mod fixtures;

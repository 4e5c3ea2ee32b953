//! Runs of composite tools in Redis.

mod contract;
mod cost;
mod failover;
mod fixtures;
mod lost_responses;
mod replicas;
mod runner;
mod settings;
mod sizes;
mod unreadable;

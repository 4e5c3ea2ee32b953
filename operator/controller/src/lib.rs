#![doc = include_str!("../README.md")]

mod apply;
mod conditions;
mod controllers;
mod dependencies;
mod events;
mod external_kinds;
mod health;
mod identities;
mod key;
mod lookup;
pub mod manifests;
mod metrics;
mod names;
mod operator;
pub mod plan;
mod queue;
mod references;
mod server_checks;
mod server_review;
mod settings;
mod sources;
mod status;
mod store;
mod stores;
mod watch;
mod webhook;
mod worker;

pub use operator::{LeaseName, Operator};
pub use server_checks::ServerChecks;
pub use settings::Settings;
pub use vmcp_lease::{Environment, LostLeadership};
pub use webhook::{Connection, Connections, ServiceName};

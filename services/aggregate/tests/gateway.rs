//! Tests of the whole service with fake backends.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail as tests do")]

#[path = "gateway/admission.rs"]
mod admission;
#[path = "gateway/answers.rs"]
mod answers;
#[path = "gateway/apps.rs"]
mod apps;
#[path = "gateway/catalogs.rs"]
mod catalogs;
#[path = "gateway/cells.rs"]
mod cells;
#[path = "gateway/detached.rs"]
mod detached;
#[path = "gateway/extensions.rs"]
mod extensions;
#[path = "gateway/fake.rs"]
mod fake;
#[path = "gateway/flight.rs"]
mod flight;
#[path = "gateway/health.rs"]
mod health;
#[path = "gateway/item_backends.rs"]
mod item_backends;
#[path = "gateway/long.rs"]
mod long;
#[path = "gateway/own.rs"]
mod own;
#[path = "gateway/own_sessions.rs"]
mod own_sessions;
#[path = "gateway/random.rs"]
mod random;
#[path = "gateway/script.rs"]
mod script;
#[path = "gateway/shutdown.rs"]
mod shutdown;
#[path = "gateway/tasks.rs"]
mod tasks;

//! Tests of the whole service with fake backends.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail as tests do")]

mod admission;
mod answers;
mod apps;
mod catalogs;
mod cells;
mod composites;
mod detached;
mod extensions;
mod fake;
mod flight;
mod health;
mod item_backends;
mod long;
mod own;
mod own_sessions;
mod random;
mod replicas;
mod responses;
mod script;
mod sealed_sessions;
mod shared_sessions;
mod shutdown;
mod tasks;
mod tool_search;

//! Bridges between the protocol generations of clients and backends.
//!
//! Each pair of client and backend generations has its own file; the other modules are shared by them.

pub(crate) mod call_stream;
pub(crate) mod relay;
pub(crate) mod stateful_to_stateful;
pub(crate) mod stateful_to_stateless;
pub(crate) mod stateless_to_stateful;
pub(crate) mod stateless_to_stateless;
pub(crate) mod suspended_calls;

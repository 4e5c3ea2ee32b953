//! Event loops of connections: worker threads, the activity of a connection, the timer of request heads, and a filter of needless wake-ups.
//!
//! Each part replaces something of tokio or hyper for the sake of speed alone. The benchmark for all of them is the CPU time
//! per request in the rows `call` of `vmcp-bench`, with one thread and with several for the workers: compare it with and
//! without the part before a change.

mod activity;
mod head_timer;
mod wake_filter;
mod worker_pool;

pub(crate) use self::activity::Activity;
pub(crate) use self::head_timer::{HEAD_TIMEOUT, HeadTimer};
pub use self::wake_filter::QuietBody;
pub(crate) use self::wake_filter::drive;
pub(crate) use self::worker_pool::WorkerPool;

#![doc = include_str!("../README.md")]

mod allowed_hosts;
mod catch_panic;
mod concurrency_limit;
mod cors;
mod host_port;

pub use vmcp_core::Rejection;

pub use self::{
    allowed_hosts::{AllowedHosts, AllowedHostsFuture, AllowedHostsLayer},
    catch_panic::{CatchPanic, CatchPanicFuture, CatchPanicLayer},
    concurrency_limit::{ConcurrencyLimit, ConcurrencyLimitFuture, ConcurrencyLimitLayer},
};

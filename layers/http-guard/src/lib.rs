#![doc = include_str!("../README.md")]

mod allowed_hosts;
mod catch_panic;
mod concurrency_limit;
mod host_port;

pub use self::{
    allowed_hosts::{AllowedHosts, AllowedHostsLayer},
    catch_panic::{CatchPanic, CatchPanicLayer},
    concurrency_limit::{ConcurrencyLimit, ConcurrencyLimitLayer},
};

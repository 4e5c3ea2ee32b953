//! Small layers that stand before the message is read.

mod crowd;
mod hosts;
mod panic;
mod place;

pub use self::{
    crowd::{Crowd, CrowdLayer},
    hosts::{Hosts, HostsLayer},
    panic::{CatchPanic, CatchPanicLayer},
};

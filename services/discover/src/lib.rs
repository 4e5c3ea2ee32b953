#![doc = include_str!("../README.md")]

mod directory;
mod discovered;
mod discovery;
mod members;
mod stores;

pub use self::{
    discovered::{Discovered, DiscoveryProblem, DiscoveryState, Unlisted},
    discovery::{Discovery, Target},
};

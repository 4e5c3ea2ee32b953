#![doc = include_str!("../README.md")]

mod directory;
mod discovered;
mod discovery;
mod stores;

pub use self::{
    discovered::Discovered,
    discovery::{Discovery, Target},
};

#![doc = include_str!("../README.md")]

mod discovery;
mod fetch;
mod lifetime;
mod source;

#[cfg(test)]
mod testing;

pub use self::{discovery::SourceError, source::JwksSource};

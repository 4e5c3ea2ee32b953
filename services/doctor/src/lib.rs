#![doc = include_str!("../README.md")]

mod challenge;
mod client;
mod examine;
mod issuer;
mod registration;
mod report;
mod resource;
mod web;

pub use self::challenge::{Bearer, bearer};
pub use self::client::Client;
pub use self::examine::examine;
pub use self::report::{Outcome, Report, Step};

#[cfg(test)]
mod tests;

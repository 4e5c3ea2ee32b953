#![doc = include_str!("../README.md")]

mod authorization_server;
mod challenge;
mod client;
mod examine;
mod exchange;
mod registration;
mod report;
mod resource;

pub use self::challenge::{BearerChallenge, parse_bearer_challenge};
pub use self::client::Client;
pub use self::examine::examine;
pub use self::report::{Outcome, Report, Step};

#[cfg(test)]
mod tests;

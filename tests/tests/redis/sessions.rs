//! Sessions of clients in Redis.

mod contract;
mod fixtures;

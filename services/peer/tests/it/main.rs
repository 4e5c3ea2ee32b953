//! Requests between replicas over sockets of the loopback interface.

#![allow(clippy::unwrap_used)]

mod attacks;
mod forwarding;
mod frozen;
mod proxy;
mod replica;

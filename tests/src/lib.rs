#![doc = include_str!("../README.md")]

pub mod authority;
pub mod backends;
pub mod caller;
pub mod counterparts;
pub mod fixture;
pub mod load_balancer;
pub mod login_steps;
pub mod round_robin;

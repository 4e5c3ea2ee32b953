#![doc = include_str!("../README.md")]

pub mod cli;
pub mod guard;
pub mod parts;
mod routes;
pub mod serve;
pub mod stack;

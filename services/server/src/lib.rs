#![doc = include_str!("../README.md")]

pub mod cli;
mod demo;
pub mod guard;
mod old_clients;
pub mod parts;
mod routes;
pub mod serve;
pub mod stack;

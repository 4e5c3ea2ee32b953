#![doc = include_str!("../README.md")]

mod id;
mod memory;

pub use self::{
    id::SessionId,
    memory::{Full, Opened, Sessions},
};

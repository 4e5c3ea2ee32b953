#![doc = include_str!("../README.md")]

mod id;
mod sessions;

pub use self::{
    id::SessionId,
    sessions::{NewSession, SessionLimitError, Sessions},
};

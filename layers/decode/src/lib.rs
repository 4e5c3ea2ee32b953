#![doc = include_str!("../README.md")]

mod classify;
mod layer;
mod media;
pub mod name;
mod read;
mod service;

pub use self::{layer::DecodeLayer, service::Decode};

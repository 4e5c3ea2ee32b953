#![doc = include_str!("../README.md")]

mod backend;
mod call;
mod catalog;
mod client;
mod detached;
mod dispatch;
mod expiry;
mod extensions;
mod gateway;
mod hearing;
mod hello;
mod hub;
mod kept;
mod listen;
mod lists;
mod mixed;
mod park;
mod rebuild;
mod relay;
mod seal;
mod session;
pub mod settings;
mod shared;
pub mod status;
mod stream;
mod tasks;
mod views;
mod watchers;

pub use self::{
    catalog::{Conflict, HideRule},
    gateway::{Gateway, ResponseFuture},
    hearing::Admissions,
    seal::{RandomError, Seal},
};

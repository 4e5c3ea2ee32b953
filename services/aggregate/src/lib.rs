#![doc = include_str!("../README.md")]

mod backend;
mod backend_events;
mod bridge;
mod cache;
mod call;
mod capabilities;
mod catalog;
mod client_messages;
mod dispatch;
mod event_stream;
mod expiry;
mod gateway;
mod gateway_state;
mod initialize;
mod lists;
mod notify;
mod rebuild;
mod response;
mod seal;
mod session;
pub mod settings;
pub mod status;
mod stream;
mod sync;
mod tasks;

pub use self::{
    catalog::{Conflict, HideRule},
    gateway::{Gateway, ResponseFuture},
    notify::authorizer::NotificationAuthorizer,
    seal::{RandomError, Seal},
};

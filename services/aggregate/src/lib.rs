#![doc = include_str!("../README.md")]

mod authorizer;
mod backend;
mod bridge;
mod cache;
mod call;
mod capabilities;
mod catalog;
mod catalog_store;
mod composite;
mod dispatch;
mod event_stream;
mod expiry;
mod gateway;
mod list_source;
mod notify;
mod replicas;
mod response;
mod seal;
mod session;
pub mod settings;
mod snapshot;
pub mod status;
mod stream;
mod tasks;
mod tool_search;
mod workflow_runs;

pub use self::{
    authorizer::{CallerAccess, CallerAuthorizer},
    catalog::{Conflict, HideRule},
    gateway::{Gateway, ResponseFuture},
};

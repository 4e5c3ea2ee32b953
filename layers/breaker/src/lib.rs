#![doc = include_str!("../README.md")]

pub mod health;

mod body;
mod breaker;
mod circuit;
mod classify;
mod layer;
mod service;

pub use vmcp_core::{Backend, BoxError, Clock};

pub use self::{
    body::ResponseBody,
    breaker::{Breaker, Changes, Open, Permit, Status},
    circuit::{Circuit, Settings, SettingsError, State, Ticket},
    classify::{Class, Classify, Seen, Standard},
    layer::BreakerLayer,
    service::{Guarded, ResponseFuture},
};

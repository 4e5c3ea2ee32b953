#![doc = include_str!("../README.md")]

mod body;
mod idle_timer;
mod layer;
mod service;
mod timeout_control;
mod timer_pool;

pub use vmcp_core::{Backend, BoxError};

pub use self::{
    body::ResponseBody,
    layer::TimeoutLayer,
    service::{Elapsed, ResponseFuture, Timeout},
    timeout_control::{PauseGuard, TimeoutControl},
};

#![doc = include_str!("../README.md")]

mod body;
mod clock;
mod hold;
mod idle;
mod layer;
mod service;

pub use vmcp_core::{Backend, BoxError};

pub use self::{
    body::ResponseBody,
    hold::{Hold, Pause},
    layer::TimeoutLayer,
    service::{Elapsed, ResponseFuture, Timeout},
};

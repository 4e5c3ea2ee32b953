#![doc = include_str!("../README.md")]

pub mod health;

mod body;
mod classifier;
mod handle;
mod layer;
mod service;
mod state_machine;

pub use vmcp_core::{Backend, BoxError, Clock};

pub use self::{
    body::ResponseBody,
    classifier::{CallResult, Classifier, DefaultClassifier, Outcome},
    handle::{CircuitHandle, CircuitOpen, CircuitStatus, Permit, StateChanges},
    layer::CircuitBreakerLayer,
    service::{CircuitBreaker, ResponseFuture},
    state_machine::{CircuitSettings, CircuitSettingsError, CircuitState, StateMachine, Token},
};

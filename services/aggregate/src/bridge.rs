//! Bridges between the protocol generations of clients and backends.
//!
//! Each pair of client and backend generations has its own file; the other modules are shared by them.

pub(crate) mod call_stream;
pub(crate) mod notifications;
mod relay;
mod stateful_to_stateful;
mod stateful_to_stateless;
mod stateless_to_stateful;
pub(crate) mod stateless_to_stateless;
pub(crate) mod suspended_calls;

use std::sync::Arc;
use std::time::Duration;

use http::Response;
use vmcp_core::{Body, BoxError, Generation, NotSentError, Rejection};

use self::suspended_calls::SuspendedCalls;
use crate::backend::error::is_mode_mismatch;
use crate::backend::handshake;
use crate::call::{Call, CallTarget, app, failed};
use crate::session::stateless_sessions::StatelessSessions;

/// Forwarding of requests to backends, with what is kept between the requests of stateless clients.
#[derive(Debug)]
pub(crate) struct Bridge {
    pub(crate) sessions: StatelessSessions,
    pub(crate) suspended_calls: SuspendedCalls,
    /// Timeout of a suspended call.
    pub(crate) suspension_timeout: Duration,
}

impl Bridge {
    /// Forwards a request that names its target.
    pub(crate) async fn forward(
        self: &Arc<Self>,
        call: Arc<Call>,
        method: &'static str,
    ) -> Result<Response<Body>, Rejection> {
        let target = Arc::new(CallTarget::find(&call, method).await?);
        let backend = &target.backend;
        if let Some(request_context) = &call.request_context {
            request_context.record_backend(&backend.tag);
        }
        let alias = target.alias.as_ref().map(|known| (known, Arc::clone(&call)));
        let answered = match call.backend_generation(backend).await {
            Ok(generation) => self.try_both(call, &target, generation).await,
            Err(error) => Err(NotSentError::new(error).into()),
        };
        let response = answered.unwrap_or_else(|error| {
            failed(backend, &error);
            Err(target.rejection(&error))
        })?;
        let Some((known, call)) = alias else { return Ok(response) };
        Box::pin(app::rename_contents(response, &target, known, &call)).await
    }

    /// Calls the backend in its last known generation and, if the backend has changed since, once more in the current one. This
    /// is not a repetition: the rejected request was not processed.
    async fn try_both(
        self: &Arc<Self>,
        call: Arc<Call>,
        target: &Arc<CallTarget>,
        generation: Generation,
    ) -> Result<Result<Response<Body>, Rejection>, BoxError> {
        let error = match self.exchange(Arc::clone(&call), Arc::clone(target), generation).await {
            Err(error) if is_mode_mismatch(&error) => error,
            answered => return answered,
        };
        let client_info = call.context.catalogs.client_info();
        let backend = &target.backend;
        let client_info = client_info.before(backend, &call.caller).caused_by(call.cause());
        let Ok((modes, _)) = Box::pin(handshake::probe(backend, client_info)).await else {
            return Err(error);
        };
        if backend.modes() != Some(modes) {
            backend.set_modes(modes);
            // The offer was fetched in the previous generation.
            backend.reconnect.notify_waiters();
        }
        let now = modes.with(call.message.generation);
        if now == generation {
            Err(error)
        } else {
            Box::pin(self.exchange(call, Arc::clone(target), now)).await
        }
    }

    async fn exchange(
        self: &Arc<Self>,
        call: Arc<Call>,
        target: Arc<CallTarget>,
        backend: Generation,
    ) -> Result<Result<Response<Body>, Rejection>, BoxError> {
        if target.decided.is_some_and(|decided| decided != backend) {
            return Ok(Err(call.outdated(&target.backend)));
        }
        match (call.session.clone(), backend) {
            (Some(session), Generation::Stateful) => {
                stateful_to_stateful::call(call, session, target).await
            }
            (Some(session), Generation::Stateless) => {
                Box::pin(stateful_to_stateless::call(call, session, target)).await
            }
            (None, Generation::Stateless) => stateless_to_stateless::call(call, target).await,
            (None, Generation::Stateful) => {
                Box::pin(stateless_to_stateful::call(self, call, target)).await
            }
        }
    }
}

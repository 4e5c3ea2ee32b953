//! Calls of tools by the steps of a workflow: requests of the caller that the gateway makes itself.

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::HeaderMap;
use tower_service::Service;
use vmcp_compose::{CallError, CallErrorKind, StepIdentity, ToolCall, ToolOutcome};
use vmcp_core::{McpRequest, Rejection, code};
use vmcp_wire::{Key, Member, RawStr, members, scan, write_json_string};

use super::CompositeCall;
use super::latest_call::LatestCall;
use super::observe::CallObserver;
use super::step_access::{StepAccess, StepAccessError};
use super::step_result::{read_response, to_outcome, unanswerable};
use crate::call::{Call, Origin};
use crate::stream::Stream;

/// Member of `_meta` with the key that is the same for each attempt of a step.
const STEP_KEY: &str = "vmcp.dev/stepKey";

/// Explanation of a step that the caller may not perform any more.
const RELOADED: &str = "the configuration was reloaded during the run";

/// Error of a step whose composite tool is not configured any more.
const CHANGED: &str =
    "a reload changed or removed the composite tool during the run: call it again";

/// Members of a stateless client's `_meta` that a step must not repeat.
const CLIENT_META: [&str; 2] = ["progressToken", "io.modelcontextprotocol/clientCapabilities"];

/// Tower service that calls tools for the steps of one run.
#[derive(Clone)]
pub(super) struct StepCalls {
    composite: CompositeCall,
    /// Latest request about the task of the run, if it is one.
    latest: Option<Arc<LatestCall>>,
    stream: Arc<Stream>,
    observer: Arc<CallObserver>,
}

/// Source of the error of a step that the caller may not perform. The call of the composite tool is rejected like it.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.message())]
pub(super) struct StepDenial(pub(super) Rejection);

impl StepCalls {
    pub(super) fn new(
        composite: &CompositeCall,
        stream: &Arc<Stream>,
        observer: &Arc<CallObserver>,
    ) -> Self {
        Self {
            composite: composite.clone(),
            latest: None,
            stream: Arc::clone(stream),
            observer: Arc::clone(observer),
        }
    }

    /// Creates the service for a task, whose steps use the owner's latest request.
    pub(super) fn of_task(
        composite: &CompositeCall,
        latest: &Arc<LatestCall>,
        stream: &Arc<Stream>,
        observer: &Arc<CallObserver>,
    ) -> Self {
        Self { latest: Some(Arc::clone(latest)), ..Self::new(composite, stream, observer) }
    }

    async fn perform(mut self, tool: ToolCall) -> Result<ToolOutcome, CallError> {
        if let Some(latest) = &self.latest {
            self.composite = latest.authorized().await;
        }
        let place = self.composite.call.session.as_ref().map(|it| it.streams().step_place());
        let _place = match place {
            Some(place) => Some(place.await),
            None => None,
        };
        let access = StepAccess::of(&self.composite).await.map_err(|error| match error {
            StepAccessError::Rejected(rejection) => self.rejected(rejection, false),
            StepAccessError::Reconfigured => CallError::new(CallErrorKind::UnknownTool, CHANGED),
        })?;
        let step = Arc::new(self.step_call(&tool, &access)?);
        let admitted = access.admit_composite(&self.composite, &step);
        let rejected = |rejection| self.rejected(rejection, access.is_reloaded);
        admitted.map_err(rejected)?;
        let forwarded =
            Box::pin(self.composite.bridge.forward(Arc::clone(&step), "tools/call")).await;
        self.keep_mark(&step);
        let response = forwarded.map_err(rejected)?;
        let message = read_response(&step, response, &self.stream).await?;
        to_outcome(&step, &message)
    }

    /// Leaves the mark of a new backend session to the result of the composite tool.
    fn keep_mark(&self, step: &Call) {
        let at_backend = step.active.get().and_then(|active| active.backend_cancellation());
        if let Some(cancellation) = at_backend.filter(|it| it.slot.open().is_some()) {
            self.composite.marks.add(&cancellation.slot);
        }
    }

    /// Builds the request of a step.
    fn step_call(&self, tool: &ToolCall, access: &StepAccess) -> Result<Call, CallError> {
        let call = &self.composite.call;
        let name = access.tool_name(&self.composite, &tool.tool).ok_or_else(|| {
            CallError::new(CallErrorKind::UnknownTool, format!("no backend has {}", tool.tool))
        })?;
        let invalid = |problem: String| CallError::new(CallErrorKind::InvalidArguments, problem);
        let bytes = message(call, name, tool).map_err(|it| invalid(it.to_string()))?;
        let envelope = scan(&bytes).map_err(|error| invalid(error.to_string()))?;
        Ok(Call {
            context: Arc::clone(&call.context),
            snapshot: Arc::clone(&access.snapshot),
            caller: access.caller.clone(),
            session: call.session.clone(),
            message: McpRequest { bytes, envelope, generation: call.message.generation },
            headers: HeaderMap::new(),
            permissions: access.permissions.clone(),
            request_context: None,
            parent: self.observer.step_context(&tool.step.step).or(call.request_context.clone()),
            origin: Origin::Step,
            is_forwarded: false,
            auditor: None,
            address: call.address,
            active: OnceLock::new(),
            reservations: Mutex::default(),
        })
    }

    fn rejected(&self, rejection: Rejection, is_reloaded: bool) -> CallError {
        let kind = match rejection.status().as_u16() {
            401 | 403 => CallErrorKind::Denied,
            429 => CallErrorKind::TooManyRequests,
            504 => CallErrorKind::Timeout,
            502 | 503 => CallErrorKind::Transport,
            _ if rejection.code() == code::INVALID_PARAMS => CallErrorKind::UnknownTool,
            _ if rejection.code() == code::MISSING_CAPABILITY => CallErrorKind::InputRequired,
            _ if rejection.code() == code::FORBIDDEN => CallErrorKind::Denied,
            _ => CallErrorKind::ServerError,
        };
        let rejection = match kind {
            CallErrorKind::Denied | CallErrorKind::UnknownTool if is_reloaded => {
                rejection.with_detail(RELOADED)
            }
            CallErrorKind::InputRequired => {
                rejection.with_detail(unanswerable(&self.composite.call))
            }
            _ => rejection,
        };
        let error = CallError::new(kind, rejection.message());
        if kind == CallErrorKind::Denied { error.with_source(StepDenial(rejection)) } else { error }
    }
}

impl Service<ToolCall> for StepCalls {
    type Response = ToolOutcome;
    type Error = CallError;
    type Future = BoxFuture<'static, Result<ToolOutcome, CallError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), CallError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, tool: ToolCall) -> Self::Future {
        self.clone().perform(tool).boxed()
    }
}

impl fmt::Debug for StepCalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StepCalls").field("name", &self.composite.name).finish_non_exhaustive()
    }
}

/// Builds the message of a step. Its id is unique in the session, since it names run and attempt.
fn message(call: &Call, name: &str, tool: &ToolCall) -> Result<Bytes, serde_json::Error> {
    let ToolCall { tool: _, arguments, step } = tool;
    let (key, StepIdentity { attempt, .. }) = (step.idempotency_key(), step);
    let mut message = br#"{"jsonrpc":"2.0","id":"#.to_vec();
    write_json_string(&format!("{key}#{attempt}"), &mut message);
    message.extend_from_slice(br#","method":"tools/call","params":{"name":"#);
    write_json_string(name, &mut message);
    message.extend_from_slice(br#","arguments":"#);
    serde_json::to_writer(&mut message, arguments)?;
    message.extend_from_slice(br#","_meta":{"#);
    if call.session.is_none() {
        write_client_meta(call, &mut message);
    }
    write_json_string(STEP_KEY, &mut message);
    message.push(b':');
    write_json_string(&key, &mut message);
    message.extend_from_slice(b"}}}");
    Ok(message.into())
}

/// Writes the members of a stateless client's `_meta`, each with a comma, without its capabilities: a step cannot pass requests
/// on to the client.
fn write_client_meta(call: &Call, message: &mut Vec<u8>) {
    let is_own = |key: RawStr<'_>| key.is(STEP_KEY) || CLIENT_META.iter().any(|name| key.is(name));
    let meta = call.message.param(Key::Meta).unwrap_or(b"{}");
    for Member { key, value, .. } in members(meta).filter(|member| !is_own(member.key)) {
        message.extend_from_slice(key.raw());
        message.push(b':');
        message.extend_from_slice(value);
        message.push(b',');
    }
    write_json_string(CLIENT_META[1], message);
    message.extend_from_slice(b":{},");
}

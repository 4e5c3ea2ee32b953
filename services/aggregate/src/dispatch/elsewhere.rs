//! Streams that another replica has.

use std::sync::Arc;

use http::request;
use vmcp_core::Caller;
use vmcp_peer::{Forwarded, ReplicaHandle};

use super::session_requests::address;
use super::{DispatchOutcome, Dispatcher};
use crate::backend::request::LAST_EVENT;
use crate::replicas::{ForwardKind, ForwardedRequest, adapt};
use crate::session::replica_of;
use crate::session::store::SessionAccess;
use crate::stream::parse_id;

const GONE: &str =
    "Last-Event-ID names a stream that was lost with its replica: open one without it";

impl Dispatcher {
    /// Returns the other replica that has the stream which a request resumes.
    pub(super) fn elsewhere(&self, parts: &request::Parts) -> Option<ReplicaHandle> {
        if parts.extensions.get::<Forwarded>().is_some() {
            return None;
        }
        let (stream, _) = parse_id(parts.headers.get(LAST_EVENT)?.to_str().ok()?)?;
        self.context.replicas.other(replica_of(stream)?)
    }

    /// Resumes a stream at the replica that has it.
    pub(super) fn resume_elsewhere(
        self: &Arc<Self>,
        (parts, caller): (request::Parts, Caller),
        access: SessionAccess,
        replica: ReplicaHandle,
    ) -> DispatchOutcome {
        let this = Arc::clone(self);
        DispatchOutcome::Deferred(Box::pin(async move {
            let resumed = async {
                this.session(access, &caller, address(&parts)).await?;
                let request = ForwardedRequest::of_stream(&parts.headers, &caller, address(&parts));
                let replicas = &this.context.replicas;
                adapt(replicas.forward(ForwardKind::Resumption, &replica, request).await, GONE)
            };
            resumed.await.unwrap_or_else(|rejection| rejection.into_response(None))
        }))
    }
}

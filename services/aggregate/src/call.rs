//! Requests that one backend answers: routed by name, forwarded with as few bytes changed as possible.
//!
//! Each pair of generations has its own file. What they have in common is here: who is asked, and
//! what the request looks like in the backend's own names.

pub(crate) mod answer;
mod app;
mod cancellation;
mod complete;
mod route;
mod session_to_session;
mod session_to_stateless;
mod stateless_to_session;
mod stateless_to_stateless;

use std::net::IpAddr;
use std::sync::{Arc, Mutex, OnceLock};

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::Full;
use vmcp_core::{
    Admission, Body, BoxError, BudgetAccount, Caller, Generation, McpRequest, NotSent, Operation,
    Rejection, Reservation, Trail, cause,
};
use vmcp_timeout::Elapsed;

use self::answer::Holder;
pub(crate) use self::answer::result;
pub(crate) use self::cancellation::{Cancellation, SESSION_ENDED, message as cancellation, reason};
pub(crate) use self::complete::complete;
pub(crate) use self::route::Target;
pub(crate) use self::session_to_session::event_stream;
pub(crate) use self::session_to_stateless::needed;
pub(crate) use self::stateless_to_stateless::bridged;
use crate::backend::events::Events;
use crate::backend::failure::Failure;
use crate::backend::{Link, handshake};
use crate::catalog::{ByGeneration, Kind};
use crate::detached::Departure;
use crate::hub::{Everything, Hub, Snapshot};
use crate::mixed::Seen;
use crate::session::{Session, lock};

/// A request of a client, and everything that answering it may need.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) hub: Arc<Hub>,
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) caller: Caller,
    /// `None` for stateless clients.
    pub(crate) session: Option<Arc<Session>>,
    pub(crate) message: McpRequest,
    pub(crate) headers: HeaderMap,
    /// What the caller may see and do; everything without it.
    pub(crate) admission: Option<Admission>,
    pub(crate) trail: Option<Trail>,
    /// The address that it came from, if that is known.
    pub(crate) address: Option<IpAddr>,
    /// Set when the client of a session leaves before it is answered.
    pub(crate) departure: OnceLock<Departure>,
    /// Counts of answers that are held until the response is sent.
    pub(crate) held: Mutex<Vec<Reservation>>,
}

impl Holder for Call {
    fn account(&self) -> Option<BudgetAccount> {
        self.account()
    }

    fn hold(&self, count: Reservation) {
        self.hold(count);
    }
}

/// Whether a failure may come of speaking the wrong generation to a backend. All of these say that
/// the request was not begun.
pub(crate) fn doubtful(error: &BoxError) -> bool {
    matches!(
        cause::<Failure>(error.as_ref()),
        Some(Failure::Generation | Failure::Revision | Failure::Handshake { .. })
    )
}

/// Notes that a client's request to a backend failed.
pub(crate) fn failed(link: &Link, error: &BoxError) {
    tracing::debug!(backend = link.name(), %error, "a call failed");
    // The catalog may be another one. A backend that is slow still has the same, and that it answers a list says nothing of
    // its calls.
    if cause::<Elapsed>(error.as_ref()).is_none() {
        link.nudge();
    }
}

impl Call {
    /// What requests to backends say that they are made for, if anybody wants to know.
    pub(crate) fn cause(&self) -> Option<&Trail> {
        self.trail.as_ref().filter(|trail| trail.is_watched())
    }

    /// Has a request to the target's backend say what it asks for, if anybody wants to know.
    fn tell(&self, target: &Target, request: &mut Request<Full<Bytes>>) {
        if let Some(trail) = self.cause() {
            let operation = Operation::new(target.method).named(target.literal.clone());
            request.extensions_mut().insert(operation.caused_by(trail.clone()));
        }
    }

    /// Passes on that a stateless backend has another list: to all clients, when the catalog has it.
    fn list_changed(&self, target: &Target, kind: Kind) {
        let caller = self.caller.identity();
        match &target.link.own {
            Some(owns) => {
                owns.changed(caller);
                self.hub.tell_caller(caller, &ByGeneration::both(vec![kind]));
            }
            None => target.link.list_changed(kind, Generation::Stateless),
        }
    }

    /// The account of the caller in the budget of the process, if that has one.
    pub(crate) fn account(&self) -> Option<BudgetAccount> {
        self.hub.process_account(self.caller.identity(), self.address)
    }

    /// Holds the count of an answer until the response is sent.
    pub(crate) fn hold(&self, count: Reservation) {
        lock(&self.held).push(count);
    }

    /// Holds the count of the event that was read last.
    pub(crate) fn hold_event(&self, events: &mut Events) {
        if let Some(count) = events.take_reservation() {
            self.hold(count);
        }
    }

    /// Takes the counts of the answers that are held.
    pub(crate) fn take_held(&self) -> Vec<Reservation> {
        std::mem::take(&mut *lock(&self.held))
    }

    /// Returns the response with the counts of the answers that are held for it.
    pub(crate) fn counted(&self, response: Response<Body>) -> Response<Body> {
        let held = self.take_held();
        if held.is_empty() {
            return response;
        }
        let attach = |bytes, count: Reservation| count.attach(bytes);
        // A stream counts by itself.
        response.map(|body| body.map_longest(|bytes| held.into_iter().fold(bytes, attach)))
    }

    /// When the client left, if it did before it was answered.
    pub(crate) fn departure(&self) -> Option<&Departure> {
        self.departure.get()
    }

    /// Notes that the client left. Whether the request may go on: it is one of a session, which has not too many that do.
    pub(crate) fn detach(&self) -> bool {
        let account = self.session.as_ref().map(|it| it.account(&self.hub));
        let departure = account.as_ref().and_then(Departure::new);
        departure.is_some_and(|departure| self.departure.set(departure).is_ok())
    }

    /// The client's id for the request, as JSON.
    pub(crate) fn id(&self) -> Bytes {
        self.message.id().map(|id| self.message.bytes.slice_ref(id)).unwrap_or_default()
    }

    /// The message that ends the stream of a call that failed. Its code is noted in the record of the request.
    pub(crate) fn failure(&self, rejection: &Rejection) -> Bytes {
        if let Some(trail) = &self.trail {
            trail.note_error(rejection.code().into());
        }
        rejection.to_json(Some(&self.id()))
    }

    /// The generation that the client speaks.
    pub(crate) fn generation(&self) -> Generation {
        self.message.generation
    }

    /// What the caller is offered, with what is still on its way.
    pub(crate) async fn offered(&self) -> Result<Arc<Everything>, Rejection> {
        let (_, seen) = self.seen().await?;
        Ok(Arc::clone(seen.catalogs.of(self.generation())))
    }

    /// The same, with what is missing of it, and the configuration that it is of.
    pub(crate) async fn seen(&self) -> Result<(Arc<Snapshot>, Seen), Rejection> {
        let snapshot = self.hub.settled(&self.snapshot).await;
        let seen = if snapshot.per_caller {
            self.hub.seen_by(&snapshot, &self.caller, self.cause()).await
        } else {
            Some(Seen { catalogs: snapshot.catalogs(), missing: Vec::new() })
        };
        Ok((snapshot, seen.ok_or_else(Rejection::internal)?))
    }

    /// Answers a request that names what it is about.
    pub(crate) async fn forward(
        self: Arc<Self>,
        method: &'static str,
    ) -> Result<Response<Body>, Rejection> {
        let target = Arc::new(Target::find(&self, method).await?);
        let link = &target.link;
        if let Some(trail) = &self.trail {
            trail.note_backend(&link.backend);
        }
        let call = target.alias.as_ref().map(|_| Arc::clone(&self));
        let answered = match self.meet(link).await {
            Ok(generation) => self.try_both(Arc::clone(&target), generation).await,
            Err(error) => Err(NotSent::new(error).into()),
        };
        let response = answered.unwrap_or_else(|error| {
            failed(link, &error);
            Err(target.rejection(&error))
        })?;
        let (Some(known), Some(call)) = (&target.alias, call) else { return Ok(response) };
        Box::pin(app::rename_contents(response, &target, known, &call)).await
    }

    /// The generation to speak to a backend in; asked, if nobody has yet.
    pub(crate) async fn meet(&self, link: &Arc<Link>) -> Result<Generation, BoxError> {
        let client = self.message.generation;
        if let Some(speaks) = link.speaks() {
            return Ok(speaks.with(client));
        }
        let who = self.hub.introduction();
        let who = who.before(link, &self.caller).caused_by(self.cause());
        let (speaks, _) = Box::pin(handshake::probe(link, who)).await?;
        link.learn(speaks);
        Ok(speaks.with(client))
    }

    /// Speaks to the backend as it was known to speak; if it has changed since, once more as it
    /// speaks now. Nothing is done twice: what was refused as a whole was not begun.
    async fn try_both(
        self: Arc<Self>,
        target: Arc<Target>,
        generation: Generation,
    ) -> Result<Result<Response<Body>, Rejection>, BoxError> {
        let error = match Arc::clone(&self).exchange(Arc::clone(&target), generation).await {
            Err(error) if doubtful(&error) => error,
            answered => return answered,
        };
        let who = self.hub.introduction();
        let link = &target.link;
        let who = who.before(link, &self.caller).caused_by(self.cause());
        let Ok((speaks, _)) = Box::pin(handshake::probe(link, who)).await else {
            return Err(error);
        };
        if link.speaks() != Some(speaks) {
            link.learn(speaks);
            // What it offers was fetched as it spoke before.
            link.renew.notify_waiters();
        }
        let now = speaks.with(self.message.generation);
        if now == generation { Err(error) } else { Box::pin(self.exchange(target, now)).await }
    }

    /// Refuses a call that policies decided for the other generation of its backend, and has its offer fetched again.
    pub(crate) fn outdated(&self, link: &Link) -> Rejection {
        match &link.own {
            Some(owns) => owns.changed(self.caller.identity()),
            None => link.renew.notify_waiters(),
        }
        let problem =
            "speaks another generation of MCP than when it said what it offers: try again";
        Rejection::backend_unavailable(link.name(), problem)
    }

    async fn exchange(
        self: Arc<Self>,
        target: Arc<Target>,
        backend: Generation,
    ) -> Result<Result<Response<Body>, Rejection>, BoxError> {
        if target.decided.is_some_and(|decided| decided != backend) {
            return Ok(Err(self.outdated(&target.link)));
        }
        match (self.session.clone(), backend) {
            (Some(session), Generation::Stateful) => {
                session_to_session::call(self, session, target).await
            }
            (Some(session), Generation::Stateless) => {
                Box::pin(session_to_stateless::call(self, session, target)).await
            }
            (None, Generation::Stateless) => stateless_to_stateless::call(self, target).await,
            (None, Generation::Stateful) => {
                Box::pin(stateless_to_session::call(self, target)).await
            }
        }
    }
}

//! Stateful client, stateful backend: the call goes into the client's own session there, and what
//! the backend says meanwhile comes back on the call's stream.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use http_body_util::{BodyExt, Limited};
use tokio::time::sleep;
use vmcp_core::{Body, BoxError, Generation, LATEST_STATEFUL, Rejection};
use vmcp_timeout::Hold;
use vmcp_wire::{Envelope, find, scan};

use super::answer::{self, Expected, Shaped};
use super::live_on::LiveOn;
use super::{Call, Target};
use crate::backend::ask::{Media, media, status};
use crate::backend::events::Events;
use crate::backend::failure::{Failure, rejection};
use crate::backend::handshake::Live;
use crate::backend::request::{asking, listen, post};
use crate::relay::{Relay, Step};
use crate::session::{Running, RunningGuard, Session, Upstream};
use crate::stream::{Class, Opening, Stream};

/// How often one answer may be resumed after the backend ended its stream.
const MOST_RESUMPTIONS: usize = 100;

/// The largest body of a refusal that is read to the end.
const REFUSAL: usize = 64 << 10;

pub(crate) async fn call(
    call: Arc<Call>,
    session: Arc<Session>,
    target: Arc<Target>,
) -> Result<Result<Response<Body>, Rejection>, BoxError> {
    let upstream = session.upstream(&target.link);
    let id = call.id();
    let running = Running { id: id.clone(), upstream: Arc::clone(&upstream), cancelled: None };
    let Some(guard) = session.run(running) else {
        return Ok(Err(Rejection::overloaded(
            "too many requests of this session are under way",
            1,
        )));
    };
    let hold = Hold::new();
    let exchange = Exchange { call, session, upstream, target, id, hold };
    for last in [false, true] {
        let (live, response) = exchange.send().await?;
        match exchange.shape(live, response, last).await? {
            Outcome::Answered(response) => return Ok(Ok(response)),
            Outcome::Streams(streaming) => return Ok(exchange.stream(streaming, guard)),
            Outcome::SessionLost => {}
        }
    }
    Err(Failure::SessionGone.into())
}

struct Exchange {
    call: Arc<Call>,
    session: Arc<Session>,
    upstream: Arc<Upstream>,
    target: Arc<Target>,
    id: Bytes,
    hold: Hold,
}

#[expect(clippy::large_enum_variant, reason = "it lives for one match; boxing costs more")]
enum Outcome {
    Answered(Response<Body>),
    Streams(Streaming),
    /// The backend has forgotten the session and done nothing: worth one more try with a new one.
    SessionLost,
}

/// A stream that began with something else than the answer.
struct Streaming {
    live: Arc<Live>,
    events: Events,
    first: Option<Bytes>,
}

impl Exchange {
    async fn send(&self) -> Result<(Arc<Live>, Response<Body>), BoxError> {
        let level = self.session.level();
        let who = self.session.introduction(&self.call.caller).caused_by(self.call.cause());
        let live = self.upstream.live(who, level.as_deref()).await?;
        crate::listen::follow(&self.call.hub, &self.session, &self.upstream);
        let link = &self.target.link;
        let mut request = live.sign(post(link, &self.call.caller, self.target.message.clone()));
        request.extensions_mut().insert(self.hold.clone());
        self.call.tell(&self.target, &mut request);
        let response = LiveOn::new(link.begin(request)).await?;
        Ok((live, response))
    }

    fn expected(&self) -> Expected {
        Expected {
            id: self.id.clone(),
            client_id: self.id.clone(),
            client: Generation::Stateful,
            backend: Generation::Stateful,
            cacheable: false,
            may_ask: false,
            most: self.call.hub.limits.held_bytes,
        }
    }

    async fn shape(
        &self,
        live: Arc<Live>,
        response: Response<Body>,
        last: bool,
    ) -> Result<Outcome, BoxError> {
        let (code, kind) = (response.status(), media(response.headers()));
        let body = response.into_body();
        if matches!(code, StatusCode::NOT_FOUND | StatusCode::BAD_REQUEST) && live.can_end() {
            let refusal = Box::pin(Limited::new(body, REFUSAL).collect()).await?.to_bytes();
            if !last && forgotten(code, &refusal) {
                self.upstream.gone(&live);
                return Ok(Outcome::SessionLost);
            }
            if kind != Media::Json {
                return Err(status(code).into());
            }
            return ready(answer::whole(code, refusal, &self.expected())?);
        }
        match kind {
            Media::Json => ready(answer::json(code, body, &self.expected()).await?),
            // Boxed: what reads events is larger than everything else that a call needs.
            Media::Events => {
                let events = Events::new(body, self.call.hub.limits.held_bytes);
                Box::pin(self.begin(live, events)).await
            }
            Media::Other if code.is_success() => Err(Failure::ContentType.into()),
            Media::Other => Err(status(code).into()),
        }
    }

    /// Looks at how a stream begins: most consist of the answer alone, which needs no stream.
    async fn begin(&self, live: Arc<Live>, mut events: Events) -> Result<Outcome, BoxError> {
        let first = loop {
            if let Some(event) = events.buffered() {
                break Some(event?.data);
            }
            // An id without data: the backend means to be resumed.
            if events.last_id().is_some() {
                break None;
            }
            match events.chunk().await {
                Some(chunk) => chunk?,
                None => return Err(Failure::Ended.into()),
            }
        };
        if let Some(message) = &first
            && let Ok(Envelope::Answer { .. }) = scan(message)
        {
            return ready(answer::whole(StatusCode::OK, message.clone(), &self.expected())?);
        }
        Ok(Outcome::Streams(Streaming { live, events, first }))
    }

    /// Answers with a stream that a task feeds: it goes on when the client's connection breaks.
    fn stream(
        self,
        streaming: Streaming,
        guard: RunningGuard,
    ) -> Result<Response<Body>, Rejection> {
        let (stream, response) = answering_stream(&self.session)?;
        let session = Arc::clone(&self.session);
        let feeding = tokio::spawn(async move { self.feed(streaming, stream, guard).await });
        session.talk().own(feeding.abort_handle());
        Ok(response)
    }

    async fn feed(self, streaming: Streaming, stream: Arc<Stream>, _guard: RunningGuard) {
        let Streaming { live, mut events, mut first } = streaming;
        let relay = Relay {
            hub: Arc::clone(&self.call.hub),
            session: Arc::clone(&self.session),
            upstream: Arc::clone(&self.upstream),
            live: Arc::clone(&live),
            stream: Arc::clone(&stream),
            expected: Some(self.id.clone()),
            hold: Some(self.hold.clone()),
            asker: Arc::default(),
            cause: self.call.cause().cloned(),
        };
        let mut resumptions = 0;
        let failure: Option<BoxError> = loop {
            let message = match first.take() {
                Some(message) => message,
                None => match events.next().await {
                    Some(Ok(event)) => event.data,
                    Some(Err(error)) if events.last_id().is_none() => break Some(error),
                    Some(Err(_)) | None => {
                        resumptions += 1;
                        let last = events.last_id().filter(|_| resumptions <= MOST_RESUMPTIONS);
                        let (last, retry) = (last.cloned(), events.retry());
                        match self.resume(&live, last, retry).await {
                            Ok(resumed) => {
                                events = resumed;
                                continue;
                            }
                            Err(error) => break Some(error),
                        }
                    }
                },
            };
            if relay.pass(message).await == Step::Answered {
                break None;
            }
        };
        if let Some(error) = failure {
            let refusal = rejection(self.target.link.name(), &error);
            stream.push(refusal.to_json(Some(&self.id)), Class::Kept);
        }
        stream.end();
    }

    /// Reads on where the backend's stream ended, if it said how.
    async fn resume(
        &self,
        live: &Live,
        last: Option<Bytes>,
        retry: Option<u64>,
    ) -> Result<Events, BoxError> {
        let Some(last) = last else { return Err(Failure::Ended.into()) };
        sleep(Duration::from_millis(retry.unwrap_or(1000).clamp(10, 30_000))).await;
        let link = &self.target.link;
        let request = live.sign(listen(link, &live.caller(), Some(&last)));
        let mut request = asking(request, "", self.call.cause());
        request.extensions_mut().insert(self.hold.clone());
        let response = link.send(request).await?;
        if media(response.headers()) != Media::Events || !response.status().is_success() {
            return Err(Failure::Ended.into());
        }
        Ok(Events::new(response.into_body(), self.call.hub.limits.held_bytes))
    }
}

fn ready(shaped: Shaped) -> Result<Outcome, BoxError> {
    match shaped {
        Shaped::Ready(response) => Ok(Outcome::Answered(response)),
        Shaped::InputRequired(_) => Err(Failure::Malformed("a question without a session").into()),
    }
}

/// Whether a refusal means that the session is unknown. Revision 2025-11-25 says 404; servers in use
/// answer 400 with an error that belongs to no request.
pub(crate) fn forgotten(code: StatusCode, body: &[u8]) -> bool {
    let error = match scan(body) {
        Ok(Envelope::Answer { id: None, outcome: vmcp_wire::Outcome::Error(error) }) => {
            error.of(body)
        }
        Ok(_) => return false,
        Err(_) => return code == StatusCode::NOT_FOUND,
    };
    code == StatusCode::NOT_FOUND || find(error, "code") == Some(b"-32000")
}

/// A new stream of a session, and the response that the client reads it by.
pub(crate) fn answering_stream(
    session: &Session,
) -> Result<(Arc<Stream>, Response<Body>), Rejection> {
    let Some(stream) = session.talk().open_stream() else {
        return Err(Rejection::overloaded("too many streams of this session are open", 1));
    };
    let opening =
        if session.revision == LATEST_STATEFUL { Opening::Primed } else { Opening::Plain };
    let response = event_stream(Body::wrap(stream.connect(None, opening)));
    Ok((stream, response))
}

/// A response that streams events.
pub(crate) fn event_stream(body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

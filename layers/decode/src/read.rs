//! Takes in a body within bounds of size and time.

use std::pin::{Pin, pin};
use std::time::Duration;

use bytes::{Buf, Bytes};
use http::header::CONTENT_LENGTH;
use http::{StatusCode, request};
use http_body_util::BodyExt;
use tokio::time::Instant;
use vmcp_core::{BodyBuffer, BoxError, ByteBudget, MAX_BUDGET_WAIT, Pace, Rejection, code};

use crate::DecodeLayer;

/// Time for which a rejected body is still read.
const PASS_OVER: Duration = Duration::from_secs(1);

/// All of `body`. A body that comes in one piece is not copied.
pub(crate) async fn body<B>(
    body: B,
    parts: &request::Parts,
    limits: &DecodeLayer,
) -> Result<Bytes, Rejection>
where
    B: http_body::Body,
    B::Error: Into<BoxError>,
{
    let announced = parts
        .headers
        .get(CONTENT_LENGTH)
        .and_then(|length| length.to_str().ok())
        .and_then(|length| length.parse::<u64>().ok());
    let mut body = pin!(body);
    if announced.is_some_and(|length| length > limits.max_bytes as u64) {
        pass_over(body, limits).await;
        return Err(Rejection::too_large(limits.max_bytes));
    }
    let expected = announced.and_then(|length| usize::try_from(length).ok()).unwrap_or(0);
    let done = {
        let mut reading = pin!(collect(body.as_mut(), parts, limits, expected));
        // A body that is already here needs no timer.
        match futures_ready(reading.as_mut()).await {
            Some(done) => done,
            None => match tokio::time::timeout(limits.read_within, reading).await {
                Ok(done) => done,
                Err(_) => return Err(Rejection::too_slow()),
            },
        }
    };
    let is_full = |refusal: &Rejection| {
        matches!(refusal.status(), StatusCode::PAYLOAD_TOO_LARGE | StatusCode::SERVICE_UNAVAILABLE)
    };
    if done.as_ref().is_err_and(is_full) {
        pass_over(body, limits).await;
    }
    done
}

/// Reads on for a moment without keeping anything: a client that is still writing when it is answered
/// sees a broken connection instead of the answer.
async fn pass_over<B: http_body::Body>(mut body: Pin<&mut B>, limits: &DecodeLayer) {
    let permit = limits.budget.as_ref().map(ByteBudget::drain);
    if matches!(permit, Some(None)) {
        return;
    }
    let mut left = limits.max_bytes.saturating_mul(2);
    let reading = async {
        while let Some(Ok(frame)) = body.frame().await {
            let length = frame.data_ref().map_or(0, Buf::remaining);
            let Some(rest) = left.checked_sub(length) else { return };
            left = rest;
        }
    };
    // Whether it ends or not, the answer is the same.
    _ = tokio::time::timeout(PASS_OVER, reading).await;
}

/// Polls `future` once.
async fn futures_ready<F: Future>(mut future: Pin<&mut F>) -> Option<F::Output> {
    std::future::poll_fn(|cx| {
        std::task::Poll::Ready(match future.as_mut().poll(cx) {
            std::task::Poll::Ready(output) => Some(output),
            std::task::Poll::Pending => None,
        })
    })
    .await
}

async fn collect<B>(
    mut body: Pin<&mut B>,
    parts: &request::Parts,
    limits: &DecodeLayer,
    announced: usize,
) -> Result<Bytes, Rejection>
where
    B: http_body::Body,
    B::Error: Into<BoxError>,
{
    let mut buffer = BodyBuffer::new(limits.max_bytes, announced);
    let mut patience = MAX_BUDGET_WAIT;
    let mut interval: Option<Interval> = None;
    // A poll for a frame after the last one waits until hyper's connection is driven again, in turn with everything else
    // that is ready.
    while !body.is_end_stream() {
        let data = match (&mut interval, &limits.budget) {
            (Some(interval), Some(budget)) => {
                Box::pin(interval.run(chunk(body.as_mut()), budget)).await?
            }
            _ => chunk(body.as_mut()).await,
        };
        let Some(data) = data.transpose()? else { break };
        if let Some(interval) = &mut interval {
            interval.pace.add(data.len());
        }
        buffer.push(data).map_err(|_| Rejection::too_large(limits.max_bytes))?;
        if buffer.missing() > 0
            && let Some(budget) = &limits.budget
        {
            // Boxed, so that small messages have no room for it in their futures.
            patience = Box::pin(reserve(&mut buffer, budget, parts, patience)).await?;
            // The time that the client was kept waiting does not count.
            interval = Some(Interval::new());
        }
    }
    Ok(buffer.finish())
}

/// Waits for the next bytes of `body`; `None` at its end.
async fn chunk<B>(mut body: Pin<&mut B>) -> Option<Result<Bytes, Rejection>>
where
    B: http_body::Body,
    B::Error: Into<BoxError>,
{
    loop {
        let Ok(frame) = body.frame().await? else {
            return Some(Err(Rejection::malformed(
                code::PARSE,
                "the body broke off before its end",
            )));
        };
        if let Ok(mut data) = frame.into_data() {
            return Some(Ok(data.copy_to_bytes(data.remaining())));
        }
    }
}

/// Watch over the rate of a client whose body holds bytes of the budget.
struct Interval {
    end: Instant,
    pace: Pace,
}

impl Interval {
    fn new() -> Self {
        Self { end: Instant::now() + Pace::INTERVAL, pace: Pace::default() }
    }

    /// Waits for the next frame. Refuses a body that is too slow while others wait for bytes.
    async fn run<F: Future>(
        &mut self,
        frame: F,
        budget: &ByteBudget,
    ) -> Result<F::Output, Rejection> {
        let mut frame = pin!(frame);
        loop {
            match tokio::time::timeout_at(self.end, frame.as_mut()).await {
                Ok(frame) => return self.check(budget).map(|()| frame),
                Err(_) => self.check(budget)?,
            }
        }
    }

    fn check(&mut self, budget: &ByteBudget) -> Result<(), Rejection> {
        let now = Instant::now();
        if now < self.end {
            return Ok(());
        }
        self.end = now + Pace::INTERVAL;
        if self.pace.end_interval(budget) { Err(budget.rejection()) } else { Ok(()) }
    }
}

/// Reserves what has arrived, within `patience`. Returns what is left of that.
async fn reserve(
    buffer: &mut BodyBuffer,
    budget: &ByteBudget,
    parts: &request::Parts,
    patience: Duration,
) -> Result<Duration, Rejection> {
    let begun = Instant::now();
    let reserving = buffer.reserve(|| budget.open(budget.owner(&parts.extensions)));
    match tokio::time::timeout(patience, reserving).await {
        Ok(Ok(())) => Ok(patience.saturating_sub(begun.elapsed())),
        Ok(Err(_)) | Err(_) => Err(budget.rejection()),
    }
}

//! Reads a body within bounds of size and time.

use std::pin::{Pin, pin};
use std::time::Duration;

use bytes::{Buf, Bytes};
use http::header::CONTENT_LENGTH;
use http::{StatusCode, request};
use http_body_util::BodyExt;
use tokio::time::Instant;
use vmcp_core::{BodyBuffer, BoxError, ByteBudget, MAX_BUDGET_WAIT, Rejection, TransferRate, code};

use crate::DecodeLayer;

/// Maximum time for draining a rejected body.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// Reads all of `body`. A body that comes in one piece is not copied.
pub(crate) async fn read<B>(
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
    if announced.is_some_and(|length| length > limits.max_body_size as u64) {
        drain(body, limits).await;
        return Err(Rejection::too_large(limits.max_body_size));
    }
    let expected = announced.and_then(|length| usize::try_from(length).ok()).unwrap_or(0);
    let done = {
        let mut reading = pin!(collect(body.as_mut(), parts, limits, expected));
        // A body that is already here needs no timer.
        match poll_once(reading.as_mut()).await {
            Some(done) => done,
            None => match tokio::time::timeout(limits.body_timeout, reading).await {
                Ok(done) => done,
                Err(_) => return Err(Rejection::request_timeout()),
            },
        }
    };
    let is_full = |rejection: &Rejection| {
        matches!(
            rejection.status(),
            StatusCode::PAYLOAD_TOO_LARGE | StatusCode::SERVICE_UNAVAILABLE
        )
    };
    if done.as_ref().is_err_and(is_full) {
        drain(body, limits).await;
    }
    done
}

/// Reads and drops the rest of a rejected body for a short time. Otherwise, a client that is still writing would see a broken
/// connection instead of the response.
async fn drain<B: http_body::Body>(mut body: Pin<&mut B>, limits: &DecodeLayer) {
    let permit = limits.budget.as_ref().map(ByteBudget::drain);
    if matches!(permit, Some(None)) {
        return;
    }
    let mut remaining = limits.max_body_size.saturating_mul(2);
    let reading = async {
        while let Some(Ok(frame)) = body.frame().await {
            let length = frame.data_ref().map_or(0, Buf::remaining);
            let Some(rest) = remaining.checked_sub(length) else { return };
            remaining = rest;
        }
    };
    // The response is the same whether the body ends or not.
    _ = tokio::time::timeout(DRAIN_TIMEOUT, reading).await;
}

/// Polls `future` once.
async fn poll_once<F: Future>(mut future: Pin<&mut F>) -> Option<F::Output> {
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
    let mut buffer = BodyBuffer::new(limits.max_body_size, announced);
    let mut max_wait = MAX_BUDGET_WAIT;
    let mut rate: Option<RateMonitor> = None;
    // A poll for a frame after the last one waits until hyper's connection is driven again, in turn with everything else
    // that is ready.
    while !body.is_end_stream() {
        let data = match (&mut rate, &limits.budget) {
            (Some(rate), Some(budget)) => {
                Box::pin(rate.next(next_chunk(body.as_mut()), budget)).await?
            }
            _ => next_chunk(body.as_mut()).await,
        };
        let Some(data) = data.transpose()? else { break };
        if let Some(rate) = &mut rate {
            rate.transferred.add(data.len());
        }
        buffer.push(data).map_err(|_| Rejection::too_large(limits.max_body_size))?;
        if buffer.missing() > 0
            && let Some(budget) = &limits.budget
        {
            // Boxed, so that the futures of small messages stay small.
            max_wait = Box::pin(reserve(&mut buffer, budget, parts, max_wait)).await?;
            // The client could not send while it waited for the budget.
            rate = Some(RateMonitor::new());
        }
    }
    Ok(buffer.finish())
}

/// Waits for the next bytes of `body`; `None` at its end.
async fn next_chunk<B>(mut body: Pin<&mut B>) -> Option<Result<Bytes, Rejection>>
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

/// Monitor of the rate at which a client sends a body that holds bytes of the budget.
struct RateMonitor {
    /// The end of the current interval.
    interval_end: Instant,
    transferred: TransferRate,
}

impl RateMonitor {
    fn new() -> Self {
        Self {
            interval_end: Instant::now() + TransferRate::INTERVAL,
            transferred: TransferRate::default(),
        }
    }

    /// Waits for the next frame. Rejects a body that is too slow while other requests wait for bytes.
    async fn next<F: Future>(
        &mut self,
        frame: F,
        budget: &ByteBudget,
    ) -> Result<F::Output, Rejection> {
        let mut frame = pin!(frame);
        loop {
            match tokio::time::timeout_at(self.interval_end, frame.as_mut()).await {
                Ok(frame) => return self.check(budget).map(|()| frame),
                Err(_) => self.check(budget)?,
            }
        }
    }

    fn check(&mut self, budget: &ByteBudget) -> Result<(), Rejection> {
        let now = Instant::now();
        if now < self.interval_end {
            return Ok(());
        }
        self.interval_end = now + TransferRate::INTERVAL;
        if self.transferred.end_interval(budget) { Err(budget.rejection()) } else { Ok(()) }
    }
}

/// Reserves the bytes that have arrived, within `timeout`. Returns the remaining time.
async fn reserve(
    buffer: &mut BodyBuffer,
    budget: &ByteBudget,
    parts: &request::Parts,
    timeout: Duration,
) -> Result<Duration, Rejection> {
    let start = Instant::now();
    let reserving = buffer.reserve(|| budget.open(budget.owner(&parts.extensions)));
    match tokio::time::timeout(timeout, reserving).await {
        Ok(Ok(())) => Ok(timeout.saturating_sub(start.elapsed())),
        Ok(Err(_)) | Err(_) => Err(budget.rejection()),
    }
}

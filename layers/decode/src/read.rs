//! Takes in a body within bounds of size and time.

use std::pin::{Pin, pin};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, StatusCode};
use http_body_util::BodyExt;
use vmcp_core::{BoxError, Rejection, code};

use crate::DecodeLayer;

/// How long a body that is refused is still read.
const PASS_OVER: Duration = Duration::from_secs(1);

/// All of `body`. A body that comes in one piece is not copied.
pub(crate) async fn body<B>(
    body: B,
    headers: &HeaderMap,
    limits: DecodeLayer,
) -> Result<Bytes, Rejection>
where
    B: http_body::Body,
    B::Error: Into<BoxError>,
{
    let announced = headers
        .get(CONTENT_LENGTH)
        .and_then(|length| length.to_str().ok())
        .and_then(|length| length.parse::<u64>().ok());
    let mut body = pin!(body);
    if announced.is_some_and(|length| length > limits.max_bytes as u64) {
        pass_over(body, limits.max_bytes).await;
        return Err(Rejection::too_large(limits.max_bytes));
    }
    let expected = announced.and_then(|length| usize::try_from(length).ok()).unwrap_or(0);
    let done = {
        let mut reading = pin!(collect(body.as_mut(), limits.max_bytes, expected));
        // A body that is already here needs no timer.
        match futures_ready(reading.as_mut()).await {
            Some(done) => done,
            None => match tokio::time::timeout(limits.read_within, reading).await {
                Ok(done) => done,
                Err(_) => return Err(Rejection::too_slow()),
            },
        }
    };
    if done.as_ref().is_err_and(|refusal| refusal.status() == StatusCode::PAYLOAD_TOO_LARGE) {
        pass_over(body, limits.max_bytes).await;
    }
    done
}

/// Reads on for a moment without keeping anything: a client that is still writing when it is answered
/// sees a broken connection instead of the answer.
async fn pass_over<B: http_body::Body>(mut body: Pin<&mut B>, most: usize) {
    let mut left = most.saturating_mul(2);
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
    limit: usize,
    announced: usize,
) -> Result<Bytes, Rejection>
where
    B: http_body::Body,
    B::Error: Into<BoxError>,
{
    let mut first = Bytes::new();
    let mut rest = BytesMut::new();
    // Whoever asks for a frame after the last one waits until hyper's connection is driven again, in turn
    // with everything else that is ready.
    while !body.is_end_stream() {
        let Some(frame) = body.frame().await else { break };
        let frame = frame
            .map_err(|_| Rejection::malformed(code::PARSE, "the body broke off before its end"))?;
        let Ok(mut data) = frame.into_data() else { continue };
        let length = data.remaining();
        if first.len() + rest.len() + length > limit {
            return Err(Rejection::too_large(limit));
        }
        let data = data.copy_to_bytes(length);
        if first.is_empty() && rest.is_empty() {
            first = data;
        } else {
            if rest.is_empty() {
                rest.reserve(announced.max(first.len() + length));
                rest.extend_from_slice(&std::mem::take(&mut first));
            }
            rest.extend_from_slice(&data);
        }
    }
    Ok(if rest.is_empty() { first } else { rest.freeze() })
}

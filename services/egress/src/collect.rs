//! A whole body in one piece, up to a cap.

use std::{future::poll_fn, pin::pin};

use bytes::{Bytes, BytesMut};
use http_body::Body;
use vmcp_core::BoxError;

use crate::Error;

/// How much is reserved on a peer's word before bytes have arrived.
const MAX_RESERVED: usize = 64 * 1024;

/// Reads `body` to its end and returns its bytes; trailers are dropped. A body of one chunk is not
/// copied.
///
/// # Errors
///
/// [`Error::BodyTooLarge`] if there are more than `limit` bytes; what the body reports.
pub async fn collect<B>(body: B, limit: usize) -> Result<Bytes, BoxError>
where
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    let mut body = pin!(body);
    let too_large = || Error::BodyTooLarge { limit: limit as u64 };
    if body.size_hint().lower() > limit as u64 {
        return Err(too_large().into());
    }
    let mut first = Bytes::new();
    let mut rest = BytesMut::new();
    while !body.is_end_stream() {
        let Some(frame) = poll_fn(|cx| body.as_mut().poll_frame(cx)).await else { break };
        let Ok(data) = frame.map_err(Into::into)?.into_data() else { continue };
        if first.len() + rest.len() + data.len() > limit {
            return Err(too_large().into());
        }
        if first.is_empty() && rest.is_empty() {
            first = data;
            continue;
        }
        if rest.is_empty() {
            let expected = usize::try_from(body.size_hint().lower()).unwrap_or(MAX_RESERVED);
            rest.reserve(first.len() + data.len() + expected.min(MAX_RESERVED));
            rest.extend_from_slice(&std::mem::take(&mut first));
        }
        rest.extend_from_slice(&data);
    }
    Ok(if rest.is_empty() { first } else { rest.freeze() })
}

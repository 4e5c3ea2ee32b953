//! Collection of a body into one buffer, up to a limit.

use std::{future::poll_fn, pin::pin};

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http_body::Body;
use vmcp_core::BoxError;

use crate::Error;

/// Maximum capacity to reserve before bytes have arrived: the peer's announced length is untrusted.
const MAX_RESERVED: usize = 64 * 1024;

/// Reads `body` to its end and returns its bytes without trailers. Does not copy a body of one
/// chunk.
///
/// # Errors
///
/// [`Error::BodyTooLarge`] for more than `limit` bytes, or the error of the body.
pub async fn collect<B>(body: B, limit: usize) -> Result<Bytes, BoxError>
where
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    Ok(collect_all(body, limit).await?.0)
}

/// Like [`collect`], with the trailers.
pub(crate) async fn collect_all<B>(
    body: B,
    limit: usize,
) -> Result<(Bytes, Option<HeaderMap>), BoxError>
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
    let mut trailers = None;
    while !body.is_end_stream() {
        let Some(frame) = poll_fn(|cx| body.as_mut().poll_frame(cx)).await else { break };
        let data = match frame.map_err(Into::into)?.into_data() {
            Ok(data) => data,
            Err(frame) => {
                trailers = frame.into_trailers().ok().or(trailers);
                continue;
            }
        };
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
    Ok((if rest.is_empty() { first } else { rest.freeze() }, trailers))
}

#[cfg(test)]
mod tests {
    use http_body::Frame;
    use http_body_util::{BodyExt, Full, StreamBody};

    use super::*;

    async fn collected(chunks: &[&'static str], limit: usize) -> Result<Bytes, BoxError> {
        let frames = chunks
            .iter()
            .map(|chunk| Ok::<_, BoxError>(Frame::data(Bytes::from_static(chunk.as_bytes()))));
        let frames: Vec<_> = frames.collect();
        collect(StreamBody::new(futures_util::stream::iter(frames)), limit).await
    }

    #[tokio::test]
    async fn does_not_copy_a_single_chunk() {
        let chunk = Bytes::from(vec![b'x'; 100]);
        let whole = collect(Full::new(chunk.clone()), 100).await.unwrap();
        assert_eq!(whole.as_ptr(), chunk.as_ptr());
    }

    #[tokio::test]
    async fn joins_chunks_up_to_the_cap() {
        assert_eq!(collected(&[], 0).await.unwrap(), "");
        assert_eq!(collected(&["", "ab", "", "c", "def"], 6).await.unwrap(), "abcdef");
        let error = collected(&["ab", "c", "def"], 5).await.unwrap_err();
        assert!(matches!(error.downcast_ref(), Some(Error::BodyTooLarge { limit: 5 })));
    }

    #[tokio::test]
    async fn rejects_announced_length_without_reading() {
        let error = collect(Full::new(Bytes::from_static(b"abc")), 2).await.unwrap_err();
        assert!(matches!(error.downcast_ref(), Some(Error::BodyTooLarge { limit: 2 })));
    }

    #[tokio::test]
    async fn forwards_errors_of_the_body() {
        let body = StreamBody::new(futures_util::stream::iter([Err::<Frame<Bytes>, BoxError>(
            "broken".into(),
        )]));
        assert_eq!(collect(body.boxed_unsync(), 9).await.unwrap_err().to_string(), "broken");
    }
}

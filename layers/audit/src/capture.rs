//! Data captured from a response body.

use bytes::Bytes;

use crate::PayloadExcerpt;
use crate::detector::{DetectionResult, Detector};

/// Counts the bytes of a response, detects errors and copies an excerpt, as configured.
#[derive(Default)]
pub(crate) struct Capture {
    size: u64,
    detector: Option<Detector>,
    excerpt: Option<PayloadExcerpt>,
}

impl Capture {
    /// Creates a capture; `limit` is the size of the excerpt, if there is one.
    pub(crate) fn new(detector: Option<Detector>, limit: Option<usize>) -> Self {
        Self { size: 0, detector, excerpt: limit.map(|limit| PayloadExcerpt::new(&[], limit)) }
    }

    /// Processes the next chunk.
    pub(crate) fn push(&mut self, chunk: &Bytes, last: bool) {
        self.size += chunk.len() as u64;
        if let Some(detector) = &mut self.detector {
            detector.inspect(chunk, last);
        }
        if let Some(PayloadExcerpt { prefix, truncated, limit }) = &mut self.excerpt {
            let fitting = chunk.get(..*limit - prefix.len()).unwrap_or(chunk);
            *truncated |= fitting.len() < chunk.len();
            prefix.extend_from_slice(fitting);
        }
    }

    /// Returns the size, the detected error and the excerpt.
    pub(crate) fn finish(self) -> (u64, DetectionResult, Option<PayloadExcerpt>) {
        (self.size, self.detector.map(Detector::finish).unwrap_or_default(), self.excerpt)
    }
}

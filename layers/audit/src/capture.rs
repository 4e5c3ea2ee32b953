//! What is kept of an answer while it passes.

use bytes::Bytes;

use crate::PayloadExcerpt;
use crate::detector::{DetectionResult, Detector};

/// Counts the bytes of an answer, looks for errors in it and keeps its beginning, as far as asked for.
#[derive(Default)]
pub(crate) struct Capture {
    size: u64,
    detector: Option<Detector>,
    excerpt: Option<PayloadExcerpt>,
}

impl Capture {
    /// `limit` is how much is kept, if anything is to be.
    pub(crate) fn new(detector: Option<Detector>, limit: Option<usize>) -> Self {
        Self { size: 0, detector, excerpt: limit.map(|limit| PayloadExcerpt::new(&[], limit)) }
    }

    /// The next piece. `last` if there will be no other.
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

    /// The size, what was found, and what was kept.
    pub(crate) fn finish(self) -> (u64, DetectionResult, Option<PayloadExcerpt>) {
        (self.size, self.detector.map(Detector::finish).unwrap_or_default(), self.excerpt)
    }
}

//! What is kept of an answer while it passes.

use bytes::Bytes;

use crate::detect::{Detector, Finding};
use crate::event::Data;

/// Counts the bytes of an answer, looks for errors in it and keeps its beginning, as far as asked for.
#[derive(Default)]
pub(crate) struct Capture {
    size: u64,
    detector: Option<Detector>,
    kept: Option<Kept>,
}

struct Kept {
    start: Vec<u8>,
    most: usize,
}

impl Capture {
    /// `most` is how much is kept, if anything is to be.
    pub(crate) fn new(detector: Option<Detector>, most: Option<usize>) -> Self {
        let kept = most.map(|most| Kept { start: Vec::new(), most });
        Self { size: 0, detector, kept }
    }

    /// The next piece. `last` if there will be no other.
    pub(crate) fn piece(&mut self, piece: &Bytes, last: bool) {
        self.size += piece.len() as u64;
        if let Some(detector) = &mut self.detector {
            detector.look(piece, last);
        }
        if let Some(Kept { start, most }) = &mut self.kept {
            let room = *most - start.len();
            start.extend_from_slice(piece.get(..room).unwrap_or(piece));
        }
    }

    /// The size, what was found, and what was kept.
    pub(crate) fn end(self) -> (u64, Finding, Option<Data>) {
        let finding = self.detector.map(Detector::end).unwrap_or_default();
        let data = self
            .kept
            .map(|kept| Data { cut: self.size > kept.start.len() as u64, start: kept.start });
        (self.size, finding, data)
    }
}

//! What is kept of an answer while it passes.

use bytes::Bytes;

use crate::Data;
use crate::detect::{Detector, Finding};

/// Counts the bytes of an answer, looks for errors in it and keeps its beginning, as far as asked for.
#[derive(Default)]
pub(crate) struct Capture {
    size: u64,
    detector: Option<Detector>,
    kept: Option<Data>,
}

impl Capture {
    /// `most` is how much is kept, if anything is to be.
    pub(crate) fn new(detector: Option<Detector>, most: Option<usize>) -> Self {
        Self { size: 0, detector, kept: most.map(|most| Data::new(&[], most)) }
    }

    /// The next piece. `last` if there will be no other.
    pub(crate) fn piece(&mut self, piece: &Bytes, last: bool) {
        self.size += piece.len() as u64;
        if let Some(detector) = &mut self.detector {
            detector.look(piece, last);
        }
        if let Some(Data { start, cut, limit }) = &mut self.kept {
            let fitting = piece.get(..*limit - start.len()).unwrap_or(piece);
            *cut |= fitting.len() < piece.len();
            start.extend_from_slice(fitting);
        }
    }

    /// The size, what was found, and what was kept.
    pub(crate) fn end(self) -> (u64, Finding, Option<Data>) {
        (self.size, self.detector.map(Detector::end).unwrap_or_default(), self.kept)
    }
}

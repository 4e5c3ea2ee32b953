//! Bytes in pieces that never move.

use bytes::Bytes;

/// Length of a piece, in bytes, once there are so many.
const PIECE: usize = 64 << 10;

/// Bytes that are collected and then taken as a whole.
///
/// A buffer that grows by doubling leaves freed memory of every size behind, which the allocator keeps for a while: many long
/// lines at a time would take several times their length.
#[derive(Debug, Default)]
pub(super) struct ChunkedBuffer {
    /// All but the last one are full.
    pieces: Vec<Vec<u8>>,
    length: usize,
}

impl ChunkedBuffer {
    pub(super) fn len(&self) -> usize {
        self.length
    }

    pub(super) fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Appends `data`.
    pub(super) fn extend(&mut self, mut data: &[u8]) {
        self.length += data.len();
        while !data.is_empty() {
            let open = self.pieces.last_mut().filter(|piece| piece.len() < piece.capacity());
            let Some(piece) = open else {
                let length = self.length.next_power_of_two().min(PIECE);
                self.pieces.push(Vec::with_capacity(length));
                continue;
            };
            let room = piece.capacity() - piece.len();
            let (fits, rest) = data.split_at(data.len().min(room));
            piece.extend_from_slice(fits);
            data = rest;
        }
    }

    /// Takes all bytes in one piece.
    pub(super) fn take(&mut self) -> Bytes {
        let Self { mut pieces, length } = std::mem::take(self);
        if pieces.len() <= 1 {
            return pieces.pop().map_or_else(Bytes::new, Bytes::from);
        }
        let mut whole = Vec::with_capacity(length);
        // Each piece is freed once it is copied.
        for piece in pieces {
            whole.extend_from_slice(&piece);
        }
        whole.into()
    }

    /// Removes all bytes.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn returns_long_lines_whole() {
        let mut line = ChunkedBuffer::default();
        let mut expected = Vec::new();
        for (number, length) in [10, 0, 5000, 3 * PIECE, 1, PIECE].into_iter().enumerate() {
            let data = vec![u8::try_from(number).unwrap(); length];
            line.extend(&data);
            expected.extend_from_slice(&data);
            assert_eq!(line.len(), expected.len());
        }
        assert!(line.pieces.iter().all(|piece| piece.capacity() <= PIECE));
        assert_eq!(line.take(), expected);
        assert!(line.is_empty() && line.take().is_empty());
    }
}

//! Edits, against a model that rebuilds everything.

use bytes::Bytes;
use serde_json::value::RawValue;
use vmcp_wire::{Span, Splice, validate};

use crate::reference::Entries;

/// Sixteen bytes of script, then the message to edit.
const SCRIPT: usize = 16;

/// Holds for any bytes.
pub(crate) fn check(bytes: &[u8]) {
    let Some((script, original)) = bytes.split_first_chunk::<SCRIPT>() else { return };
    check_places(script, original);
    check_members(script, original.trim_ascii());
}

/// Replacements and insertions that don't overlap do what cutting and pasting does.
fn check_places(script: &[u8; SCRIPT], original: &[u8]) {
    let mut edits: Vec<(usize, usize, Vec<u8>)> = Vec::new();
    let mut free = 0;
    for chunk in script.chunks_exact(2) {
        let start = free + usize::from(chunk[0] & 15);
        let end = start + usize::from(chunk[1] & 7);
        if end > original.len() {
            break;
        }
        edits.push((start, end, vec![b'#'; usize::from(chunk[1] >> 4)]));
        free = end + 1;
    }
    let mut expected = original.to_vec();
    for (start, end, with) in edits.iter().rev() {
        expected.splice(start..end, with.iter().copied());
    }
    let turn = usize::from(script[0]) % edits.len().max(1);
    edits.rotate_left(turn);
    let mut splice = Splice::new(original);
    for (start, end, with) in edits {
        let start = u32::try_from(start).unwrap();
        splice.replace(Span { start, end: u32::try_from(end).unwrap() }, with);
    }
    let pieces = splice.clone().pieces(&Bytes::copy_from_slice(original));
    assert_eq!(pieces.concat(), expected);
    assert_eq!(splice.finish(), expected);
}

/// Edits of members leave the other members as they are.
fn check_members(script: &[u8; SCRIPT], object: &[u8]) {
    let read = |object: &[u8]| std::str::from_utf8(object).ok().and_then(Entries::read);
    let (Ok(()), Some(entries)) = (validate(object), read(object)) else { return };
    let before: Vec<_> = pairs(&entries);
    let mut expected = before.clone();
    let span = Span { start: 0, end: u32::try_from(object.len()).unwrap() };
    let mut splice = Splice::new(object);
    let mut touched = Vec::new();
    for &byte in script {
        let index = usize::from(byte >> 3);
        let key =
            before.get(index).map_or_else(|| format!("new\n{}", index % 4), |(key, _)| key.clone());
        let value = format!("[{byte}]");
        let there = expected.iter().position(|(name, _)| *name == key);
        if byte & 7 != 0 {
            touched.push(key.clone());
        }
        match (byte & 7, there) {
            (0, _) => {}
            (1..=3, _) => {
                splice.remove_member(span, &key);
                expected.retain(|(name, _)| *name != key);
            }
            (4, None) if !before.iter().any(|(name, _)| *name == key) => {
                splice.append_member(span, &key, value.as_bytes());
                expected.push((key, value));
            }
            _ => {
                splice.set_member(span, &key, value.as_bytes());
                expected.retain(|(name, _)| *name != key);
                expected.push((key, value));
            }
        }
    }
    let pieces = splice.clone().pieces(&Bytes::copy_from_slice(object));
    let edited = splice.finish();
    assert_eq!(pieces.concat(), edited);
    assert_eq!(validate(&edited), Ok(()), "{edited:?}");
    let mut after = pairs(&read(&edited).unwrap());
    let untouched = |pairs: &[(String, String)]| -> Vec<_> {
        pairs.iter().filter(|(key, _)| !touched.contains(key)).cloned().collect()
    };
    assert_eq!(untouched(&after), untouched(&before));
    // A changed member may move.
    after.sort();
    expected.sort();
    assert_eq!(after, expected);
}

fn pairs(entries: &Entries) -> Vec<(String, String)> {
    let text = |value: &RawValue| value.get().to_owned();
    entries.0.iter().map(|(key, value)| (key.clone(), text(value))).collect()
}

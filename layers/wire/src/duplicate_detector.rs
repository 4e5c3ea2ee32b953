//! Detection of duplicate members, so that every parser behind the gateway sees the same ones.
//!
//! Parsers differ: most take the last of two equal members, some the first; Go's `encoding/json` ignores the case of names;
//! some cut a name at NUL. An object that two of them parse differently is rejected.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::marker::PhantomData;

use crate::json_string::{UnescapedChars, inside};
use crate::lexer::Lexer;
use crate::{MAX_MEMBERS, MAX_NAME, ScanErrorKind, StringSpan, json_string};

/// Key that a reader of an object knows.
pub(crate) trait KnownKey: Copy {
    /// The names of all of them, in lower camel case, at most 32.
    const NAMES: &[&str];

    /// Returns the key with exactly this name.
    fn from_name(name: &[u8]) -> Option<Self>;

    /// Returns its index among the names.
    fn index(self) -> u8;
}

/// Detector of duplicates among the members of one object.
pub(crate) struct DuplicateDetector<S> {
    known_keys: PhantomData<S>,
    /// One bit per known key that was found.
    found: u32,
    /// Number of all members, at most [`MAX_MEMBERS`].
    count: u8,
    /// Number of the other members, at most `count`.
    others: u8,
    /// Starts of the keys of the other members.
    starts: [u32; MAX_MEMBERS],
    /// Hashes of the other members' unescaped names, once one of them has escapes. Comparing those character by character is
    /// slow, and a sender who could predict the hashes would choose names that need it.
    hashes: [u16; MAX_MEMBERS],
    seed: Option<RandomState>,
}

impl<S: KnownKey> DuplicateDetector<S> {
    pub(crate) fn new() -> Self {
        Self {
            known_keys: PhantomData,
            found: 0,
            count: 0,
            others: 0,
            starts: [0; MAX_MEMBERS],
            hashes: [0; MAX_MEMBERS],
            seed: None,
        }
    }

    /// Returns the number of inserted members.
    pub(crate) fn count(&self) -> u8 {
        self.count
    }

    /// Inserts a member. Returns its key if it is a known one.
    #[inline]
    pub(crate) fn insert(
        &mut self,
        bytes: &[u8],
        key: StringSpan,
    ) -> Result<Option<S>, ScanErrorKind> {
        if usize::from(self.count) == MAX_MEMBERS {
            return Err(ScanErrorKind::TooManyEnvelopeMembers);
        }
        self.count += 1;
        if !key.escaped
            && let Some(member) = S::from_name(inside(key.span.of(bytes)))
        {
            return self.insert_known(member, key);
        }
        self.insert_unknown(bytes, key)
    }

    #[inline]
    fn insert_known(&mut self, member: S, key: StringSpan) -> Result<Option<S>, ScanErrorKind> {
        let bit = 1_u32 << member.index();
        if self.found & bit != 0 {
            return Err(ScanErrorKind::Duplicate { at: key.span.start });
        }
        self.found |= bit;
        Ok(Some(member))
    }

    #[inline(never)]
    fn insert_unknown(
        &mut self,
        bytes: &[u8],
        key: StringSpan,
    ) -> Result<Option<S>, ScanErrorKind> {
        let at = key.span.start;
        if key.span.len() > MAX_NAME + 2 {
            return Err(ScanErrorKind::NameTooLong { at });
        }
        let literal = key.span.of(bytes);
        if key.escaped {
            let name = S::NAMES.iter().find(|name| json_string::is(literal, name));
            if let Some(member) = name.and_then(|name| S::from_name(name.as_bytes())) {
                return self.insert_known(member, key);
            }
        }
        if let Some(key) = S::NAMES.iter().find(|name| is_confusable(literal, key.escaped, name)) {
            return Err(ScanErrorKind::ConfusableName { key, at });
        }
        self.insert_other(bytes, key)?;
        Ok(None)
    }

    fn insert_other(&mut self, bytes: &[u8], key: StringSpan) -> Result<(), ScanErrorKind> {
        let literal = key.span.of(bytes);
        let others = usize::from(self.others);
        if key.escaped && self.seed.is_none() {
            let seed = self.seed.insert(RandomState::new());
            for (hash, &start) in self.hashes.iter_mut().zip(&self.starts).take(others) {
                *hash = hash_of(seed, literal_at(bytes, start));
            }
        }
        let hash = self.seed.as_ref().map(|seed| hash_of(seed, literal));
        for (&start, &earlier_hash) in self.starts.iter().zip(&self.hashes).take(others) {
            let is_same = match hash {
                Some(hash) => {
                    hash == earlier_hash
                        && unescaped(literal).eq(unescaped(literal_at(bytes, start)))
                }
                None => from(bytes, start).starts_with(literal),
            };
            if is_same {
                return Err(ScanErrorKind::Duplicate { at: key.span.start });
            }
        }
        self.starts[others] = key.span.start;
        // Without a seed, the slot is filled once a key has escapes.
        self.hashes[others] = hash.unwrap_or(0);
        self.others += 1;
        Ok(())
    }
}

/// Returns `true` if some parsers take the key `literal`, which is not `name`, for it.
pub(crate) fn is_confusable(literal: &[u8], escaped: bool, name: &str) -> bool {
    let inside = inside(literal);
    if !escaped && inside.is_ascii() {
        return inside.eq_ignore_ascii_case(name.as_bytes());
    }
    let visible = unescaped(literal).take_while(|&char| char != '\0');
    visible.flat_map(fold).eq(name.chars().flat_map(fold))
}

/// Folds the case, as far as it leads to ASCII: the simple and the full foldings of Unicode, the Turkic ones, and whatever
/// else becomes an ASCII letter by changing to lower or upper case.
fn fold(char: char) -> impl Iterator<Item = char> {
    let (letters, count) = match char {
        'ı' | 'İ' => (['i', ' ', ' '], 1),
        'ſ' => (['s', ' ', ' '], 1),
        '\u{212A}' => (['k', ' ', ' '], 1),
        'ß' | 'ẞ' => (['s', 's', ' '], 2),
        'ﬀ' => (['f', 'f', ' '], 2),
        'ﬁ' => (['f', 'i', ' '], 2),
        'ﬂ' => (['f', 'l', ' '], 2),
        'ﬃ' => (['f', 'f', 'i'], 3),
        'ﬄ' => (['f', 'f', 'l'], 3),
        'ﬅ' | 'ﬆ' => (['s', 't', ' '], 2),
        other => ([other.to_ascii_lowercase(), ' ', ' '], 1),
    };
    letters.into_iter().take(count)
}

fn unescaped(literal: &[u8]) -> UnescapedChars<'_> {
    // Scanned text is UTF-8. Other text has no names that a caller could ask for.
    UnescapedChars::new(std::str::from_utf8(inside(literal)).unwrap_or(""))
}

/// Returns a hash of the unescaped name.
fn hash_of(seed: &RandomState, literal: &[u8]) -> u16 {
    let mut hasher = seed.build_hasher();
    unescaped(literal).for_each(|char| hasher.write_u32(char.into()));
    let [low, high, ..] = hasher.finish().to_le_bytes();
    u16::from_le_bytes([low, high])
}

fn from(bytes: &[u8], start: u32) -> &[u8] {
    &bytes[start as usize..]
}

/// Returns the string literal at `start`, which was read before.
fn literal_at(bytes: &[u8], start: u32) -> &[u8] {
    let bytes = from(bytes, start);
    Lexer::whole(bytes).string().map_or(&[], |text| text.span.of(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folds_letters_with_ascii_case() {
        for char in ('\u{80}'..=char::MAX).filter(|char| char.is_alphabetic()) {
            for changed in [char.to_lowercase().collect::<String>(), char.to_uppercase().collect()]
            {
                if changed.is_ascii() {
                    let folded: String = fold(char).collect();
                    assert_eq!(folded, changed.to_ascii_lowercase(), "{char:?}");
                }
            }
        }
        assert_eq!(fold('İ').collect::<String>(), "i");
    }
}

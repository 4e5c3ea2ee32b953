//! Telling the members of an object apart, so that every reader behind us sees the same ones.
//!
//! Readers differ: most take the last of two equal members, some the first; Go's `encoding/json` matches names without
//! regard to case; some cut a name at NUL. An object that any two of them read differently is refused.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::marker::PhantomData;

use crate::lexer::Lexer;
use crate::quote::{Unescaped, inside};
use crate::{Fault, MAX_MEMBERS, MAX_NAME, Text, quote};

/// A member that an object is looked through for.
pub(crate) trait Sought: Copy {
    /// The names of all of them, in lower camel case, at most 32.
    const NAMES: &[&str];

    /// The one whose name is exactly this.
    fn named(name: &[u8]) -> Option<Self>;

    /// Its place among the names.
    fn index(self) -> u8;
}

/// The names that stood in one object so far.
pub(crate) struct Ledger<S> {
    sought: PhantomData<S>,
    /// One bit per sought member that was found.
    found: u32,
    count: u8,
    others: u8,
    /// Starts of the keys of the other members.
    starts: [u32; MAX_MEMBERS],
    /// Hashes of the other members' unescaped names, once one of them has escapes. Comparing those character by character is
    /// slow, and a sender who could predict the hashes would choose names that need it.
    hashes: [u16; MAX_MEMBERS],
    seed: Option<RandomState>,
}

impl<S: Sought> Ledger<S> {
    pub(crate) fn new() -> Self {
        Self {
            sought: PhantomData,
            found: 0,
            count: 0,
            others: 0,
            starts: [0; MAX_MEMBERS],
            hashes: [0; MAX_MEMBERS],
            seed: None,
        }
    }

    /// Returns the number of entered members.
    pub(crate) fn count(&self) -> u8 {
        self.count
    }

    /// Notes one more member, and tells which one of those looked for it is.
    #[inline]
    pub(crate) fn enter(&mut self, bytes: &[u8], key: Text) -> Result<Option<S>, Fault> {
        if usize::from(self.count) == MAX_MEMBERS {
            return Err(Fault::TooManyMembers);
        }
        self.count += 1;
        if !key.escaped
            && let Some(member) = S::named(inside(key.span.of(bytes)))
        {
            return self.find(member, key);
        }
        self.enter_unknown(bytes, key)
    }

    #[inline]
    fn find(&mut self, member: S, key: Text) -> Result<Option<S>, Fault> {
        let bit = 1_u32 << member.index();
        if self.found & bit != 0 {
            return Err(Fault::Duplicate { at: key.span.start });
        }
        self.found |= bit;
        Ok(Some(member))
    }

    #[inline(never)]
    fn enter_unknown(&mut self, bytes: &[u8], key: Text) -> Result<Option<S>, Fault> {
        let at = key.span.start;
        if key.span.len() > MAX_NAME + 2 {
            return Err(Fault::LongName { at });
        }
        let literal = key.span.of(bytes);
        if key.escaped {
            let name = S::NAMES.iter().find(|name| quote::is(literal, name));
            if let Some(member) = name.and_then(|name| S::named(name.as_bytes())) {
                return self.find(member, key);
            }
        }
        if let Some(key) = S::NAMES.iter().find(|name| looks_like(literal, key.escaped, name)) {
            return Err(Fault::Disguised { key, at });
        }
        self.enter_other(bytes, key)?;
        Ok(None)
    }

    fn enter_other(&mut self, bytes: &[u8], key: Text) -> Result<(), Fault> {
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
            let same = match hash {
                Some(hash) => {
                    hash == earlier_hash
                        && unescaped(literal).eq(unescaped(literal_at(bytes, start)))
                }
                None => from(bytes, start).starts_with(literal),
            };
            if same {
                return Err(Fault::Duplicate { at: key.span.start });
            }
        }
        if let (Some(start), Some(slot)) =
            (self.starts.get_mut(others), self.hashes.get_mut(others))
        {
            (*start, *slot) = (key.span.start, hash.unwrap_or_default());
            self.others += 1;
        }
        Ok(())
    }
}

/// Returns `true` if some parsers take the key `literal`, which is not `name`, for it.
pub(crate) fn looks_like(literal: &[u8], escaped: bool, name: &str) -> bool {
    let inside = inside(literal);
    if !escaped && inside.is_ascii() {
        return inside.eq_ignore_ascii_case(name.as_bytes());
    }
    let visible = unescaped(literal).take_while(|&char| char != '\0');
    visible.flat_map(fold).eq(name.chars().flat_map(fold))
}

/// Case folding, as far as it leads to ASCII: the simple and the full foldings of Unicode, the Turkic ones, and whatever
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

fn unescaped(literal: &[u8]) -> Unescaped<'_> {
    Unescaped::new(std::str::from_utf8(inside(literal)).unwrap_or_default())
}

/// A hash of the unescaped name.
fn hash_of(seed: &RandomState, literal: &[u8]) -> u16 {
    let mut hasher = seed.build_hasher();
    unescaped(literal).for_each(|char| hasher.write_u32(char.into()));
    let [low, high, ..] = hasher.finish().to_le_bytes();
    u16::from_le_bytes([low, high])
}

fn from(bytes: &[u8], start: u32) -> &[u8] {
    bytes.get(start as usize..).unwrap_or_default()
}

/// The string literal at `start`, which was read before.
fn literal_at(bytes: &[u8], start: u32) -> &[u8] {
    let bytes = from(bytes, start);
    Lexer::whole(bytes).string().map_or(&[], |text| text.span.of(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folds_whatever_changes_case_into_ascii_letters() {
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

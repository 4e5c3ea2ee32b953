//! Terms of a text: words of identifiers and sentences, normalized.

mod stop_words;

use std::borrow::Cow;
use std::hash::{BuildHasher, BuildHasherDefault, Hasher, RandomState};

use hashbrown::HashMap;
use rust_stemmers::{Algorithm, Stemmer};
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

use self::stop_words::is_stop_word;

/// Maximum length of a term in bytes. Longer ones are data, such as encoded images, and not words.
const MAX_TERM_LENGTH: usize = 64;

/// Maximum number of words whose terms are remembered while a set is indexed.
const MAX_CACHED_WORDS: usize = 64 * 1024;

/// Splitter of texts into terms.
///
/// Splits identifiers at `_`, `-`, `.`, `/`, at changes of case (`readHTTPBody`) and between letters and digits. Text of
/// scripts without spaces between words, such as Chinese or Thai, yields pairs of adjacent characters. Terms are normalized
/// (NFKC), in lower case, and without English endings; English stop words are left out.
pub(crate) struct Analyzer {
    stemmer: Stemmer,
}

/// Terms as an index knows them: by their hashes.
pub(crate) struct Vocabulary {
    analyzer: Analyzer,
    /// Its keys are secret, so that no definition can be written to collide with another one's terms.
    hasher: RandomState,
}

/// Hashes of the terms of several texts. Each different word is stemmed once.
pub(crate) struct TermHashes<'a> {
    vocabulary: &'a Vocabulary,
    /// Hash of the term of a word, by the hash of the word.
    by_word: HashMap<u64, Option<u64>, BuildHasherDefault<TermHasher>>,
}

/// Hasher of terms and words, which are hashes already.
#[derive(Default)]
pub(crate) struct TermHasher(u64);

/// Kind of a character, as far as it separates words.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CharKind {
    Separator,
    Upper,
    /// Letter without upper case, or mark on one.
    Letter,
    Digit,
    /// Letter of a script that has no spaces between words.
    Unspaced,
}

impl Analyzer {
    pub(crate) fn new() -> Self {
        Self { stemmer: Stemmer::create(Algorithm::English) }
    }

    /// Calls `emit` with each term of `text`, in order. Terms occur as often as in the text.
    pub(crate) fn for_each(&self, text: &str, mut emit: impl FnMut(&str)) {
        for_each_word(text, |word| {
            if let Some(term) = self.term(word) {
                emit(&term);
            }
        });
    }

    /// Returns the terms of `text`.
    pub(crate) fn terms(&self, text: &str) -> Vec<String> {
        let mut terms = Vec::new();
        self.for_each(text, |term| terms.push(term.to_owned()));
        terms
    }

    /// Returns the term of a word, unless it is a stop word or too long.
    fn term<'a>(&self, word: &'a str) -> Option<Cow<'a, str>> {
        if word.len() > MAX_TERM_LENGTH {
            return None;
        }
        let lower = if word.bytes().all(|byte| byte.is_ascii_lowercase()) {
            Cow::Borrowed(word)
        } else {
            Cow::Owned(word.to_lowercase())
        };
        if is_stop_word(&lower) {
            return None;
        }
        // The stemmer knows English only; in words with other letters it would cut what looks like an English ending.
        if lower.bytes().all(|byte| byte.is_ascii_lowercase()) {
            Some(self.stemmer.stem(&lower).into_owned().into())
        } else {
            Some(lower)
        }
    }
}

impl Vocabulary {
    pub(crate) fn new() -> Self {
        Self { analyzer: Analyzer::new(), hasher: RandomState::new() }
    }

    pub(crate) fn analyzer(&self) -> &Analyzer {
        &self.analyzer
    }

    /// Returns the hash by which the index knows `term`.
    pub(crate) fn hash(&self, term: &str) -> u64 {
        self.hasher.hash_one(term)
    }
}

impl<'a> TermHashes<'a> {
    pub(crate) fn new(vocabulary: &'a Vocabulary) -> Self {
        Self { vocabulary, by_word: HashMap::default() }
    }

    /// Calls `emit` with the hash of each term of `text`, in order.
    pub(crate) fn for_each(&mut self, text: &str, mut emit: impl FnMut(u64)) {
        for_each_word(text, |word| {
            let key = self.vocabulary.hash(word);
            let hash = match self.by_word.get(&key) {
                Some(hash) => *hash,
                None => self.add(key, word),
            };
            if let Some(hash) = hash {
                emit(hash);
            }
        });
    }

    fn add(&mut self, key: u64, word: &str) -> Option<u64> {
        let term = self.vocabulary.analyzer.term(word);
        let hash = term.map(|term| self.vocabulary.hash(&term));
        if self.by_word.len() < MAX_CACHED_WORDS {
            self.by_word.insert(key, hash);
        }
        hash
    }
}

/// Calls `emit` with each word of `text`, in order, and with each pair of adjacent characters of text without spaces.
fn for_each_word(text: &str, mut emit: impl FnMut(&str)) {
    let text = if text.is_ascii() { Cow::Borrowed(text) } else { text.nfkc().collect() };
    let mut words = Words { text: &text, rest: 0 };
    while let Some((word, kind)) = words.next_word() {
        if kind == CharKind::Unspaced {
            for_each_pair(word, &mut emit);
        } else {
            emit(word);
        }
    }
}

/// Iterator over the words of a text: runs of characters between separators and changes of case.
struct Words<'a> {
    text: &'a str,
    rest: usize,
}

impl<'a> Words<'a> {
    fn next_word(&mut self) -> Option<(&'a str, CharKind)> {
        let rest = &self.text[self.rest..];
        let start = rest.find(|char| kind_of(char) != CharKind::Separator)?;
        let rest = &rest[start..];
        let (end, kind) = word_end(rest);
        self.rest = self.text.len() - rest.len() + end;
        Some((&rest[..end], kind))
    }
}

/// Returns the length of the first word of `text`, which begins with it, and its kind.
fn word_end(text: &str) -> (usize, CharKind) {
    let mut chars = text.char_indices().map(|(at, char)| (at, kind_of(char))).peekable();
    let Some((_, first)) = chars.next() else { return (0, CharKind::Separator) };
    let mut last = first;
    while let Some((at, kind)) = chars.next() {
        let joins = match (last, kind) {
            (CharKind::Upper | CharKind::Letter, CharKind::Letter) => true,
            (CharKind::Upper, CharKind::Upper) => {
                // The last capital letter before a small one begins the next word: `HTTPBody`.
                !matches!(chars.peek(), Some((_, CharKind::Letter)))
            }
            (last, kind) => last == kind,
        };
        if !joins {
            return (at, last);
        }
        last = kind;
    }
    (text.len(), last)
}

/// Calls `emit` with each pair of adjacent characters, or with the only one.
fn for_each_pair(word: &str, emit: &mut impl FnMut(&str)) {
    let mut starts = word.char_indices().map(|(at, _)| at).skip(1).peekable();
    if starts.peek().is_none() {
        return emit(word);
    }
    let mut start = 0;
    while let Some(middle) = starts.next() {
        let end = starts.peek().copied().unwrap_or(word.len());
        emit(&word[start..end]);
        start = middle;
    }
}

fn kind_of(char: char) -> CharKind {
    match char {
        'a'..='z' => CharKind::Letter,
        'A'..='Z' => CharKind::Upper,
        '0'..='9' => CharKind::Digit,
        '\0'..='\x7f' => CharKind::Separator,
        char if is_unspaced(char) => CharKind::Unspaced,
        char if char.is_numeric() => CharKind::Digit,
        char if char.is_uppercase() => CharKind::Upper,
        char if char.is_alphabetic() || is_combining_mark(char) => CharKind::Letter,
        _ => CharKind::Separator,
    }
}

/// Returns `true` for letters and marks of Thai, Lao, Myanmar, Khmer, Japanese and Chinese.
fn is_unspaced(char: char) -> bool {
    matches!(char, '\u{0e00}'..='\u{0eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}'
        | '\u{3040}'..='\u{30ff}' | '\u{31f0}'..='\u{31ff}' | '\u{3400}'..='\u{4dbf}'
        | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
        && (char.is_alphabetic() || is_combining_mark(char))
}

impl Hasher for TermHasher {
    fn write(&mut self, bytes: &[u8]) {
        // Never called: the keys are of type u64. It is a valid hasher nevertheless.
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn terms(text: &str) -> Vec<String> {
        Analyzer::new().terms(text)
    }

    #[test]
    fn splits_identifiers() {
        assert_eq!(terms("readHTTPBody"), ["read", "http", "bodi"]);
        assert_eq!(terms("get_user-by.name/v2"), ["get", "user", "name", "v", "2"]);
        assert_eq!(terms("XMLParser base64"), ["xml", "parser", "base", "64"]);
        assert_eq!(terms("ÄnderungSuchen"), ["änderung", "suchen"]);
    }

    #[test]
    fn omits_stop_words_and_endings() {
        assert_eq!(terms("Searching the repositories"), ["search", "repositori"]);
        assert_eq!(terms("search for a repository"), ["search", "repositori"]);
        assert!(terms("What is this?").is_empty());
    }

    #[test]
    fn unspaced_scripts_yield_pairs() {
        assert_eq!(terms("查询天气 now"), ["查询", "询天", "天气", "now"]);
        assert_eq!(terms("雨 rain"), ["雨", "rain"]);
        assert_eq!(terms("ค้นหา").len(), 4);
        assert_eq!(terms("날씨 हिन्दी погода"), ["날씨", "हिन्दी", "погода"]);
    }

    #[test]
    fn equivalent_spellings_are_equal() {
        assert_eq!(terms("cafe\u{301} ＲＥＡＤ ﬁle"), terms("café READ file"));
    }

    proptest! {
        #[test]
        fn terms_are_bounded_and_not_empty(text in "\\PC{0,200}") {
            for term in terms(&text) {
                prop_assert!(!term.is_empty() && term.len() <= 2 * MAX_TERM_LENGTH, "{term:?}");
            }
        }
    }
}

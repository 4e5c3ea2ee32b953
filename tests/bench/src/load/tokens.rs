//! Bearer tokens of the workers.

use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use http::HeaderValue;

use crate::BoxError;

/// All tokens of a run.
#[derive(Debug)]
pub(super) struct Tokens {
    /// Tokens with their scheme.
    all: Vec<HeaderValue>,
    each_once: bool,
    taken: AtomicUsize,
}

impl Tokens {
    /// Reads the tokens in `file`, one a line.
    pub(super) fn read(file: Option<&Path>, each_once: bool) -> Result<Self, BoxError> {
        let text = match file {
            Some(file) => {
                fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?
            }
            None => String::new(),
        };
        let bearer = |token: &str| HeaderValue::from_str(&format!("Bearer {token}"));
        let all = text.lines().map(bearer).collect::<Result<Vec<_>, _>>()?;
        if file.is_some() && all.is_empty() {
            return Err("there are no tokens in the file".into());
        }
        Ok(Self { all, each_once, taken: AtomicUsize::new(0) })
    }

    /// Returns the next token of `worker`, or `None` without tokens.
    pub(super) fn next(&self, worker: usize) -> Result<Option<HeaderValue>, BoxError> {
        if self.all.is_empty() {
            return Ok(None);
        }
        if !self.each_once {
            return Ok(self.all.get(worker % self.all.len()).cloned());
        }
        let token = self.all.get(self.taken.fetch_add(1, Relaxed)).cloned();
        token.map(Some).ok_or_else(|| "there are more requests than tokens".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(each_once: bool) -> Tokens {
        let all = ["a", "b"].map(HeaderValue::from_static).to_vec();
        Tokens { all, each_once, taken: AtomicUsize::new(0) }
    }

    #[test]
    fn worker_keeps_same_token() {
        let tokens = tokens(false);
        for (worker, token) in [(0, "a"), (1, "b"), (2, "a"), (1, "b")] {
            assert_eq!(tokens.next(worker).unwrap().unwrap(), token);
        }
    }

    #[test]
    fn uses_each_token_once_and_then_fails() {
        let tokens = tokens(true);
        assert_eq!(tokens.next(1).unwrap().unwrap(), "a");
        assert_eq!(tokens.next(1).unwrap().unwrap(), "b");
        assert!(tokens.next(1).is_err());
    }

    #[test]
    fn missing_token_file_sends_no_token() {
        assert!(Tokens::read(None, false).unwrap().next(0).unwrap().is_none());
    }
}

//! Texts: borrowed from the template or its data, or results of functions.

use std::{ops::Range, rc::Rc};

/// Text during a rendering.
#[derive(Debug, Clone)]
pub(crate) enum Text<'a> {
    Borrowed(&'a str),
    /// Part of a text that a function returned.
    Shared(Rc<str>, Range<usize>),
}

impl Text<'_> {
    pub(crate) fn as_str(&self) -> &str {
        match self {
            Self::Borrowed(text) => text,
            Self::Shared(text, range) => &text[range.clone()],
        }
    }

    /// Returns a part of the text, unless its ends are inside of a character.
    pub(crate) fn slice(&self, part: Range<usize>) -> Option<Self> {
        self.as_str().get(part.clone())?;
        Some(match self {
            Self::Borrowed(text) => Self::Borrowed(&text[part]),
            Self::Shared(text, range) => {
                Self::Shared(Rc::clone(text), range.start + part.start..range.start + part.end)
            }
        })
    }
}

impl From<String> for Text<'_> {
    fn from(text: String) -> Self {
        let length = text.len();
        Self::Shared(text.into(), 0..length)
    }
}

//! Lexer: text and actions of a template as tokens, with white space trimmed where markers ask for it.

mod number;

use crate::token::{Keyword, Token, TokenKind};

const LEFT_DELIMITER: &str = "{{";
const RIGHT_DELIMITER: &str = "}}";
const LEFT_COMMENT: &str = "/*";
const RIGHT_COMMENT: &str = "*/";
/// Size of a trim marker: `-` and the space on its inner side.
const TRIM_MARKER_SIZE: usize = 2;
const SPACES: [char; 4] = [' ', '\t', '\r', '\n'];

/// Lexer of one template.
#[derive(Debug)]
pub(crate) struct Lexer<'s> {
    source: &'s str,
    /// Offset of the next character.
    at: usize,
    is_in_action: bool,
    open_parentheses: usize,
}

/// Error in the text of a template, at a byte offset.
#[derive(Debug)]
pub(crate) struct SyntaxError {
    pub(crate) at: usize,
    pub(crate) message: String,
}

// === impl SyntaxError ===

impl SyntaxError {
    pub(crate) fn new(at: usize, message: impl Into<String>) -> Self {
        Self { at, message: message.into() }
    }
}

// === impl Lexer ===

impl<'s> Lexer<'s> {
    pub(crate) fn new(source: &'s str) -> Self {
        Self { source, at: 0, is_in_action: false, open_parentheses: 0 }
    }

    /// Returns the next token; at the end, [`TokenKind::EndOfText`] each time.
    pub(crate) fn next_token(&mut self) -> Result<Token<'s>, SyntaxError> {
        if self.is_in_action { self.token_in_action() } else { self.token_outside() }
    }

    /// Returns the next text or the start of an action. Skips comments.
    fn token_outside(&mut self) -> Result<Token<'s>, SyntaxError> {
        loop {
            let start = self.at;
            let Some(length) = self.rest().find(LEFT_DELIMITER) else {
                self.at = self.source.len();
                let is_end = start == self.at;
                return Ok(
                    self.token(if is_end { TokenKind::EndOfText } else { TokenKind::Text }, start)
                );
            };
            let delimiter = start + length;
            let mut inner = delimiter + LEFT_DELIMITER.len();
            let is_trimmed = has_left_trim_marker(&self.source[inner..]);
            let text = &self.source[start..delimiter];
            let text = if is_trimmed { text.trim_end_matches(SPACES) } else { text };
            if !text.is_empty() {
                self.at = delimiter;
                return Ok(Token { kind: TokenKind::Text, at: start, text });
            }
            inner += if is_trimmed { TRIM_MARKER_SIZE } else { 0 };
            self.at = inner;
            if self.rest().starts_with(LEFT_COMMENT) {
                self.skip_comment(delimiter)?;
                continue;
            }
            self.is_in_action = true;
            self.open_parentheses = 0;
            let text = &self.source[delimiter..delimiter + LEFT_DELIMITER.len()];
            return Ok(Token { kind: TokenKind::LeftDelimiter, at: delimiter, text });
        }
    }

    /// Skips a comment together with the end of its action.
    fn skip_comment(&mut self, delimiter: usize) -> Result<(), SyntaxError> {
        self.at += LEFT_COMMENT.len();
        let Some(length) = self.rest().find(RIGHT_COMMENT) else {
            return Err(SyntaxError::new(delimiter, "the comment is not closed; add */}}"));
        };
        self.at += length + RIGHT_COMMENT.len();
        if self.right_delimiter().is_none() {
            let message =
                "text follows the comment in its action; write {{/* and */}} without spaces";
            return Err(SyntaxError::new(self.at, message));
        }
        self.skip_right_delimiter();
        Ok(())
    }

    /// Returns whether the action ends here, and if so, whether it trims the text after it.
    fn right_delimiter(&self) -> Option<bool> {
        let rest = self.rest();
        if has_right_trim_marker(rest) && rest[TRIM_MARKER_SIZE..].starts_with(RIGHT_DELIMITER) {
            return Some(true);
        }
        rest.starts_with(RIGHT_DELIMITER).then_some(false)
    }

    /// Skips the end of an action and the white space that it trims. Returns the offset of the delimiter.
    fn skip_right_delimiter(&mut self) -> usize {
        let is_trimmed = self.right_delimiter() == Some(true);
        self.at += if is_trimmed { TRIM_MARKER_SIZE } else { 0 };
        let delimiter = self.at;
        self.at += RIGHT_DELIMITER.len();
        if is_trimmed {
            let rest = self.rest();
            self.at += rest.len() - rest.trim_start_matches(SPACES).len();
        }
        delimiter
    }

    fn token_in_action(&mut self) -> Result<Token<'s>, SyntaxError> {
        let start = self.at;
        if self.right_delimiter().is_some() {
            if self.open_parentheses > 0 {
                return Err(SyntaxError::new(start, "a parenthesis is not closed; add )"));
            }
            return Ok(self.end_action());
        }
        let Some(first) = self.advance() else {
            return Err(SyntaxError::new(start, "the action is not closed; add }}"));
        };
        let kind = match first {
            ' ' | '\t' | '\r' | '\n' => return Ok(self.space_or_end(start)),
            '=' => TokenKind::Assign,
            ':' if self.advance() == Some('=') => TokenKind::Declare,
            ':' => return Err(SyntaxError::new(start, "a colon alone has no meaning; write :=")),
            '|' => TokenKind::Pipe,
            '"' => self.quoted('"', start)?,
            '`' => self.raw_quoted(start)?,
            '\'' => self.quoted('\'', start)?,
            '$' => self.name(TokenKind::Variable, start)?,
            '.' if !self.rest().starts_with(|next: char| next.is_ascii_digit()) => {
                let kind = if self.is_at_terminator() { TokenKind::Dot } else { TokenKind::Field };
                self.name(kind, start)?
            }
            '.' | '+' | '-' | '0'..='9' => {
                self.at = start;
                self.number()?
            }
            '(' => {
                self.open_parentheses += 1;
                TokenKind::LeftParenthesis
            }
            ')' if self.open_parentheses == 0 => {
                return Err(SyntaxError::new(start, "no parenthesis is open; remove )"));
            }
            ')' => {
                self.open_parentheses -= 1;
                TokenKind::RightParenthesis
            }
            ',' => TokenKind::Comma,
            other if is_alphanumeric(other) => {
                self.name(TokenKind::Identifier, start)?;
                word_kind(&self.source[start..self.at])
            }
            ' '..='~' => TokenKind::Other,
            other => {
                let message = format!("the character {other:?} has no meaning in an action");
                return Err(SyntaxError::new(start, message));
            }
        };
        Ok(self.token(kind, start))
    }

    fn end_action(&mut self) -> Token<'s> {
        let delimiter = self.skip_right_delimiter();
        self.is_in_action = false;
        let text = &self.source[delimiter..delimiter + RIGHT_DELIMITER.len()];
        Token { kind: TokenKind::RightDelimiter, at: delimiter, text }
    }

    /// Returns a run of white space as a token. Its last character may belong to the trim marker of the action's end.
    fn space_or_end(&mut self, start: usize) -> Token<'s> {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start_matches(SPACES).len();
        self.at -= 1;
        if self.right_delimiter() != Some(true) {
            self.at += 1;
        } else if self.at == start && self.open_parentheses == 0 {
            return self.end_action();
        }
        self.token(TokenKind::Space, start)
    }

    /// Consumes the rest of a name.
    fn name(&mut self, kind: TokenKind, start: usize) -> Result<TokenKind, SyntaxError> {
        while self.peek().is_some_and(is_alphanumeric) {
            self.advance();
        }
        if self.is_at_terminator() {
            return Ok(kind);
        }
        let name = &self.source[start..self.at];
        let found = self.peek().unwrap_or_default();
        let message = match found {
            '-' => format!(
                "{name:?} cannot continue with a hyphen; use index, such as {{{{index .steps \"my-id\"}}}}"
            ),
            _ => format!("the character {found:?} cannot follow {name:?}; add a space"),
        };
        Err(SyntaxError::new(self.at, message))
    }

    /// Consumes the rest of a text or character constant in quotes with escapes.
    fn quoted(&mut self, quote: char, start: usize) -> Result<TokenKind, SyntaxError> {
        loop {
            match self.advance() {
                Some('\\') if self.peek().is_some_and(|next| next != '\n') => {
                    self.advance();
                }
                Some('\\' | '\n') | None => {
                    let message = format!("the quoted text is not closed on its line; add {quote}");
                    return Err(SyntaxError::new(start, message));
                }
                Some(found) if found == quote && quote == '"' => return Ok(TokenKind::Quoted),
                Some(found) if found == quote => return Ok(TokenKind::Character),
                Some(_) => {}
            }
        }
    }

    fn raw_quoted(&mut self, start: usize) -> Result<TokenKind, SyntaxError> {
        let Some(length) = self.rest().find('`') else {
            return Err(SyntaxError::new(start, "the text in backquotes is not closed; add `"));
        };
        self.at += length + 1;
        Ok(TokenKind::Quoted)
    }

    /// Returns whether a name may end here.
    fn is_at_terminator(&self) -> bool {
        match self.peek() {
            None | Some(' ' | '\t' | '\r' | '\n' | '.' | ',' | '|' | ':' | ')' | '(') => true,
            Some(_) => self.rest().starts_with(RIGHT_DELIMITER),
        }
    }

    fn token(&self, kind: TokenKind, start: usize) -> Token<'s> {
        Token { kind, at: start, text: &self.source[start..self.at] }
    }

    fn rest(&self) -> &'s str {
        &self.source[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn advance(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.at += next.len_utf8();
        Some(next)
    }
}

fn word_kind(word: &str) -> TokenKind {
    match word {
        "true" | "false" => TokenKind::Boolean,
        "nil" => TokenKind::Nil,
        _ => Keyword::of(word).map_or(TokenKind::Identifier, TokenKind::Keyword),
    }
}

fn is_alphanumeric(character: char) -> bool {
    character == '_' || character.is_alphanumeric()
}

fn has_left_trim_marker(text: &str) -> bool {
    text.strip_prefix('-').is_some_and(|rest| rest.starts_with(SPACES))
}

fn has_right_trim_marker(text: &str) -> bool {
    text.strip_prefix(SPACES).is_some_and(|rest| rest.starts_with('-'))
}

//! Extent of a number in an action. Its value is checked by the parser.

use super::{Lexer, SyntaxError, is_alphanumeric};
use crate::token::TokenKind;

const DECIMAL: &str = "0123456789_";
const HEXADECIMAL: &str = "0123456789abcdefABCDEF_";

impl Lexer<'_> {
    /// Consumes a number.
    pub(super) fn number(&mut self) -> Result<TokenKind, SyntaxError> {
        let start = self.at;
        self.scan_number();
        match self.peek() {
            Some(next) if is_alphanumeric(next) => {
                self.advance();
                let number = &self.source[start..self.at];
                Err(SyntaxError::new(start, format!("{number:?} is not a number")))
            }
            // Go has complex numbers here. JSON does not.
            Some('+' | '-') => {
                let message =
                    "an action has no arithmetic and no complex numbers; remove the second sign";
                Err(SyntaxError::new(self.at, message))
            }
            _ => Ok(TokenKind::Number),
        }
    }

    fn scan_number(&mut self) {
        self.accept("+-");
        let mut digits = DECIMAL;
        if self.accept("0") {
            if self.accept("xX") {
                digits = HEXADECIMAL;
            } else if self.accept("oO") {
                digits = "01234567_";
            } else if self.accept("bB") {
                digits = "01_";
            }
        }
        self.accept_all(digits);
        if self.accept(".") {
            self.accept_all(digits);
        }
        let exponent = match digits {
            DECIMAL => "eE",
            HEXADECIMAL => "pP",
            _ => "",
        };
        if self.accept(exponent) {
            self.accept("+-");
            self.accept_all(DECIMAL);
        }
    }

    fn accept(&mut self, set: &str) -> bool {
        let is_accepted = self.peek().is_some_and(|next| set.contains(next));
        if is_accepted {
            self.advance();
        }
        is_accepted
    }

    fn accept_all(&mut self, set: &str) {
        while self.accept(set) {}
    }
}

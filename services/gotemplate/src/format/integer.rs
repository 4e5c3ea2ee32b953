//! Integers: `%d`, `%b`, `%o`, `%x`, `%c`, `%q`, `%U`.

use super::{
    Printer,
    quote::{is_printable, quote_character},
};
use crate::evaluation_error::EvaluationError;

impl Printer<'_> {
    /// Prints an `int`. Returns whether the verb supports it.
    pub(super) fn integer(
        &mut self,
        magnitude: u64,
        is_negative: bool,
        verb: char,
    ) -> Result<bool, EvaluationError> {
        match verb {
            'v' | 'd' => self.digits(magnitude.to_string(), is_negative, verb)?,
            'b' => self.digits(format!("{magnitude:b}"), is_negative, verb)?,
            'o' | 'O' => self.digits(format!("{magnitude:o}"), is_negative, verb)?,
            'x' => self.digits(format!("{magnitude:x}"), is_negative, verb)?,
            'X' => self.digits(format!("{magnitude:X}"), is_negative, verb)?,
            'c' => {
                let character = to_character(magnitude, is_negative);
                self.pad(character.encode_utf8(&mut [0; 4]))?;
            }
            'q' => {
                let character = to_character(magnitude, is_negative);
                let quoted = quote_character(character, self.flags.has_plus);
                self.pad(&quoted)?;
            }
            'U' => self.code_point(magnitude, is_negative)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Prints a `uint8`. Returns whether the verb supports it.
    pub(super) fn byte(&mut self, byte: u8, verb: char) -> Result<bool, EvaluationError> {
        if verb == 'v' && self.flags.is_go_syntax {
            self.flags.has_prefix = true;
            let printed = self.digits(format!("{byte:x}"), false, 'x');
            self.flags.has_prefix = false;
            return printed.map(|()| true);
        }
        self.integer(u64::from(byte), false, verb)
    }

    /// Prints the digits of a number with the sign, zeros and prefix that the flags ask for.
    fn digits(
        &mut self,
        mut digits: String,
        is_negative: bool,
        verb: char,
    ) -> Result<(), EvaluationError> {
        let flags = self.flags;
        let has_sign = is_negative || flags.has_plus || flags.has_space;
        let least = match (flags.precision, flags.width) {
            (Some(0), width) if digits == "0" => {
                return self.output.fill(' ', width.unwrap_or(0));
            }
            (Some(precision), _) => precision,
            (None, Some(width)) if flags.has_zero && !flags.is_left_aligned => {
                width.saturating_sub(usize::from(has_sign))
            }
            _ => 0,
        };
        self.output.check_room(least)?;
        if digits.len() < least {
            digits.insert_str(0, &"0".repeat(least - digits.len()));
        }
        let prefix = match verb {
            'O' => "0o",
            'b' if flags.has_prefix => "0b",
            'o' if flags.has_prefix && !digits.starts_with('0') => "0",
            'x' if flags.has_prefix => "0x",
            'X' if flags.has_prefix => "0X",
            _ => "",
        };
        // `%#O` prints both prefixes.
        let octal =
            if verb == 'O' && flags.has_prefix && !digits.starts_with('0') { "0" } else { "" };
        let sign = match () {
            () if is_negative => "-",
            () if flags.has_plus => "+",
            () if flags.has_space => " ",
            () => "",
        };
        self.pad_with_spaces(&format!("{sign}{prefix}{octal}{digits}"))
    }

    /// Prints a number as a code point: `U+0078`, with `#` also the character.
    fn code_point(&mut self, magnitude: u64, is_negative: bool) -> Result<(), EvaluationError> {
        let code = if is_negative { magnitude.wrapping_neg() } else { magnitude };
        let precision = self.flags.precision.unwrap_or(0).max(4);
        self.output.check_room(precision)?;
        let mut digits = format!("{code:X}");
        if digits.len() < precision {
            digits.insert_str(0, &"0".repeat(precision - digits.len()));
        }
        let character = u32::try_from(code).ok().and_then(char::from_u32);
        let shown = match character.filter(|it| self.flags.has_prefix && is_printable(*it)) {
            Some(character) => format!("U+{digits} '{character}'"),
            None => format!("U+{digits}"),
        };
        self.pad_with_spaces(&shown)
    }
}

fn to_character(magnitude: u64, is_negative: bool) -> char {
    let code = u32::try_from(magnitude).ok().filter(|_| !is_negative);
    code.and_then(char::from_u32).unwrap_or(char::REPLACEMENT_CHARACTER)
}

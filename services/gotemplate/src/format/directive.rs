//! Flags of a formatting directive.

/// Flags of a formatting directive, such as `%-8.3f`.
#[derive(Debug, Clone, Copy, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of a directive")]
pub(crate) struct Flags {
    pub(super) width: Option<usize>,
    pub(super) precision: Option<usize>,
    /// `-`: pads on the right.
    pub(super) is_left_aligned: bool,
    /// `+`: always prints a sign, or ASCII only.
    pub(super) has_plus: bool,
    /// `#`: prints prefixes such as `0x`.
    pub(super) has_prefix: bool,
    /// ` `: prints a space for the sign of a positive number.
    pub(super) has_space: bool,
    /// `0`: pads numbers with zeros.
    pub(super) has_zero: bool,
    /// `%#v`: prints in the syntax of Go.
    pub(super) is_go_syntax: bool,
}

impl Flags {
    /// Sets a flag. Returns whether the character is one.
    pub(super) fn set(&mut self, flag: u8) -> bool {
        match flag {
            b'#' => self.has_prefix = true,
            b'0' => self.has_zero = true,
            b'+' => self.has_plus = true,
            b'-' => self.is_left_aligned = true,
            b' ' => self.has_space = true,
            _ => return false,
        }
        true
    }

    /// Interprets the flags for a verb: with `v`, `#` and `+` have other meanings.
    pub(super) fn for_verb(mut self, verb: char) -> Self {
        if matches!(verb, 'v' | 'w') {
            self.is_go_syntax = self.has_prefix;
            self.has_prefix = false;
            self.has_plus = false;
        }
        self
    }
}

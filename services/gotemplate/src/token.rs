//! Tokens of a template.

/// Token of a template, with its text and byte offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Token<'s> {
    pub(crate) kind: TokenKind,
    pub(crate) at: usize,
    pub(crate) text: &'s str,
}

/// Kind of a [`Token`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TokenKind {
    /// `=`
    Assign,
    /// `true` or `false`
    Boolean,
    /// Character constant with its quotes: `'x'`
    Character,
    /// `,`
    Comma,
    /// `:=`
    Declare,
    /// `.`
    Dot,
    /// End of the template.
    EndOfText,
    /// `.name`
    Field,
    /// Name of a function.
    Identifier,
    /// Word with a meaning of its own: `if`, `end`.
    Keyword(Keyword),
    /// `{{`
    LeftDelimiter,
    /// `(`
    LeftParenthesis,
    /// `nil`
    Nil,
    /// Number, not checked yet.
    Number,
    /// `|`
    Pipe,
    /// Text in double quotes or backquotes, with its quotes.
    Quoted,
    /// `}}`
    RightDelimiter,
    /// `)`
    RightParenthesis,
    /// White space between operands.
    Space,
    /// Text outside of actions.
    Text,
    /// `$` or `$name`
    Variable,
    /// Any other printable ASCII character.
    Other,
}

/// Word with a meaning of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keyword {
    Block,
    Break,
    Continue,
    Define,
    Else,
    End,
    If,
    Range,
    Template,
    With,
}

// === impl Token ===

impl Token<'_> {
    /// Returns the token as an error message shows it.
    pub(crate) fn description(&self) -> String {
        const MAX_CHARACTERS: usize = 40;
        match self.kind {
            TokenKind::EndOfText => "end of the template".to_owned(),
            TokenKind::RightDelimiter => "end of the action".to_owned(),
            _ if self.text.chars().count() > MAX_CHARACTERS => {
                let start: String = self.text.chars().take(MAX_CHARACTERS).collect();
                format!("{start:?}…")
            }
            _ => format!("{:?}", self.text),
        }
    }
}

// === impl Keyword ===

impl Keyword {
    /// Returns the keyword that a word is.
    pub(crate) fn of(word: &str) -> Option<Self> {
        Some(match word {
            "block" => Self::Block,
            "break" => Self::Break,
            "continue" => Self::Continue,
            "define" => Self::Define,
            "else" => Self::Else,
            "end" => Self::End,
            "if" => Self::If,
            "range" => Self::Range,
            "template" => Self::Template,
            "with" => Self::With,
            _ => return None,
        })
    }
}

//! Parser: tokens to a syntax tree, with the grammar of Go's `text/template`.

mod action;
mod operand;
mod pipeline;

use std::mem;

use crate::{
    lexer::{Lexer, SyntaxError},
    syntax::{Bodies, List, Node, is_blank},
    token::{Keyword, Token, TokenKind},
};

/// Maximum nesting of parentheses, branches, loops and blocks. It bounds the recursion of parser and renderer.
const MAX_NESTING: usize = 100;

/// Maximum number of variables in one body. It bounds the search for a variable.
const MAX_VARIABLES: usize = 1_000;

/// Parses a template into its main body and the bodies that it defines.
pub(crate) fn parse(source: &str) -> Result<Bodies, SyntaxError> {
    let mut parser = Parser {
        source,
        lexer: Lexer::new(source),
        pushed_back: Vec::new(),
        bodies: Bodies::new(),
        scope: Scope::default(),
        nesting: 0,
    };
    let main = parser.main_body()?;
    parser.define(String::new(), main, source.len())?;
    Ok(parser.bodies)
}

struct Parser<'s> {
    source: &'s str,
    lexer: Lexer<'s>,
    /// Tokens that are read again, the next one last.
    pushed_back: Vec<Token<'s>>,
    bodies: Bodies,
    scope: Scope<'s>,
    nesting: usize,
}

/// Names that the body of a template can use.
#[derive(Default)]
struct Scope<'s> {
    /// Variables besides `$`, in the order of their declaration.
    variables: Vec<&'s str>,
    /// Number of loops around the current action.
    loops: usize,
}

/// Action that ends a list.
enum ListEnd {
    /// `end`
    End,
    /// `else`, at the given offset. The keyword after it, if there is one, is not consumed.
    Else(usize),
}

/// Element of a list, or its end.
enum Element {
    Node(Node),
    End(ListEnd, usize),
}

// === impl Parser ===

impl<'s> Parser<'s> {
    /// Parses up to the end of the source. Definitions occur here only.
    fn main_body(&mut self) -> Result<List, SyntaxError> {
        let mut list = List::new();
        loop {
            let token = self.next()?;
            if token.kind == TokenKind::EndOfText {
                return Ok(list);
            }
            if token.kind == TokenKind::LeftDelimiter {
                let keyword = self.next_after_space()?;
                if keyword.kind == TokenKind::Keyword(Keyword::Define) {
                    self.definition()?;
                    continue;
                }
                self.push_back(keyword);
            }
            self.push_back(token);
            match self.element()? {
                Element::Node(node) => list.push(node),
                Element::End(end, at) => {
                    let keyword = end.keyword();
                    let message = format!("{{{{{keyword}}}}} belongs to no action; remove it");
                    return Err(SyntaxError::new(at, message));
                }
            }
        }
    }

    /// Parses a definition after its keyword.
    fn definition(&mut self) -> Result<(), SyntaxError> {
        let token = self.next_after_space()?;
        let name = Self::template_name(token, "define")?;
        self.expect_action_end("the name of the definition")?;
        self.body(name, token.at)
    }

    /// Parses the body of a definition or a block, with its own variables, and defines it.
    fn body(&mut self, name: String, at: usize) -> Result<(), SyntaxError> {
        let outer = mem::take(&mut self.scope);
        let list = self.list_to_end()?;
        self.scope = outer;
        self.define(name, list, at)
    }

    fn define(&mut self, name: String, list: List, at: usize) -> Result<(), SyntaxError> {
        if let Some(known) = self.bodies.get(name.as_str())
            && !is_blank(known, self.source)
        {
            if is_blank(&list, self.source) {
                return Ok(());
            }
            let message = format!("the template {name:?} has two definitions; rename one of them");
            return Err(SyntaxError::new(at, message));
        }
        self.bodies.insert(name.into(), list);
        Ok(())
    }

    /// Parses a list that ends with `end`.
    fn list_to_end(&mut self) -> Result<List, SyntaxError> {
        match self.list()? {
            (list, ListEnd::End) => Ok(list),
            (_, ListEnd::Else(at)) => {
                Err(SyntaxError::new(at, "this action has no further {{else}}; write {{end}}"))
            }
        }
    }

    /// Parses a list and the action that ends it.
    fn list(&mut self) -> Result<(List, ListEnd), SyntaxError> {
        let mut list = List::new();
        loop {
            if self.peek_after_space()?.kind == TokenKind::EndOfText {
                let message = "an if, range, with, define or block is not closed; add {{end}}";
                return Err(SyntaxError::new(self.source.len(), message));
            }
            match self.element()? {
                Element::Node(node) => list.push(node),
                Element::End(end, _) => return Ok((list, end)),
            }
        }
    }

    /// Parses text or an action.
    fn element(&mut self) -> Result<Element, SyntaxError> {
        let token = self.next_after_space()?;
        match token.kind {
            TokenKind::Text => Ok(Element::Node(Node::Text(token.at..token.at + token.text.len()))),
            TokenKind::LeftDelimiter => self.action(),
            TokenKind::Keyword(Keyword::If | Keyword::With) => {
                let keyword = token.text;
                let message = format!(
                    "else {keyword} belongs to {keyword}; write {{{{else}}}}{{{{{keyword} …}}}} and one more {{{{end}}}}"
                );
                Err(SyntaxError::new(token.at, message))
            }
            _ => Err(unexpected(token, "an action")),
        }
    }

    /// Parses with one more level of nesting.
    fn nested<T>(
        &mut self,
        at: usize,
        parse: impl FnOnce(&mut Self) -> Result<T, SyntaxError>,
    ) -> Result<T, SyntaxError> {
        if self.nesting == MAX_NESTING {
            let message = format!(
                "parentheses and actions are nested deeper than {MAX_NESTING}; use variables or {{{{define}}}}"
            );
            return Err(SyntaxError::new(at, message));
        }
        self.nesting += 1;
        let parsed = parse(self);
        self.nesting -= 1;
        parsed
    }

    fn next(&mut self) -> Result<Token<'s>, SyntaxError> {
        self.pushed_back.pop().map_or_else(|| self.lexer.next_token(), Ok)
    }

    fn push_back(&mut self, token: Token<'s>) {
        self.pushed_back.push(token);
    }

    fn peek(&mut self) -> Result<Token<'s>, SyntaxError> {
        let token = self.next()?;
        self.push_back(token);
        Ok(token)
    }

    fn next_after_space(&mut self) -> Result<Token<'s>, SyntaxError> {
        loop {
            let token = self.next()?;
            if token.kind != TokenKind::Space {
                return Ok(token);
            }
        }
    }

    fn peek_after_space(&mut self) -> Result<Token<'s>, SyntaxError> {
        let token = self.next_after_space()?;
        self.push_back(token);
        Ok(token)
    }

    fn expect_action_end(&mut self, subject: &str) -> Result<(), SyntaxError> {
        let token = self.next_after_space()?;
        if token.kind == TokenKind::RightDelimiter {
            return Ok(());
        }
        let found = token.description();
        Err(SyntaxError::new(token.at, format!("{found} follows {subject}; close the action")))
    }
}

// === impl ListEnd ===

impl ListEnd {
    fn keyword(&self) -> &'static str {
        match self {
            Self::End => "end",
            Self::Else(_) => "else",
        }
    }
}

fn unexpected(token: Token<'_>, context: &str) -> SyntaxError {
    SyntaxError::new(token.at, format!("{} has no place in {context}", token.description()))
}

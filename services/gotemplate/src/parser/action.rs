//! Actions with keywords.

use super::{Element, ListEnd, Parser, unexpected};
use crate::{
    lexer::SyntaxError,
    literal::unquote,
    parser::pipeline::PipelineEnd,
    syntax::{Branch, Call, List, Loop, Node},
    token::{Keyword, Token, TokenKind},
};

impl<'s> Parser<'s> {
    /// Parses an action after its delimiter.
    pub(super) fn action(&mut self) -> Result<Element, SyntaxError> {
        let token = self.next_after_space()?;
        let at = token.at;
        let node = match token.kind {
            TokenKind::Keyword(Keyword::Block) => Node::Call(self.nested(at, Self::block)?),
            TokenKind::Keyword(Keyword::Break) => self.loop_control(token, Node::Break)?,
            TokenKind::Keyword(Keyword::Continue) => self.loop_control(token, Node::Continue)?,
            TokenKind::Keyword(Keyword::Else) => return self.else_end(at),
            TokenKind::Keyword(Keyword::End) => {
                self.expect_action_end("end")?;
                return Ok(Element::End(ListEnd::End, at));
            }
            TokenKind::Keyword(Keyword::If) => {
                Node::Branch(self.nested(at, |parser| parser.branch(Keyword::If))?)
            }
            TokenKind::Keyword(Keyword::Range) => Node::Loop(self.nested(at, Self::range)?),
            TokenKind::Keyword(Keyword::Template) => Node::Call(self.call()?),
            TokenKind::Keyword(Keyword::With) => {
                Node::Branch(self.nested(at, |parser| parser.branch(Keyword::With))?)
            }
            _ => {
                self.push_back(token);
                Node::Print(self.pipeline("an action", PipelineEnd::Action)?)
            }
        };
        Ok(Element::Node(node))
    }

    fn loop_control(&mut self, token: Token<'s>, node: Node) -> Result<Node, SyntaxError> {
        self.expect_action_end(token.text)?;
        if self.scope.loops == 0 {
            let message =
                format!("{{{{{}}}}} is outside of a {{{{range}}}}; remove it", token.text);
            return Err(SyntaxError::new(token.at, message));
        }
        Ok(node)
    }

    /// Parses `else`. The condition of `else if` and `else with` is left to their action.
    fn else_end(&mut self, at: usize) -> Result<Element, SyntaxError> {
        let next = self.peek_after_space()?;
        if !matches!(next.kind, TokenKind::Keyword(Keyword::If | Keyword::With)) {
            self.expect_action_end("else")?;
        }
        Ok(Element::End(ListEnd::Else(at), at))
    }

    /// Parses `if` or `with` after its keyword.
    fn branch(&mut self, keyword: Keyword) -> Result<Branch, SyntaxError> {
        let outer_variables = self.scope.variables.len();
        let mut branch =
            Branch { is_with: keyword == Keyword::With, arms: Vec::new(), otherwise: List::new() };
        let context = if branch.is_with { "with" } else { "if" };
        loop {
            let condition = self.pipeline(context, PipelineEnd::Action)?;
            let (list, end) = self.list()?;
            branch.arms.push((condition, list));
            if let ListEnd::Else(_) = end {
                let next = self.peek()?;
                if next.kind == TokenKind::Keyword(keyword) {
                    self.next()?;
                    continue;
                }
                branch.otherwise = self.list_to_end()?;
            }
            self.scope.variables.truncate(outer_variables);
            return Ok(branch);
        }
    }

    /// Parses `range` after its keyword.
    fn range(&mut self) -> Result<Loop, SyntaxError> {
        let outer_variables = self.scope.variables.len();
        let items = self.pipeline("range", PipelineEnd::Action)?;
        self.scope.loops += 1;
        let (body, end) = self.list()?;
        self.scope.loops -= 1;
        let otherwise = match end {
            ListEnd::End => List::new(),
            ListEnd::Else(_) => self.list_to_end()?,
        };
        self.scope.variables.truncate(outer_variables);
        Ok(Loop { items, body, otherwise })
    }

    /// Parses `template` after its keyword.
    fn call(&mut self) -> Result<Call, SyntaxError> {
        let token = self.next_after_space()?;
        let name = Self::template_name(token, "template")?;
        let next = self.next_after_space()?;
        let data = if next.kind == TokenKind::RightDelimiter {
            None
        } else {
            self.push_back(next);
            Some(self.pipeline("template", PipelineEnd::Action)?)
        };
        Ok(Call { at: token.at, name: name.into(), data })
    }

    /// Parses `block` after its keyword: a definition and its call.
    fn block(&mut self) -> Result<Call, SyntaxError> {
        let token = self.next_after_space()?;
        let name = Self::template_name(token, "block")?;
        let data = self.pipeline("block", PipelineEnd::Action)?;
        self.body(name.clone(), token.at)?;
        Ok(Call { at: token.at, name: name.into(), data: Some(data) })
    }

    pub(super) fn template_name(token: Token<'s>, keyword: &str) -> Result<String, SyntaxError> {
        if token.kind != TokenKind::Quoted {
            let found = token.description();
            let message = format!("{keyword} needs a name in quotes instead of {found}");
            return Err(SyntaxError::new(token.at, message));
        }
        unquote(token.text).map_err(|message| SyntaxError::new(token.at, message))
    }

    /// Returns the error for a token that cannot continue a pipeline.
    pub(super) fn misplaced(token: Token<'s>, context: &str) -> SyntaxError {
        let message = match token.kind {
            TokenKind::Keyword(Keyword::Define) => {
                "a {{define}} is inside of another action; move it to the top level"
            }
            TokenKind::Declare | TokenKind::Assign => {
                "a declaration has one variable on its left side, at the start of its action"
            }
            TokenKind::Other if "+-*/<>=!&%".contains(token.text) => {
                "an action has no operators; use functions such as eq, lt, and, or, not"
            }
            _ => return unexpected(token, context),
        };
        SyntaxError::new(token.at, message)
    }
}

//! Pipelines with their declarations.

use super::{MAX_VARIABLES, Parser};
use crate::{
    lexer::SyntaxError,
    syntax::{Command, OperandKind, Pipeline},
    token::{Token, TokenKind},
};

/// Token that ends a pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PipelineEnd {
    Action,
    Parenthesis,
}

impl PipelineEnd {
    fn kind(self) -> TokenKind {
        match self {
            Self::Action => TokenKind::RightDelimiter,
            Self::Parenthesis => TokenKind::RightParenthesis,
        }
    }
}

impl<'s> Parser<'s> {
    /// Parses a pipeline and its end.
    pub(super) fn pipeline(
        &mut self,
        context: &str,
        end: PipelineEnd,
    ) -> Result<Pipeline, SyntaxError> {
        let at = self.peek_after_space()?.at;
        let mut pipeline =
            Pipeline { at, variables: Vec::new(), is_assignment: false, commands: Vec::new() };
        while self.declaration(&mut pipeline, context)? {}
        loop {
            let token = self.next_after_space()?;
            match token.kind {
                kind if kind == end.kind() => break,
                TokenKind::Boolean
                | TokenKind::Character
                | TokenKind::Dot
                | TokenKind::Field
                | TokenKind::Identifier
                | TokenKind::LeftParenthesis
                | TokenKind::Nil
                | TokenKind::Number
                | TokenKind::Quoted
                | TokenKind::Variable => {
                    self.push_back(token);
                    pipeline.commands.push(self.command()?);
                }
                _ => return Err(Self::misplaced(token, context)),
            }
        }
        check_commands(&pipeline, context)?;
        Ok(pipeline)
    }

    /// Parses one declared or assigned variable. Returns whether another one may follow.
    fn declaration(&mut self, pipeline: &mut Pipeline, context: &str) -> Result<bool, SyntaxError> {
        let variable = self.peek_after_space()?;
        if variable.kind != TokenKind::Variable {
            return Ok(false);
        }
        self.next()?;
        let after = self.next()?;
        let next = if after.kind == TokenKind::Space { self.next_after_space()? } else { after };
        match next.kind {
            TokenKind::Assign | TokenKind::Declare => {
                pipeline.is_assignment = next.kind == TokenKind::Assign;
                self.declare(pipeline, variable)?;
                Ok(false)
            }
            TokenKind::Comma if context == "range" && pipeline.variables.is_empty() => {
                self.declare(pipeline, variable)?;
                let next = self.peek_after_space()?;
                if matches!(next.kind, TokenKind::Variable | TokenKind::RightDelimiter) {
                    return Ok(true);
                }
                let message =
                    "range needs a second variable after the comma: {{range $i, $e := …}}";
                Err(SyntaxError::new(next.at, message))
            }
            TokenKind::Comma => {
                let message = match context {
                    "range" => "range declares at most two variables; remove the others",
                    _ => "only range declares two variables; remove the comma",
                };
                Err(SyntaxError::new(next.at, message))
            }
            _ => {
                self.push_back(next);
                if after.kind == TokenKind::Space {
                    self.push_back(after);
                }
                self.push_back(variable);
                Ok(false)
            }
        }
    }

    fn declare(&mut self, pipeline: &mut Pipeline, variable: Token<'s>) -> Result<(), SyntaxError> {
        if self.scope.variables.len() == MAX_VARIABLES {
            let message =
                format!("there are more than {MAX_VARIABLES} variables; use {{{{define}}}}");
            return Err(SyntaxError::new(variable.at, message));
        }
        pipeline.variables.push(variable.text.into());
        self.scope.variables.push(variable.text);
        Ok(())
    }

    /// Parses a command and the `|` after it.
    fn command(&mut self) -> Result<Command, SyntaxError> {
        let mut operands = Vec::new();
        loop {
            let start = self.peek_after_space()?;
            if let Some(operand) = self.operand()? {
                operands.push(operand);
            }
            let token = self.next()?;
            match token.kind {
                TokenKind::Space => continue,
                TokenKind::RightDelimiter | TokenKind::RightParenthesis => self.push_back(token),
                TokenKind::Pipe => {}
                _ => return Err(Self::misplaced(token, "an operand")),
            }
            let mut operands = operands.into_iter();
            let operand = operands
                .next()
                .ok_or_else(|| SyntaxError::new(start.at, "a command is empty; remove its |"))?;
            return Ok(Command { operand, arguments: operands.collect() });
        }
    }
}

fn check_commands(pipeline: &Pipeline, context: &str) -> Result<(), SyntaxError> {
    if pipeline.commands.is_empty() {
        return Err(SyntaxError::new(pipeline.at, format!("{context} has no value; add one")));
    }
    let constant = pipeline.commands.iter().skip(1).find(|command| {
        matches!(
            command.operand.kind,
            OperandKind::Boolean(_)
                | OperandKind::Dot
                | OperandKind::Nil
                | OperandKind::Number(_)
                | OperandKind::Text(_)
        )
    });
    match constant {
        Some(command) => {
            let message = "the value before | is passed to a constant; write a function there";
            Err(SyntaxError::new(command.operand.at, message))
        }
        None => Ok(()),
    }
}

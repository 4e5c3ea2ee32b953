//! Operands: constants, variables, fields, functions, and pipelines in parentheses.

use super::{Parser, pipeline::PipelineEnd};
use crate::{
    function::Function,
    lexer::SyntaxError,
    literal::{Number, character, number, unquote},
    syntax::{Fields, Operand, OperandKind},
    token::{Token, TokenKind},
};

impl<'s> Parser<'s> {
    /// Parses an operand with its fields, if there is one.
    pub(super) fn operand(&mut self) -> Result<Option<Operand>, SyntaxError> {
        let Some(mut operand) = self.term()? else { return Ok(None) };
        let mut fields = Fields::new();
        while self.peek()?.kind == TokenKind::Field {
            fields.push(field_name(self.next()?));
        }
        if fields.is_empty() {
            return Ok(Some(operand));
        }
        match &mut operand.kind {
            OperandKind::Field(first) | OperandKind::Variable(_, first) => {
                first.append(&mut fields);
            }
            OperandKind::Function(_) | OperandKind::Pipeline(_) => {
                let at = operand.at;
                return Ok(Some(Operand {
                    at,
                    kind: OperandKind::Chain(Box::new(operand), fields),
                }));
            }
            _ => {
                let message = "a constant has no fields; for a key with a dot, use index";
                return Err(SyntaxError::new(operand.at, message));
            }
        }
        Ok(Some(operand))
    }

    fn term(&mut self) -> Result<Option<Operand>, SyntaxError> {
        let token = self.next_after_space()?;
        let kind = match token.kind {
            TokenKind::Boolean => OperandKind::Boolean(token.text == "true"),
            TokenKind::Character => {
                OperandKind::Number(Number::Integer(check(character(token.text), token)?))
            }
            TokenKind::Dot => OperandKind::Dot,
            TokenKind::Field => OperandKind::Field(vec![field_name(token)]),
            TokenKind::Identifier => {
                let function = Function::of(token.text);
                let function = function.ok_or_else(|| Function::unknown(token.text));
                OperandKind::Function(check(function, token)?)
            }
            TokenKind::LeftParenthesis => {
                let pipeline = self.nested(token.at, |parser| {
                    parser.pipeline("parentheses", PipelineEnd::Parenthesis)
                })?;
                OperandKind::Pipeline(Box::new(pipeline))
            }
            TokenKind::Nil => OperandKind::Nil,
            TokenKind::Number => OperandKind::Number(check(number(token.text), token)?),
            TokenKind::Quoted => OperandKind::Text(check(unquote(token.text), token)?.into()),
            TokenKind::Variable => self.variable(token)?,
            _ => {
                self.push_back(token);
                return Ok(None);
            }
        };
        Ok(Some(Operand { at: token.at, kind }))
    }

    fn variable(&self, token: Token<'s>) -> Result<OperandKind, SyntaxError> {
        let name = token.text;
        if name != "$" && !self.scope.variables.contains(&name) {
            let message =
                format!("the variable {name} is not declared here; write {name} := first");
            return Err(SyntaxError::new(token.at, message));
        }
        Ok(OperandKind::Variable(name.into(), Fields::new()))
    }
}

fn field_name(token: Token<'_>) -> Box<str> {
    token.text.trim_start_matches('.').into()
}

fn check<T>(value: Result<T, String>, token: Token<'_>) -> Result<T, SyntaxError> {
    value.map_err(|message| SyntaxError::new(token.at, message))
}

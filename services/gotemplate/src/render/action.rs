//! Actions: printing, branches, loops, calls of templates.

use std::mem;

use super::{Flow, Frame, Renderer};
use crate::{
    RenderErrorKind,
    datum::{Datum, Text},
    evaluation_error::EvaluationError,
    format::Printer,
    syntax::{Branch, Call, Loop, Node},
};

impl<'a> Renderer<'a> {
    pub(super) fn node(
        &mut self,
        node: &'a Node,
        dot: &Datum<'a>,
    ) -> Result<Flow, EvaluationError> {
        self.budget.step()?;
        match node {
            Node::Text(range) => self.output.push_str(&self.source[range.clone()])?,
            Node::Print(pipeline) => {
                let value = self.pipeline(pipeline, dot)?;
                if pipeline.variables.is_empty() {
                    self.print(&value).map_err(|error| error.at(pipeline.at))?;
                }
            }
            Node::Branch(branch) => return self.branch(branch, dot),
            Node::Loop(range) => return self.range(range, dot),
            Node::Call(call) => self.call_template(call, dot).map_err(|error| error.at(call.at))?,
            Node::Break => return Ok(Flow::Break),
            Node::Continue => return Ok(Flow::Continue),
        }
        Ok(Flow::Next)
    }

    fn print(&mut self, value: &Datum<'a>) -> Result<(), EvaluationError> {
        match value {
            Datum::Absent => self.output.push_str("<no value>"),
            value => Printer::print(&mut self.output, value),
        }
    }

    fn branch(&mut self, branch: &'a Branch, dot: &Datum<'a>) -> Result<Flow, EvaluationError> {
        let outer_variables = self.frame.variables.len();
        let mut chosen = (&branch.otherwise, None);
        for (condition, list) in &branch.arms {
            let value = self.pipeline(condition, dot)?;
            if value.is_true() {
                chosen = (list, branch.is_with.then_some(value));
                break;
            }
        }
        let (list, inner_dot) = chosen;
        let flow = self.list(list, inner_dot.as_ref().unwrap_or(dot))?;
        self.frame.variables.truncate(outer_variables);
        Ok(flow)
    }

    fn range(&mut self, range: &'a Loop, dot: &Datum<'a>) -> Result<Flow, EvaluationError> {
        let outer_variables = self.frame.variables.len();
        let items = self.pipeline(&range.items, dot)?;
        let flow = match self.iterate(range, &items).map_err(|error| error.at(range.items.at))? {
            // As in Go, a `break` here ends this loop, not the outer one.
            None => match self.list(&range.otherwise, dot)? {
                Flow::Continue => Flow::Continue,
                Flow::Next | Flow::Break => Flow::Next,
            },
            Some(()) => Flow::Next,
        };
        self.frame.variables.truncate(outer_variables);
        Ok(flow)
    }

    /// Renders the body of a loop for each item. Returns `None` if there is none.
    fn iterate(
        &mut self,
        range: &'a Loop,
        items: &Datum<'a>,
    ) -> Result<Option<()>, EvaluationError> {
        let mut count = 0_usize;
        match items {
            Datum::Absent | Datum::Null => {}
            Datum::List(list) => {
                for (index, item) in (0_i64..).zip(list.iter()) {
                    count += 1;
                    if self.iteration(range, Datum::Integer(index), &item)? == Flow::Break {
                        break;
                    }
                }
            }
            Datum::Map(map) => {
                self.budget.steps(map.len())?;
                for (key, item) in map.sorted() {
                    count += 1;
                    if self.iteration(range, Datum::Text(key), &item)? == Flow::Break {
                        break;
                    }
                }
            }
            Datum::Integer(_) | Datum::Byte(_) => count = self.iterate_integers(range, items)?,
            other => {
                let found = other.description();
                let message = format!("range needs a list, a map or an integer, not {found}");
                return Err(EvaluationError::new(message));
            }
        }
        Ok((count > 0).then_some(()))
    }

    /// Renders the body of a loop for each integer from 0. Returns their number.
    fn iterate_integers(
        &mut self,
        range: &'a Loop,
        end: &Datum<'a>,
    ) -> Result<usize, EvaluationError> {
        if range.items.variables.len() > 1 {
            return Err(EvaluationError::new(
                "range over an integer has one variable; remove the other one",
            ));
        }
        let (end, is_byte) = match end {
            Datum::Byte(end) => (i64::from(*end), true),
            Datum::Integer(end) => (*end, false),
            _ => return Ok(0),
        };
        for index in 0..end {
            let item = match u8::try_from(index) {
                Ok(byte) if is_byte => Datum::Byte(byte),
                _ => Datum::Integer(index),
            };
            if self.iteration(range, Datum::Absent, &item)? == Flow::Break {
                break;
            }
        }
        Ok(usize::from(end > 0))
    }

    fn iteration(
        &mut self,
        range: &'a Loop,
        index: Datum<'a>,
        item: &Datum<'a>,
    ) -> Result<Flow, EvaluationError> {
        self.budget.step()?;
        let outer_variables = self.frame.variables.len();
        match (&range.items.variables[..], range.items.is_assignment) {
            ([], _) => {}
            ([variable], true) => self.assign(variable, item.clone())?,
            ([first, second, ..], true) => {
                self.assign(first, index)?;
                self.assign(second, item.clone())?;
            }
            ([_], false) => self.frame.set_from_top(0, item.clone()),
            (_, false) => {
                self.frame.set_from_top(0, item.clone());
                self.frame.set_from_top(1, index);
            }
        }
        let flow = self.list(&range.body, item)?;
        self.frame.variables.truncate(outer_variables);
        Ok(flow)
    }

    fn call_template(&mut self, call: &'a Call, dot: &Datum<'a>) -> Result<(), EvaluationError> {
        let Some(body) = self.bodies.get(&call.name) else {
            let name = &call.name;
            return Err(EvaluationError::new(format!(
                "the template {name:?} is not defined; add a define"
            )));
        };
        if self.calls >= self.budget.max_depth() {
            let max = self.budget.max_depth();
            let message = format!("templates call each other deeper than {max}; end the recursion");
            return Err(EvaluationError::of(RenderErrorKind::DepthLimit, message));
        }
        let data = match &call.data {
            Some(pipeline) => self.pipeline(pipeline, dot)?,
            None => Datum::Absent,
        };
        let outer = mem::replace(&mut self.frame, Frame::new(data.clone()));
        self.calls += 1;
        self.list(body, &data)?;
        self.calls -= 1;
        self.frame = outer;
        Ok(())
    }

    /// Sets a variable that is declared already.
    pub(super) fn assign(&mut self, name: &str, value: Datum<'a>) -> Result<(), EvaluationError> {
        if self.frame.assign(name, value) {
            return Ok(());
        }
        Err(EvaluationError::new(format!(
            "the variable {name} is not declared; write := instead of ="
        )))
    }

    /// Returns a text of the template.
    pub(super) fn constant(text: &'a str) -> Datum<'a> {
        Datum::Text(Text::Borrowed(text))
    }
}

//! Visits of actions and operands.

use std::mem;

use super::{Analysis, Frame, MAX_ACTIONS, MAX_NESTING, MAX_RECURSION, Origin};
use crate::{
    function::Function,
    literal::Number,
    paths::{Access, Segment},
    syntax::{Branch, Call, Command, List, Loop, Node, Operand, OperandKind, Pipeline},
};

impl<'t> Analysis<'t> {
    pub(super) fn list(&mut self, list: &'t List, dot: &Origin) {
        if self.nesting == MAX_NESTING {
            // The analysis is incomplete.
            self.actions = MAX_ACTIONS + 1;
            return;
        }
        self.nesting += 1;
        self.nodes(list, dot);
        self.nesting -= 1;
    }

    fn nodes(&mut self, list: &'t List, dot: &Origin) {
        for node in list {
            self.actions += 1;
            if !self.is_complete() {
                return;
            }
            match node {
                Node::Print(pipeline) => {
                    let origin = self.pipeline(pipeline, dot);
                    if pipeline.variables.is_empty() {
                        self.read(&origin, Access::Value);
                    } else {
                        self.keep(&origin);
                    }
                }
                Node::Branch(branch) => self.branch(branch, dot),
                Node::Loop(range) => self.range(range, dot),
                Node::Call(call) => self.call(call, dot),
                Node::Text(_) | Node::Break | Node::Continue => {}
            }
        }
    }

    fn branch(&mut self, branch: &'t Branch, dot: &Origin) {
        let outer_variables = self.frame.variables.len();
        for (condition, list) in &branch.arms {
            let origin = self.pipeline(condition, dot);
            self.read(&origin, Access::Condition);
            self.list(list, if branch.is_with { &origin } else { dot });
        }
        self.list(&branch.otherwise, dot);
        self.frame.variables.truncate(outer_variables);
    }

    fn range(&mut self, range: &'t Loop, dot: &Origin) {
        let outer_variables = self.frame.variables.len();
        let items = self.pipeline(&range.items, dot);
        self.read(&items, Access::Value);
        let item = items.child(&Segment::Any).unwrap_or_default();
        match (&range.items.variables[..], range.items.is_assignment) {
            ([variable] | [_, variable, ..], true) => self.assign(variable, &item),
            ([], _) => {}
            ([..], false) => {
                let count = range.items.variables.len();
                let first = self.frame.variables.len().saturating_sub(count);
                for (_, origin) in &mut self.frame.variables[first..] {
                    *origin = Origin::default();
                }
                if let Some((_, origin)) = self.frame.variables.last_mut() {
                    *origin = item.clone();
                }
            }
        }
        self.list(&range.body, &item);
        self.list(&range.otherwise, dot);
        self.frame.variables.truncate(outer_variables);
    }

    fn call(&mut self, call: &'t Call, dot: &Origin) {
        let data = match &call.data {
            Some(pipeline) => self.pipeline(pipeline, dot).without_constant(),
            None => Origin::default(),
        };
        let Some((name, body)) = self.bodies.get_key_value(&call.name) else { return };
        let depth = self.open_calls.iter().filter(|open| **open == name.as_ref()).count();
        if depth >= MAX_RECURSION {
            self.read(&data, Access::Value);
            return;
        }
        self.keep(&data);
        // The body names its own positions.
        let data = data.at(0);
        if !self.calls.insert((name, data.clone())) {
            return;
        }
        let inner = Frame { root: data.clone(), variables: Vec::new() };
        let outer = mem::replace(&mut self.frame, inner);
        self.open_calls.push(name);
        self.list(body, &data);
        self.open_calls.pop();
        self.frame = outer;
    }

    /// Returns the origin of a pipeline's value.
    fn pipeline(&mut self, pipeline: &'t Pipeline, dot: &Origin) -> Origin {
        let mut value = None;
        for command in &pipeline.commands {
            value = Some(self.command(command, dot, value));
        }
        let origin = value.unwrap_or_default();
        self.set_variables(pipeline, &origin);
        origin
    }

    fn command(&mut self, command: &'t Command, dot: &Origin, last: Option<Origin>) -> Origin {
        let Command { operand, arguments } = command;
        self.actions += 1 + arguments.len();
        let OperandKind::Function(function) = operand.kind else {
            // A value cannot be passed to another value: an error after the evaluation of the first one.
            self.keep(&last.unwrap_or_default());
            return self.operand(operand, dot);
        };
        let mut values: Vec<_> =
            arguments.iter().map(|argument| self.operand(argument, dot)).collect();
        values.extend(last);
        self.function(function, &values)
    }

    fn function(&mut self, function: Function, values: &[Origin]) -> Origin {
        match (function, values) {
            (Function::And | Function::Or, [first, others @ ..]) => {
                let mut union = first.clone();
                let is_complete = others.iter().fold(true, |fits, value| fits & union.merge(value));
                for value in values {
                    self.read(value, if is_complete { Access::Condition } else { Access::Value });
                }
                if is_complete { union } else { Origin::default() }
            }
            (Function::Not, [value]) => {
                self.read(value, Access::Condition);
                Origin::default()
            }
            (Function::Index, [base]) => {
                self.read(base, Access::Condition);
                base.clone()
            }
            (Function::Index, [base, keys @ ..]) => {
                self.read_all(keys);
                self.descend(base.clone(), keys.iter().map(Origin::as_segment))
            }
            _ => {
                self.read_all(values);
                Origin::default()
            }
        }
    }

    fn read_all(&mut self, values: &[Origin]) {
        for value in values {
            self.read(value, Access::Value);
        }
    }

    fn operand(&mut self, operand: &'t Operand, dot: &Origin) -> Origin {
        let at = operand.at;
        match &operand.kind {
            OperandKind::Chain(base, names) => {
                let base = self.operand(base, dot);
                self.fields(base, names)
            }
            OperandKind::Dot => dot.clone().at(at),
            OperandKind::Field(names) => self.fields(dot.clone().at(at), names),
            OperandKind::Pipeline(pipeline) => self.pipeline(pipeline, dot),
            OperandKind::Text(text) => Origin::constant(Segment::Key(text.to_string())),
            OperandKind::Number(Number::Integer(value)) => usize::try_from(*value).map_or_else(
                |_| Origin::default(),
                |index| Origin::constant(Segment::Index(index)),
            ),
            OperandKind::Variable(name, names) => {
                let origin = self.variable(name).without_constant();
                self.fields(origin.at(at), names)
            }
            OperandKind::Boolean(_)
            | OperandKind::Function(_)
            | OperandKind::Nil
            | OperandKind::Number(_) => Origin::default(),
        }
    }

    fn fields(&mut self, base: Origin, names: &[Box<str>]) -> Origin {
        let segments = names.iter().map(|name| Segment::Key(name.to_string()));
        self.descend(base, segments)
    }

    /// Returns the origin of a nested element. A path that is too long counts as a read of the whole value.
    fn descend(&mut self, mut origin: Origin, segments: impl Iterator<Item = Segment>) -> Origin {
        for segment in segments {
            let Some(child) = origin.child(&segment) else {
                self.read(&origin, Access::Value);
                return Origin::default();
            };
            origin = child;
        }
        origin
    }
}

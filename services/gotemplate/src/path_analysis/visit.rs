//! Visits of actions and operands.

use std::mem;

use super::{Analysis, Frame, MAX_ACTIONS, MAX_RECURSION, Origin};
use crate::{
    function::Function,
    literal::Number,
    paths::{Access, Segment},
    syntax::{Branch, Call, Command, List, Loop, Node, Operand, OperandKind, Pipeline},
};

impl<'t> Analysis<'t> {
    pub(super) fn list(&mut self, list: &'t List, dot: &Origin) {
        for node in list {
            self.actions += 1;
            if self.actions > MAX_ACTIONS {
                return;
            }
            match node {
                Node::Print(pipeline) => {
                    let (origin, at) = self.pipeline(pipeline, dot);
                    if pipeline.variables.is_empty() {
                        self.read(&origin, at, Access::Value);
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
            let (origin, at) = self.pipeline(condition, dot);
            self.read(&origin, at, Access::Condition);
            self.list(list, if branch.is_with { &origin } else { dot });
        }
        self.list(&branch.otherwise, dot);
        self.frame.variables.truncate(outer_variables);
    }

    fn range(&mut self, range: &'t Loop, dot: &Origin) {
        let outer_variables = self.frame.variables.len();
        let (items, at) = self.pipeline(&range.items, dot);
        self.read(&items, at, Access::Value);
        let item = items.child(&Segment::Any).unwrap_or_default();
        match (&range.items.variables[..], range.items.is_assignment) {
            ([variable] | [_, variable, ..], true) => self.assign(variable, &item, at),
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
        let (data, at) = match &call.data {
            Some(pipeline) => self.pipeline(pipeline, dot),
            None => (Origin::default(), call.at),
        };
        let Some((name, body)) = self.bodies.get_key_value(&call.name) else { return };
        let depth = self.open_calls.iter().filter(|open| **open == name.as_ref()).count();
        if depth >= MAX_RECURSION {
            self.read(&data, at, Access::Value);
            return;
        }
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

    /// Returns the origin of a pipeline's value, and its position.
    fn pipeline(&mut self, pipeline: &'t Pipeline, dot: &Origin) -> (Origin, usize) {
        let mut value = None;
        for command in &pipeline.commands {
            value = Some(self.command(command, dot, value));
        }
        let (origin, at) = value.unwrap_or((Origin::default(), pipeline.at));
        self.set_variables(pipeline, &origin);
        (origin, at)
    }

    fn command(
        &mut self,
        command: &'t Command,
        dot: &Origin,
        last: Option<(Origin, usize)>,
    ) -> (Origin, usize) {
        let Command { operand, arguments } = command;
        self.actions += 1 + arguments.len();
        let at = operand.at;
        let OperandKind::Function(function) = operand.kind else {
            return (self.operand(operand, dot), at);
        };
        let mut values = Vec::with_capacity(arguments.len() + 1);
        for argument in arguments {
            values.push((self.operand(argument, dot), argument.at));
        }
        values.extend(last);
        (self.function(function, &values), at)
    }

    fn function(&mut self, function: Function, values: &[(Origin, usize)]) -> Origin {
        match function {
            Function::And | Function::Or | Function::Not => {
                let mut union = Origin::default();
                let mut is_complete = true;
                for (index, (value, at)) in values.iter().enumerate() {
                    self.read(value, *at, Access::Condition);
                    if index == 0 {
                        union = value.clone();
                    } else {
                        is_complete &= union.merge(value);
                    }
                }
                if is_complete && function != Function::Not {
                    return union;
                }
                if !is_complete {
                    self.read_all(values);
                }
                Origin::default()
            }
            Function::Index => {
                let Some(((base, at), keys)) = values.split_first() else {
                    return Origin::default();
                };
                self.read_all(keys);
                let segments = keys.iter().map(|(key, _)| key.as_segment());
                self.descend(base.clone(), *at, segments)
            }
            _ => {
                self.read_all(values);
                Origin::default()
            }
        }
    }

    fn read_all(&mut self, values: &[(Origin, usize)]) {
        for (value, at) in values {
            self.read(value, *at, Access::Value);
        }
    }

    fn operand(&mut self, operand: &'t Operand, dot: &Origin) -> Origin {
        let at = operand.at;
        match &operand.kind {
            OperandKind::Chain(base, names) => {
                let base = self.operand(base, dot);
                self.fields(base, at, names)
            }
            OperandKind::Dot => dot.clone(),
            OperandKind::Field(names) => self.fields(dot.clone(), at, names),
            OperandKind::Pipeline(pipeline) => self.pipeline(pipeline, dot).0,
            OperandKind::Text(text) => Origin::constant(Segment::Key(text.to_string())),
            OperandKind::Number(Number::Integer(value)) => usize::try_from(*value).map_or_else(
                |_| Origin::default(),
                |index| Origin::constant(Segment::Index(index)),
            ),
            OperandKind::Variable(name, names) => {
                let mut origin = self.variable(name);
                origin.forget_constant();
                self.fields(origin, at, names)
            }
            OperandKind::Boolean(_)
            | OperandKind::Function(_)
            | OperandKind::Nil
            | OperandKind::Number(_) => Origin::default(),
        }
    }

    fn fields(&mut self, base: Origin, at: usize, names: &[Box<str>]) -> Origin {
        let segments = names.iter().map(|name| Segment::Key(name.to_string()));
        self.descend(base, at, segments)
    }

    /// Returns the origin of a nested element. A path that is too long counts as a read of the whole value.
    fn descend(
        &mut self,
        mut origin: Origin,
        at: usize,
        segments: impl Iterator<Item = Segment>,
    ) -> Origin {
        for segment in segments {
            let Some(child) = origin.child(&segment) else {
                self.read(&origin, at, Access::Value);
                return Origin::default();
            };
            origin = child;
        }
        origin
    }
}

//! Evaluation of pipelines.

use super::Renderer;
use crate::{
    builtin,
    datum::Datum,
    evaluation_error::EvaluationError,
    function::Function,
    literal::Number,
    syntax::{Command, Operand, OperandKind, Pipeline},
};

impl<'a> Renderer<'a> {
    /// Returns the value of a pipeline and declares its variables.
    pub(super) fn pipeline(
        &mut self,
        pipeline: &'a Pipeline,
        dot: &Datum<'a>,
    ) -> Result<Datum<'a>, EvaluationError> {
        let mut value = None;
        for command in &pipeline.commands {
            let result = self.command(command, dot, value.take());
            value = Some(result.map_err(|error| error.at(command.operand.at))?.null_as_absent());
        }
        let value = value.unwrap_or(Datum::Absent);
        for name in &pipeline.variables {
            if pipeline.is_assignment {
                self.assign(name, value.clone()).map_err(|error| error.at(pipeline.at))?;
            } else {
                self.frame.declare(name, value.clone());
            }
        }
        Ok(value)
    }

    /// Evaluates a command. The value of the previous one is its last argument.
    fn command(
        &mut self,
        command: &'a Command,
        dot: &Datum<'a>,
        last: Option<Datum<'a>>,
    ) -> Result<Datum<'a>, EvaluationError> {
        self.budget.step()?;
        let Command { operand, arguments } = command;
        if let OperandKind::Function(function) = operand.kind {
            return self.function(function, arguments, dot, last);
        }
        let has_arguments = !arguments.is_empty() || last.is_some();
        match &operand.kind {
            OperandKind::Chain(base, names) => {
                let value = self.operand(base, dot)?;
                fields(value, names, has_arguments)
            }
            OperandKind::Field(names) => fields(dot.clone(), names, has_arguments),
            OperandKind::Variable(name, names) if !names.is_empty() => {
                fields(self.variable(name)?, names, has_arguments)
            }
            _ if has_arguments => Err(no_function()),
            OperandKind::Nil => Err(EvaluationError::new("nil alone has no value; remove it")),
            _ => self.operand(operand, dot),
        }
    }

    /// Returns the value of an operand without arguments.
    fn operand(
        &mut self,
        operand: &'a Operand,
        dot: &Datum<'a>,
    ) -> Result<Datum<'a>, EvaluationError> {
        match &operand.kind {
            OperandKind::Boolean(value) => Ok(Datum::Boolean(*value)),
            OperandKind::Chain(base, names) => {
                let value = self.operand(base, dot)?;
                fields(value, names, false)
            }
            OperandKind::Dot => Ok(dot.clone()),
            OperandKind::Field(names) => fields(dot.clone(), names, false),
            OperandKind::Function(function) => self.function(*function, &[], dot, None),
            OperandKind::Nil => Ok(Datum::Null),
            OperandKind::Number(Number::Integer(value)) => Ok(Datum::Integer(*value)),
            OperandKind::Number(Number::Float(value)) => Ok(Datum::Float(*value)),
            OperandKind::Number(Number::Overflow) => {
                Err(EvaluationError::new("the integer exceeds 64 bits; append .0"))
            }
            OperandKind::Pipeline(pipeline) => {
                self.enter()?;
                let value = self.pipeline(pipeline, dot)?;
                self.nesting -= 1;
                Ok(value)
            }
            OperandKind::Text(text) => Ok(Self::constant(text)),
            OperandKind::Variable(name, names) => fields(self.variable(name)?, names, false),
        }
    }

    fn variable(&mut self, name: &str) -> Result<Datum<'a>, EvaluationError> {
        self.budget.steps(self.frame.variables.len() / 64)?;
        let value = self.frame.get(name).cloned();
        value.ok_or_else(|| EvaluationError::new(format!("the variable {name} has no value yet")))
    }

    /// Evaluates the arguments of a function and calls it.
    fn function(
        &mut self,
        function: Function,
        arguments: &'a [Operand],
        dot: &Datum<'a>,
        last: Option<Datum<'a>>,
    ) -> Result<Datum<'a>, EvaluationError> {
        let count = arguments.len() + usize::from(last.is_some());
        let (min, max) = function.arity();
        if count < min || count > max {
            let (name, limit) = (function.name(), if min == max { "" } else { "at least " });
            let plural = if min == 1 { "" } else { "s" };
            return Err(EvaluationError::new(format!(
                "{name} needs {limit}{min} argument{plural}, not {count}"
            )));
        }
        let decides = match function {
            Function::And => Some(false),
            Function::Or => Some(true),
            _ => None,
        };
        let mut values = Vec::with_capacity(count);
        for argument in arguments {
            self.budget.step()?;
            let value = self.operand(argument, dot).map_err(|error| error.at(argument.at))?;
            if decides == Some(value.is_true()) {
                return Ok(value);
            }
            values.push(value);
        }
        values.extend(last);
        builtin::call(function, &values, &mut self.budget)
    }
}

fn no_function() -> EvaluationError {
    EvaluationError::new("a value has no arguments; write a function before them, or remove them")
}

/// Returns a nested field of a value. Arguments are an error, unless the value of the last field is absent.
fn fields<'a>(
    mut value: Datum<'a>,
    names: &[Box<str>],
    has_arguments: bool,
) -> Result<Datum<'a>, EvaluationError> {
    for (index, name) in names.iter().enumerate() {
        value = match value {
            Datum::Absent => return Ok(Datum::Absent),
            Datum::Map(_) if has_arguments && index + 1 == names.len() => return Err(no_function()),
            Datum::Map(map) => map.get(name).unwrap_or(Datum::Absent),
            Datum::Null => {
                let message =
                    format!("a null has no field {name:?}; test it before with if or with");
                return Err(EvaluationError::new(message));
            }
            Datum::List(_) => {
                let message = format!(
                    "a list has no field {name:?}; use range or index, such as index .list 0"
                );
                return Err(EvaluationError::new(message));
            }
            other => {
                let found = other.description();
                return Err(EvaluationError::new(format!(
                    "{found} has no field {name:?}; use it without fields"
                )));
            }
        };
    }
    Ok(value)
}

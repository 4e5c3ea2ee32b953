//! Syntax tree of a template.
//!
//! Positions are byte offsets into the source.

use std::{collections::BTreeMap, ops::Range};

use crate::{function::Function, literal::Number};

/// Bodies of a template by name. The name of the main body is empty.
pub(crate) type Bodies = BTreeMap<Box<str>, List>;

/// Sequence of text and actions.
pub(crate) type List = Vec<Node>;

/// Text or action.
#[derive(Debug)]
pub(crate) enum Node {
    /// Text outside of actions.
    Text(Range<usize>),
    /// Pipeline whose value is printed, unless it declares a variable.
    Print(Pipeline),
    /// `if` or `with`.
    Branch(Branch),
    /// `range`.
    Loop(Loop),
    /// `template` or `block`.
    Call(Call),
    /// `break`.
    Break,
    /// `continue`.
    Continue,
}

/// `if` or `with`, with its `else` branches.
#[derive(Debug)]
pub(crate) struct Branch {
    /// A branch sets the dot.
    pub(crate) is_with: bool,
    /// Condition and body of each branch.
    pub(crate) arms: Vec<(Pipeline, List)>,
    pub(crate) otherwise: List,
}

/// `range`.
#[derive(Debug)]
pub(crate) struct Loop {
    pub(crate) items: Pipeline,
    pub(crate) body: List,
    /// Rendered if there are no items.
    pub(crate) otherwise: List,
}

/// Call of a template.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) at: usize,
    pub(crate) name: Box<str>,
    pub(crate) data: Option<Pipeline>,
}

/// Commands, each of which gets the value of the previous one as its last argument.
#[derive(Debug)]
pub(crate) struct Pipeline {
    pub(crate) at: usize,
    /// Names of the variables that get the value, with `$`.
    pub(crate) variables: Vec<Box<str>>,
    /// The variables exist already: `=` instead of `:=`.
    pub(crate) is_assignment: bool,
    pub(crate) commands: Vec<Command>,
}

/// Operand, and its arguments if it is a function.
#[derive(Debug)]
pub(crate) struct Command {
    pub(crate) operand: Operand,
    pub(crate) arguments: Vec<Operand>,
}

/// Operand of a command.
#[derive(Debug)]
pub(crate) struct Operand {
    pub(crate) at: usize,
    pub(crate) kind: OperandKind,
}

/// Kind of an [`Operand`].
#[derive(Debug)]
pub(crate) enum OperandKind {
    Boolean(bool),
    /// Fields of the value of a function or of a pipeline in parentheses.
    Chain(Box<Operand>, Fields),
    Dot,
    /// Fields of the dot.
    Field(Fields),
    Function(Function),
    Nil,
    Number(Number),
    /// Pipeline in parentheses.
    Pipeline(Box<Pipeline>),
    Text(Box<str>),
    /// Variable with its `$`, and the fields of its value.
    Variable(Box<str>, Fields),
}

/// Names of nested fields.
pub(crate) type Fields = Vec<Box<str>>;

/// Returns whether a body consists of white space only, so that another definition of its name may replace it.
pub(crate) fn is_blank(list: &[Node], source: &str) -> bool {
    list.iter().all(|node| match node {
        Node::Text(range) => source[range.clone()].trim().is_empty(),
        _ => false,
    })
}

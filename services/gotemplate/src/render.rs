//! Rendering of a syntax tree.

mod action;
mod evaluate;

use crate::{
    Limits, RenderErrorKind, Value,
    budget::Budget,
    datum::Datum,
    evaluation_error::EvaluationError,
    syntax::{Bodies, List},
    text_buffer::TextBuffer,
};

/// Maximum nesting of lists and parentheses over all called templates. It bounds the recursion.
const MAX_NESTING: usize = 400;

/// Renders the main body.
pub(crate) fn render(
    source: &str,
    bodies: &Bodies,
    root: &Value<'_>,
    limits: &Limits,
) -> Result<String, EvaluationError> {
    let mut renderer = Renderer {
        source,
        bodies,
        output: TextBuffer::new(limits.max_output_bytes, RenderErrorKind::OutputLimit),
        budget: Budget::new(limits),
        frame: Frame::new(Datum::root(root)),
        calls: 0,
        nesting: 0,
    };
    if let Some(main) = bodies.get("") {
        let dot = renderer.frame.root.clone();
        renderer.list(main, &dot)?;
    }
    Ok(renderer.output.into_string())
}

struct Renderer<'a> {
    source: &'a str,
    bodies: &'a Bodies,
    output: TextBuffer,
    budget: Budget,
    frame: Frame<'a>,
    /// Number of nested calls of templates.
    calls: usize,
    /// Number of nested lists and parentheses.
    nesting: usize,
}

/// Variables of one call of a template.
struct Frame<'a> {
    /// Value of `$`, unless a variable of that name is declared.
    root: Datum<'a>,
    /// Variables with their names, the innermost one last.
    variables: Vec<(&'a str, Datum<'a>)>,
}

/// Continuation after a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flow {
    Next,
    Break,
    Continue,
}

// === impl Renderer ===

impl<'a> Renderer<'a> {
    fn list(&mut self, list: &'a List, dot: &Datum<'a>) -> Result<Flow, EvaluationError> {
        self.enter()?;
        let mut flow = Flow::Next;
        for node in list {
            flow = self.node(node, dot)?;
            if flow != Flow::Next {
                break;
            }
        }
        self.nesting -= 1;
        Ok(flow)
    }

    /// Adds a level of nesting. The caller removes it.
    fn enter(&mut self) -> Result<(), EvaluationError> {
        if self.nesting == MAX_NESTING {
            let message = format!(
                "actions of nested templates are deeper than {MAX_NESTING}; call fewer templates"
            );
            return Err(EvaluationError::of(RenderErrorKind::DepthLimit, message));
        }
        self.nesting += 1;
        Ok(())
    }
}

// === impl Frame ===

impl<'a> Frame<'a> {
    fn new(root: Datum<'a>) -> Self {
        Self { root, variables: Vec::new() }
    }

    fn declare(&mut self, name: &'a str, value: Datum<'a>) {
        self.variables.push((name, value));
    }

    fn get(&self, name: &str) -> Option<&Datum<'a>> {
        let found = self.variables.iter().rev().find(|(known, _)| *known == name);
        found.map(|(_, value)| value).or((name == "$").then_some(&self.root))
    }

    /// Sets the innermost variable of a name. Returns whether there is one.
    fn assign(&mut self, name: &str, value: Datum<'a>) -> bool {
        let found = self.variables.iter_mut().rev().find(|(known, _)| *known == name);
        match found.map(|(_, value)| value).or((name == "$").then_some(&mut self.root)) {
            Some(variable) => {
                *variable = value;
                true
            }
            None => false,
        }
    }

    /// Sets a declared variable by its position from the innermost one.
    fn set_from_top(&mut self, position: usize, value: Datum<'a>) {
        if let Some((_, variable)) = self.variables.iter_mut().nth_back(position) {
            *variable = value;
        }
    }
}

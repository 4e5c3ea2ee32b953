//! Errors of parsing and rendering, with their position in the template.

/// Error in the text of a template.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(transparent)]
pub struct ParseError(Problem);

/// Error while a template is rendered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{problem}")]
pub struct RenderError {
    kind: RenderErrorKind,
    problem: Problem,
}

/// Problem at a position in a template.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {message}")]
struct Problem {
    line: usize,
    column: usize,
    message: String,
}

/// Kind of a rendering error: the template and its data, or a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RenderErrorKind {
    /// The template does not fit its data, such as a field of a number.
    Evaluation,
    /// The text exceeds [`Limits::max_output_bytes`](crate::Limits::max_output_bytes).
    OutputLimit,
    /// Results of functions exceed [`Limits::max_memory_bytes`](crate::Limits::max_memory_bytes).
    MemoryLimit,
    /// Templates are nested deeper than [`Limits::max_depth`](crate::Limits::max_depth), or the data are too deep.
    DepthLimit,
    /// The rendering takes more than [`Limits::max_steps`](crate::Limits::max_steps).
    StepLimit,
}

impl ParseError {
    pub(crate) fn new((line, column): (usize, usize), message: impl Into<String>) -> Self {
        Self(Problem { line, column, message: message.into() })
    }

    /// Returns the line of the error in the template, from 1.
    #[must_use]
    pub fn line(&self) -> usize {
        self.0.line
    }

    /// Returns the column of the error in its line: characters, from 1.
    #[must_use]
    pub fn column(&self) -> usize {
        self.0.column
    }

    /// Returns the error and its remedy, without the position.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.0.message
    }
}

impl RenderError {
    pub(crate) fn new(
        kind: RenderErrorKind,
        (line, column): (usize, usize),
        message: impl Into<String>,
    ) -> Self {
        Self { kind, problem: Problem { line, column, message: message.into() } }
    }

    /// Returns the kind of the error.
    #[must_use]
    pub fn kind(&self) -> RenderErrorKind {
        self.kind
    }

    /// Returns the line of the error in the template, from 1.
    #[must_use]
    pub fn line(&self) -> usize {
        self.problem.line
    }

    /// Returns the column of the error in its line: characters, from 1.
    #[must_use]
    pub fn column(&self) -> usize {
        self.problem.column
    }

    /// Returns the error and its remedy, without the position.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.problem.message
    }
}

impl RenderErrorKind {
    /// Returns whether the rendering exceeded a limit.
    #[must_use]
    pub fn is_limit(self) -> bool {
        self != Self::Evaluation
    }
}

//! Compiled template.

use std::sync::Arc;

use crate::{
    Limits, ParseError, Path, RenderError, Value, parser, path_analysis, render,
    syntax::{Bodies, Node},
};

/// Maximum size of a template, in bytes.
const MAX_SOURCE_BYTES: usize = 1024 * 1024;

/// Compiled template. A clone shares the compiled form.
#[derive(Debug, Clone)]
pub struct Template {
    compiled: Arc<Compiled>,
}

#[derive(Debug)]
struct Compiled {
    source: Box<str>,
    bodies: Bodies,
    paths: Vec<Path>,
}

impl Template {
    /// Compiles a template of at most 1 MiB.
    pub fn parse(source: &str) -> Result<Self, ParseError> {
        if source.len() > MAX_SOURCE_BYTES {
            return Err(ParseError::new((1, 1), "the template exceeds 1 MiB; shorten it"));
        }
        let bodies = parser::parse(source)
            .map_err(|error| ParseError::new(position(source, error.at), error.message))?;
        let paths = path_analysis::paths(source, &bodies);
        Ok(Self { compiled: Arc::new(Compiled { source: source.into(), bodies, paths }) })
    }

    /// Returns the reads of the root data that are known without rendering, in the order of the template.
    ///
    /// A part of the data that no path covers is never read. Definitions count if the template calls them.
    #[must_use]
    pub fn paths(&self) -> &[Path] {
        &self.compiled.paths
    }

    /// Returns the text of a template that has no actions besides comments and definitions.
    #[must_use]
    pub fn literal(&self) -> Option<&str> {
        let Compiled { source, bodies, paths: _ } = self.compiled.as_ref();
        match bodies.get("").map(Vec::as_slice) {
            None | Some([]) => Some(""),
            Some([Node::Text(range)]) => Some(&source[range.clone()]),
            Some(_) => None,
        }
    }

    /// Renders the template with the given root data.
    pub fn render(&self, root: &Value<'_>, limits: &Limits) -> Result<String, RenderError> {
        let Compiled { source, bodies, paths: _ } = self.compiled.as_ref();
        render::render(source, bodies, root, limits).map_err(|error| {
            let position = position(source, error.at.unwrap_or(0));
            RenderError::new(error.kind, position, error.message)
        })
    }
}

/// Returns the line and column of a byte offset.
fn position(source: &str, at: usize) -> (usize, usize) {
    let before = &source[..source.floor_char_boundary(at)];
    let line_start = before.rfind('\n').map_or(0, |end| end + 1);
    let lines = before.bytes().filter(|byte| *byte == b'\n').count();
    (lines + 1, before[line_start..].chars().count() + 1)
}

//! Compiled template.

use std::sync::Arc;

use crate::{Limits, ParseError, Path, RenderError, RenderErrorKind, Value};

/// Compiled template. A clone shares the compiled form.
#[derive(Debug, Clone)]
pub struct Template {
    compiled: Arc<Compiled>,
}

#[derive(Debug)]
struct Compiled {
    source: Box<str>,
    paths: Vec<Path>,
}

impl Template {
    /// Compiles a template.
    pub fn parse(source: &str) -> Result<Self, ParseError> {
        if source.len() > 1024 * 1024 {
            return Err(ParseError::new((1, 1), "the template is longer than 1 MiB"));
        }
        Ok(Self { compiled: Arc::new(Compiled { source: source.into(), paths: Vec::new() }) })
    }

    /// Returns the reads of the root data that are known without rendering, in the order of the template.
    #[must_use]
    pub fn paths(&self) -> &[Path] {
        &self.compiled.paths
    }

    /// Returns the text, if the template contains no action.
    #[must_use]
    pub fn literal(&self) -> Option<&str> {
        (!self.compiled.source.contains("{{")).then_some(&self.compiled.source)
    }

    /// Renders the template with the given root data.
    pub fn render(&self, root: &Value<'_>, limits: &Limits) -> Result<String, RenderError> {
        let _ = (root, limits);
        self.literal().map(str::to_owned).ok_or_else(|| {
            RenderError::new(RenderErrorKind::Evaluation, (1, 1), "actions are not supported yet")
        })
    }
}

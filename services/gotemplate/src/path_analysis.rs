//! Static analysis of the root data that a template reads.

mod origin;
mod visit;

use std::collections::{HashMap, HashSet};

use self::origin::{Origin, OriginPath};
use crate::{
    paths::{Access, Path},
    syntax::{Bodies, Pipeline},
};

/// Maximum number of segments of all found paths. A template above it counts as one that reads everything.
const MAX_SEGMENTS: usize = 100_000;

/// Maximum number of analyzed actions and operands. A template is analyzed for each origin of its data.
const MAX_ACTIONS: usize = 200_000;

/// Maximum number of analyzed calls of templates, each with other data.
const MAX_CALLS: usize = 1_000;

/// Maximum nesting of lists over all called templates. It bounds the recursion.
const MAX_NESTING: usize = 400;

/// Number of nested calls of the same template that are analyzed. Deeper ones count as reads of all their data.
const MAX_RECURSION: usize = 2;

/// Returns the reads of the root data, in the order of the source.
pub(crate) fn paths(source: &str, bodies: &Bodies) -> Vec<Path> {
    let mut analysis = Analysis {
        bodies,
        reads: HashMap::new(),
        calls: HashSet::new(),
        open_calls: Vec::new(),
        segments: 0,
        actions: 0,
        nesting: 0,
        frame: Frame { root: Origin::root(), variables: Vec::new() },
    };
    if let Some(main) = bodies.get("") {
        analysis.list(main, &Origin::root());
    }
    let is_complete = analysis.is_complete();
    let mut reads: Vec<_> = if is_complete {
        analysis.reads.into_iter().collect()
    } else {
        vec![(OriginPath { at: 0, segments: Vec::new() }, Access::Value)]
    };
    reads.sort_by(|(one, _), (other, _)| {
        one.at.cmp(&other.at).then_with(|| one.segments.cmp(&other.segments))
    });
    locate(source, reads)
}

struct Analysis<'t> {
    bodies: &'t Bodies,
    /// Paths with their positions and purposes. A read of the value includes that of a condition.
    reads: HashMap<OriginPath, Access>,
    /// Templates with the origins of their data that are analyzed already.
    calls: HashSet<(&'t str, Origin)>,
    /// Names of the templates whose bodies are being analyzed.
    open_calls: Vec<&'t str>,
    /// Number of segments in `reads`.
    segments: usize,
    /// Number of analyzed actions and operands.
    actions: usize,
    nesting: usize,
    frame: Frame<'t>,
}

/// Origins of the variables of one template.
struct Frame<'t> {
    root: Origin,
    variables: Vec<(&'t str, Origin)>,
}

// === impl Analysis ===

impl<'t> Analysis<'t> {
    fn is_complete(&self) -> bool {
        self.segments <= MAX_SEGMENTS
            && self.actions <= MAX_ACTIONS
            && self.calls.len() <= MAX_CALLS
    }

    /// Records a read of all paths of an origin.
    fn read(&mut self, origin: &Origin, access: Access) {
        self.read_some(origin, access, |_| true);
    }

    fn read_some(
        &mut self,
        origin: &Origin,
        access: Access,
        is_read: impl Fn(&OriginPath) -> bool,
    ) {
        for path in origin.paths().iter().filter(|path| is_read(path)) {
            if self.segments > MAX_SEGMENTS {
                return;
            }
            match self.reads.get_mut(path) {
                Some(Access::Value) => {}
                Some(known) => *known = access,
                None => {
                    self.reads.insert(path.clone(), access);
                    self.segments += path.segments.len() + 1;
                }
            }
        }
    }

    /// Records a value that the template keeps for later. Unlike a member of the root, its evaluation can fail.
    fn keep(&mut self, origin: &Origin) {
        self.read_some(origin, Access::Condition, |path| path.segments.len() > 1);
    }

    /// Gives the variables of a pipeline their value.
    fn set_variables(&mut self, pipeline: &'t Pipeline, origin: &Origin) {
        for name in &pipeline.variables {
            if pipeline.is_assignment {
                self.assign(name, origin);
            } else {
                self.frame.variables.push((name, origin.clone()));
            }
        }
    }

    /// Adds an origin to those of a variable. The read counts as one of the whole value: in a loop, the assignment may
    /// precede uses of the variable that the analysis visited before.
    fn assign(&mut self, name: &str, origin: &Origin) {
        self.read(origin, Access::Value);
        let frame = &mut self.frame;
        let found = frame.variables.iter_mut().rev().find(|(known, _)| *known == name);
        let variable = found.map(|(_, value)| value).or((name == "$").then_some(&mut frame.root));
        if let Some(variable) = variable {
            variable.merge(origin);
        }
    }

    /// Returns the origin of a variable.
    fn variable(&self, name: &str) -> Origin {
        let found = self.frame.variables.iter().rev().find(|(known, _)| *known == name);
        match found {
            Some((_, origin)) => origin.clone(),
            None if name == "$" => self.frame.root.clone(),
            None => Origin::default(),
        }
    }
}

/// Converts byte offsets to lines and columns, in one pass.
fn locate(source: &str, reads: Vec<(OriginPath, Access)>) -> Vec<Path> {
    let mut characters = source.char_indices();
    let (mut next, mut line, mut column) = (characters.next(), 1, 1);
    let mut paths = Vec::with_capacity(reads.len());
    for (OriginPath { at, segments }, access) in reads {
        while let Some((_, character)) = next.filter(|(offset, _)| *offset < at) {
            (line, column) = if character == '\n' { (line + 1, 1) } else { (line, column + 1) };
            next = characters.next();
        }
        paths.push(Path { segments, access, line, column });
    }
    paths
}

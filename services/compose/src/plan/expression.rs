//! Templates of a definition, with what they read.

use vmcp_gotemplate::{Access, Path, Segment, Template};

use super::errors::Errors;
use super::graph::StepSet;

/// Compiled template of a setting.
#[derive(Debug)]
pub(crate) struct Expression {
    pub(crate) template: Template,
    /// Steps that it reads. The data of a rendering contain no others.
    pub(crate) steps: StepSet,
    /// Steps whose output or content it reads.
    pub(crate) outputs: StepSet,
    /// The parts of the root data that it reads.
    pub(crate) roots: Roots,
    /// Keys of the value that it prints, if it does nothing else: `{{.steps.a.output.x}}`.
    pub(crate) printed: Option<Vec<String>>,
}

/// Parts of the root data that a template reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)] // Independent facts.
pub(crate) struct Roots {
    pub(crate) params: bool,
    pub(crate) steps: bool,
    pub(crate) vars: bool,
    pub(crate) workflow: bool,
    pub(crate) for_each: bool,
}

/// Data that the templates of a setting may read.
pub(super) struct Scope<'a> {
    /// Identifiers of all steps.
    pub(super) ids: &'a [&'a str],
    /// The step of the setting. `None` for the output.
    pub(super) step: Option<&'a str>,
    /// Steps that are done when the template is rendered.
    pub(super) visible: StepSet,
    /// Name of the item, in the arguments of an inner step.
    pub(super) item_var: Option<&'a str>,
}

/// Read of a step's result by a template.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct StepRead {
    /// Number of the step that is read.
    pub(crate) step: usize,
    /// Members below `.output`, as far as they are known. `None` if it reads something else than the output.
    pub(crate) output: Option<Vec<String>>,
    /// The template only tests whether the value is empty.
    pub(crate) is_condition: bool,
    /// Path of the setting.
    pub(crate) path: String,
    /// The read is in the output of the workflow.
    pub(crate) in_output: bool,
}

/// Read of a parameter by a template.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ParameterRead {
    pub(crate) name: String,
    pub(crate) path: String,
    /// An action of a step's template prints it, and no other one tests it before.
    pub(crate) is_printed: bool,
}

/// TemplateReads of all templates of a definition.
#[derive(Debug, Default)]
pub(crate) struct TemplateReads {
    pub(crate) steps: Vec<StepRead>,
    pub(crate) parameters: Vec<ParameterRead>,
    /// Paths of settings whose templates read `.vars`, which is empty.
    pub(crate) vars: Vec<String>,
    /// Steps of which a template reads `.content`.
    pub(crate) content: StepSet,
}

const ROOTS: [&str; 5] = ["params", "steps", "vars", "workflow", "forEach"];
const STEP_FIELDS: [&str; 4] = ["status", "output", "content", "error"];
const WORKFLOW_FIELDS: [&str; 5] = ["id", "start_time", "status", "duration_ms", "step_count"];

impl Expression {
    /// Compiles the template of the setting at `path`. Reports what it must not read.
    pub(super) fn compile(
        text: &str,
        path: &str,
        scope: &Scope<'_>,
        reads: &mut TemplateReads,
        errors: &mut Errors,
    ) -> Option<Self> {
        let template = match Template::parse(text) {
            Ok(template) => template,
            Err(error) => {
                let found = format!("a template with an error at {error}");
                errors.reject(path, found, "a template in Go's syntax");
                return None;
            }
        };
        let mut expression = Self {
            template,
            steps: StepSet::default(),
            outputs: StepSet::default(),
            roots: Roots::default(),
            printed: printed_keys(text),
        };
        for read in expression.template.clone().paths() {
            let mut reader = Reader { text, path, scope, reads, errors, read };
            reader.read_root(&mut expression);
        }
        Some(expression)
    }
}

impl Expression {
    /// Returns `true` if the template tests whether parameter `name` is empty.
    fn tests_parameter(&self, name: &str) -> bool {
        let is_of = |segments: &[Segment]| match segments {
            [root, rest @ ..] => {
                key(root) == Some("params") && rest.first().and_then(key) == Some(name)
            }
            [] => false,
        };
        let mut tested = self.template.paths().iter().filter(|it| it.access() == Access::Condition);
        tested.any(|read| is_of(read.segments()))
    }
}

/// Examination of one read.
struct Reader<'a, 's> {
    text: &'a str,
    path: &'a str,
    scope: &'a Scope<'s>,
    reads: &'a mut TemplateReads,
    errors: &'a mut Errors,
    read: &'a Path,
}

impl Reader<'_, '_> {
    fn read_root(&mut self, expression: &mut Expression) {
        let visible = self.scope.visible;
        let Some((root, rest)) = self.read.segments().split_first() else {
            return self.read_everything(expression);
        };
        match key(root) {
            Some("params") => {
                expression.roots.params = true;
                if let Some(name) = rest.first().and_then(key) {
                    let is_printed = self.scope.step.is_some()
                        && prints_parameter(self.text, name)
                        && !expression.tests_parameter(name);
                    let (name, path) = (name.to_owned(), self.path.to_owned());
                    let read = ParameterRead { name, path, is_printed };
                    if !self.reads.parameters.contains(&read) {
                        self.reads.parameters.push(read);
                    }
                }
            }
            Some("steps") => {
                expression.roots.steps = true;
                match rest.split_first() {
                    None | Some((Segment::Any, _)) => {
                        expression.steps = expression.steps.union(visible);
                        expression.outputs = expression.outputs.union(visible);
                        self.reads.content = self.reads.content.union(visible);
                    }
                    Some((id, rest)) => self.read_step(id, rest, expression),
                }
            }
            Some("vars") => {
                expression.roots.vars = true;
                self.reads.vars.push(self.path.to_owned());
            }
            Some("workflow") => {
                expression.roots.workflow = true;
                self.check_field(".workflow", rest, &WORKFLOW_FIELDS);
            }
            Some("forEach") if self.scope.item_var.is_some() => {
                expression.roots.for_each = true;
                let fields = [self.scope.item_var.unwrap_or("item"), "index"];
                self.check_field(".forEach", rest, &fields);
            }
            Some("forEach") => {
                let found = self.found(".forEach");
                self.errors.reject(
                    self.path,
                    found,
                    ".forEach only in step.arguments of a forEach",
                );
            }
            Some(name) => {
                let name = name.to_owned();
                let found = self.found(&format!(".{name}"));
                let allowed = "a read of .params, .steps or .workflow".to_owned();
                self.errors.reject_name(self.path, &name, (found, allowed), ROOTS);
            }
            None => self.read_everything(expression),
        }
    }

    fn read_everything(&mut self, expression: &mut Expression) {
        expression.steps = expression.steps.union(self.scope.visible);
        expression.outputs = expression.outputs.union(self.scope.visible);
        self.reads.content = self.reads.content.union(self.scope.visible);
        let for_each = self.scope.item_var.is_some();
        expression.roots =
            Roots { params: true, steps: true, vars: true, workflow: true, for_each };
    }

    fn read_step(&mut self, id: &Segment, rest: &[Segment], expression: &mut Expression) {
        let Some(id) = key(id) else {
            let found = self.found("a step by number");
            return self.errors.reject(self.path, found, "the id of a step");
        };
        let Some(step) = self.scope.ids.iter().position(|known| *known == id) else {
            let (found, allowed) =
                (self.found(&format!("step \"{id}\"")), "the id of a step of this tool".to_owned());
            let known = self.scope.ids.iter().copied();
            return self.errors.reject_name(self.path, id, (found, allowed), known);
        };
        if !self.scope.visible.contains(step) {
            return self.reject_invisible(id);
        }
        expression.steps.insert(step);
        self.check_field(&format!(".steps.{id}"), rest, &STEP_FIELDS);
        let field = rest.first().map(key);
        if !matches!(field, Some(Some("status" | "error"))) {
            expression.outputs.insert(step);
        }
        if !matches!(field, Some(Some("status" | "output" | "error"))) {
            self.reads.content.insert(step);
        }
        let output = match field {
            Some(Some("output")) => Some(known_keys(&rest[1..])),
            None => Some(Vec::new()),
            Some(_) => None,
        };
        self.reads.steps.push(StepRead {
            step,
            output,
            is_condition: self.read.access() == Access::Condition,
            path: self.path.to_owned(),
            in_output: self.scope.step.is_none(),
        });
    }

    fn reject_invisible(&mut self, id: &str) {
        let found = self.found(&format!("step \"{id}\""));
        let allowed = match self.scope.step {
            Some(step) if step == id => {
                "another step: a step cannot read its own result".to_owned()
            }
            Some(step) => {
                format!("steps that are done before; add \"{id}\" to dependsOn of step \"{step}\"")
            }
            None => "steps of this tool".to_owned(),
        };
        self.errors.reject(self.path, found, allowed);
    }

    /// Rejects a field that `object` does not have.
    fn check_field(&mut self, object: &str, rest: &[Segment], fields: &[&str]) {
        let Some(field) = rest.first().and_then(key) else { return };
        if fields.contains(&field) {
            return;
        }
        let found = self.found(&format!("{object}.{field}"));
        let allowed = format!("one of {}", fields.join(", "));
        self.errors.reject_name(self.path, field, (found, allowed), fields.iter().copied());
    }

    fn found(&self, what: &str) -> String {
        let (line, column) = (self.read.line(), self.read.column());
        format!("a template that reads {what} (line {line}, column {column})")
    }
}

/// Returns the keys of a template that prints one field and nothing else.
fn printed_keys(text: &str) -> Option<Vec<String>> {
    let path = text.strip_prefix("{{")?.strip_suffix("}}")?.trim().strip_prefix('.')?;
    let is_name = |key: &str| key.chars().all(|c| c.is_alphanumeric() || c == '_');
    let keys: Vec<_> = path.split('.').map(ToOwned::to_owned).collect();
    keys.iter().all(|key| !key.is_empty() && is_name(key)).then_some(keys)
}

/// Returns `true` if an action of a template prints parameter `name` and does nothing else.
fn prints_parameter(text: &str, name: &str) -> bool {
    text.split("{{").skip(1).any(|action| {
        let action = action.split("}}").next().unwrap_or_default().trim_matches(['-', ' ']);
        action.strip_prefix(".params.") == Some(name)
    })
}

fn key(segment: &Segment) -> Option<&str> {
    match segment {
        Segment::Key(name) => Some(name),
        Segment::Index(_) | Segment::Any => None,
    }
}

/// Returns the leading segments that are keys.
fn known_keys(segments: &[Segment]) -> Vec<String> {
    segments.iter().map_while(key).map(ToOwned::to_owned).collect()
}

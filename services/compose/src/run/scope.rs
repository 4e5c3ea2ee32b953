//! Data that templates read.

use serde_json::Value;
use tokio::time::Instant;
use vmcp_gotemplate::{Limits, Value as Data};

use super::progress::Results;
use crate::limits::MAX_TEXT_BYTES;
use crate::plan::{Expression, Plan};
use crate::{RunId, StepResult, Timestamp};

/// Data of a run that do not change.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scope<'a> {
    pub(super) plan: &'a Plan,
    pub(super) run: &'a RunId,
    pub(super) arguments: &'a Value,
    pub(super) started_at: Timestamp,
    /// Start of the run by the clock of timeouts.
    pub(super) started: Instant,
}

/// LoopItem of a `forEach` step.
#[derive(Clone, Copy, Debug)]
pub(super) struct LoopItem<'a> {
    pub(super) name: &'a str,
    pub(super) value: &'a Value,
    pub(super) index: usize,
}

impl<'a> Scope<'a> {
    /// Renders a template with the results of the steps that it reads. Returns a message on failure.
    pub(super) fn render(
        &self,
        expression: &Expression,
        results: &'a Results,
        item: Option<LoopItem<'a>>,
    ) -> Result<String, String> {
        if let Some(text) = expression.template.literal() {
            return Ok(text.to_owned());
        }
        let limits = Limits { max_output_bytes: MAX_TEXT_BYTES, ..Limits::default() };
        let root = self.root(expression, results, item);
        expression.template.render(&root, &limits).map_err(|error| error.to_string())
    }

    fn root(
        &self,
        expression: &Expression,
        results: &'a Results,
        item: Option<LoopItem<'a>>,
    ) -> Data<'a> {
        let roots = expression.roots;
        let mut root = Vec::with_capacity(5);
        if roots.params {
            root.push(("params", Data::Json(self.arguments)));
        }
        if roots.steps {
            let steps = expression.steps.iter().filter_map(|step| {
                let result = results.get(step)?;
                Some((&*self.plan.steps[step].id, step_data(result)))
            });
            root.push(("steps", Data::Map(steps.collect())));
        }
        if roots.vars {
            root.push(("vars", Data::Map(Vec::new())));
        }
        if roots.workflow {
            root.push(("workflow", self.workflow()));
        }
        if let Some(item) = item.filter(|_| roots.for_each) {
            let index = Data::Integer(i64::try_from(item.index).unwrap_or(i64::MAX));
            let fields = vec![(item.name, Data::Json(item.value)), ("index", index)];
            root.push(("forEach", Data::Map(fields)));
        }
        Data::Map(root)
    }

    fn workflow(&self) -> Data<'a> {
        let millis = i64::try_from(self.started.elapsed().as_millis()).unwrap_or(i64::MAX);
        let count = i64::try_from(self.plan.steps.len()).unwrap_or(i64::MAX);
        Data::Map(vec![
            ("id", Data::from(self.run.as_str())),
            ("start_time", Data::from(self.started_at.to_string())),
            ("status", Data::from("running")),
            ("duration_ms", Data::Integer(millis)),
            ("step_count", Data::Integer(count)),
        ])
    }
}

fn step_data(result: &StepResult) -> Data<'_> {
    let mut fields = Vec::with_capacity(4);
    fields.push(("status", Data::from(result.status.as_str())));
    fields.push(("output", Data::Json(&result.output)));
    fields.push(("content", Data::Json(&result.content)));
    if let Some(error) = &result.error {
        fields.push(("error", Data::from(&**error)));
    }
    Data::Map(fields)
}

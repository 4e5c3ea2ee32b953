//! Rows without a gateway: the engine of composite tools and the tool search, in CPU time of this thread.

mod engine;
mod search;

use std::fs;

use super::Effort;
use super::rows::Work;
use super::table::{Comparison, Measurement};
use crate::BoxError;
use crate::summary::median;

/// Measures one row.
pub(super) async fn measure(work: Work, effort: Effort) -> Result<Measurement, BoxError> {
    let value = match work {
        Work::Chain(service) => engine::chain(service, effort).await?,
        Work::Diamond => engine::diamond(effort).await?,
        Work::Search(tools) => search::measure(tools, effort).await?,
    };
    Ok(Measurement { value: Some(value), ..Measurement::default() })
}

/// Pairs of figures, one a repetition.
#[derive(Debug, Default)]
struct Samples {
    ours: Vec<f64>,
    bound: Vec<f64>,
}

impl Samples {
    fn push(&mut self, ours: f64, bound: f64) {
        self.ours.push(ours);
        self.bound.push(bound);
    }

    /// Returns the medians.
    fn comparison(self) -> Comparison {
        Comparison { gateway: median(self.ours), proxy: median(self.bound) }
    }
}

/// Returns the CPU time of this thread in microseconds (Linux, `/proc/thread-self/schedstat`).
fn cpu_time() -> Result<f64, BoxError> {
    let text = fs::read_to_string("/proc/thread-self/schedstat")?;
    let nanos: f64 = text.split_whitespace().next().ok_or("an empty file")?.parse()?;
    Ok(nanos / 1e3)
}

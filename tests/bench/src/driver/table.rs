//! Rendering of the result table.

use std::thread::available_parallelism;

use super::Effort;
use super::programs::Programs;
use super::rows::{Limit, Row};
use crate::BoxError;

/// Figures of the gateway and of the proxy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Comparison {
    pub(super) gateway: f64,
    pub(super) proxy: f64,
}

/// Figures of one row.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Measurement {
    /// Requests per second.
    pub(super) rate: Option<Comparison>,
    /// Microseconds.
    pub(super) p50: Option<Comparison>,
    /// Microseconds.
    pub(super) p99: Option<Comparison>,
    /// CPU time per request in microseconds.
    pub(super) cpu: Option<Comparison>,
    /// In the unit of the row.
    pub(super) value: Option<Comparison>,
}

impl Comparison {
    fn ratio(self) -> f64 {
        // A lower bound for the divisor keeps the ratio finite.
        self.gateway / self.proxy.max(0.001)
    }
}

impl Limit {
    /// Returns the limit as text and if it is met, or `None` without a figure for it.
    fn judge(self, measured: &Measurement) -> Option<(String, bool)> {
        Some(match self {
            Self::Cpu(most) => (format!("CPU <= {most:.2}x"), measured.cpu?.ratio() <= most),
            Self::Rate(least) => (format!("req/s >= {least:.2}x"), measured.rate?.ratio() >= least),
            Self::Median(most) => (format!("p50 <= {most:.2}x"), measured.p50?.ratio() <= most),
            Self::Value(most) => (format!("<= {most}"), measured.value?.gateway <= most),
            Self::Times(most) => (format!("<= {most:.2}x"), measured.value?.ratio() <= most),
        })
    }
}

/// Renders the whole table in Markdown.
pub(super) fn render(
    lines: &[(&Row, Result<Measurement, BoxError>)],
    programs: &Programs,
    effort: Effort,
) -> String {
    let processors = available_parallelism().map_or(1, usize::from);
    let mut out = format!(
        "{} against a bare hyper proxy with a pool; {processors} processors, medians of {} \
         interleaved repetitions; each cell: gateway / proxy = ratio, or as the row says\n\n",
        programs.vmcp.display(),
        effort.repetitions,
    );
    out.push_str(HEAD);
    for row in lines {
        out.push_str(&line(row, effort));
    }
    out
}

/// Renders one row.
pub(super) fn line(
    (row, measured): &(&Row, Result<Measurement, BoxError>),
    effort: Effort,
) -> String {
    let Row { name, what, generation: _, stack: _, kind: _, limits } = row;
    match measured {
        Ok(measured) => {
            let Measurement { rate, p50, p99, cpu, value } = measured;
            let cells = [rate, p50, p99, cpu, value].map(|pair| cell(*pair)).join(" | ");
            format!("| {name} | {what} | {cells} | {} |\n", verdict(limits, measured, effort))
        }
        Err(fault) => {
            let fault = fault.to_string().replace('\n', " ").replace('|', "/");
            format!("| {name} | {what} | | | | | | WRONG: {fault} |\n")
        }
    }
}

const HEAD: &str = "| row | what | req/s | p50 us | p99 us | CPU us/request | figure | limits |\n\
                    |---|---|---|---|---|---|---|---|\n";

fn cell(pair: Option<Comparison>) -> String {
    let Some(pair) = pair else { return String::new() };
    let digits = if pair.gateway.max(pair.proxy) < 100.0 { 2 } else { 0 };
    let Comparison { gateway, proxy } = pair;
    // A ratio to a figure near zero is meaningless.
    let ratio = if proxy < 0.1 { "-".to_owned() } else { format!("{:.2}", pair.ratio()) };
    format!("{gateway:.digits$} / {proxy:.digits$} = {ratio}")
}

fn verdict(limits: &[Limit], measured: &Measurement, effort: Effort) -> String {
    // So few requests yield no meaningful figure.
    if effort.smoke {
        return "correct".to_owned();
    }
    let judged = limits.iter().filter_map(|limit| limit.judge(measured));
    let words: Vec<String> = judged
        .map(|(limit, met)| format!("{limit} {}", if met { "met" } else { "NOT MET" }))
        .collect();
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const EFFORT: Effort = Effort { repetitions: 1, smoke: false, requests: None };

    fn pair(gateway: f64, proxy: f64) -> Comparison {
        Comparison { gateway, proxy }
    }

    #[test]
    fn compares_each_limit_with_own_figure() {
        let measured = Measurement {
            rate: Some(pair(79.0, 100.0)),
            cpu: Some(pair(13.5, 10.0)),
            ..Measurement::default()
        };
        let limits = [Limit::Cpu(1.35), Limit::Rate(0.8), Limit::Value(1.0)];
        assert_eq!(verdict(&limits, &measured, EFFORT), "CPU <= 1.35x met, req/s >= 0.80x NOT MET");
        let measured = Measurement { value: Some(pair(9.0, 2.0)), ..Measurement::default() };
        let limits = [Limit::Value(12.0), Limit::Times(4.0)];
        assert_eq!(verdict(&limits, &measured, EFFORT), "<= 12 met, <= 4.00x NOT MET");
    }

    #[test]
    fn rounds_cells_to_significant_digits() {
        assert_eq!(cell(Some(pair(1234.5, 1000.0))), "1234 / 1000 = 1.23");
        assert_eq!(cell(Some(pair(1.5, 1.0))), "1.50 / 1.00 = 1.50");
        assert_eq!(cell(Some(pair(6.0, 0.04))), "6.00 / 0.04 = -");
        assert_eq!(cell(None), "");
    }
}

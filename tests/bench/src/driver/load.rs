//! Closed-loop load rows: runs them on both targets in turn, and checks the counters of the backends.

use clap::ValueEnum;
use tokio::process::Command;

use super::Effort;
use super::dimensions::{BACKENDS, CHAIN, CHAIN_LENGTH};
use super::full::Tokens;
use super::programs::Programs;
use super::rows::Load;
use super::table::{Comparison, Measurement};
use super::test_bed::{ServerProcess, TestBed};
use crate::load::{Mode, Report};
use crate::summary::median;
use crate::{BoxError, Generation};

/// Options of one run of the load tool.
#[derive(Debug)]
pub(super) struct LoadOptions<'a> {
    pub(super) generation: Generation,
    pub(super) mode: Mode,
    pub(super) tools: &'a [String],
    pub(super) expect_tools: usize,
    pub(super) bytes: usize,
    pub(super) connections: usize,
    pub(super) requests: u64,
    pub(super) warmup: u64,
    pub(super) streams: bool,
    pub(super) settle_ms: u64,
    pub(super) tokens: Option<Tokens<'a>>,
}

/// Name of the measured process in reports.
pub(super) const TARGET: &str = "target";

/// Puts load on `front` and returns the report if it contains no error.
pub(super) async fn run(
    programs: &Programs,
    front: &ServerProcess,
    order: &LoadOptions<'_>,
) -> Result<Report, BoxError> {
    let mode = order.mode.to_possible_value().ok_or("no such mode")?;
    let mut command = Command::new(&programs.load);
    command.kill_on_drop(true);
    command.args(["--url", &front.url(), "--mode", mode.get_name()]);
    command.args(["--generation", order.generation.word()]);
    command.args(["--tool", &order.tools.join(",")]);
    command.args(["--watch", &format!("{TARGET}={}", front.pid())]);
    for (name, value) in [
        ("--expect-tools", order.expect_tools as u64),
        ("--bytes", order.bytes as u64),
        ("--connections", order.connections as u64),
        ("--requests", order.requests),
        ("--warmup", order.warmup),
        ("--settle-ms", order.settle_ms),
    ] {
        command.args([name, &value.to_string()]);
    }
    if order.streams {
        command.arg("--streams");
    }
    if let Some(Tokens { file, each_once }) = order.tokens {
        command.arg("--tokens").arg(file);
        if each_once {
            command.arg("--each-token-once");
        }
    }
    let output = command.output().await?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into());
    }
    let report: Report = serde_json::from_slice(&output.stdout)?;
    match &report.first_error {
        Some(first) => Err(format!("{} errors, the first: {first}", report.errors).into()),
        None if u64::from(report.ok) != order.requests => {
            Err(format!("{} answers to {} requests", report.ok, order.requests).into())
        }
        None => Ok(report),
    }
}

/// Measures one row.
pub(super) async fn measure(
    load: &Load,
    world: &TestBed,
    programs: &Programs,
    effort: Effort,
) -> Result<Measurement, BoxError> {
    let mut reports = (Vec::new(), Vec::new());
    if let Some(full) = &world.full {
        full.forget()?;
    }
    for turn in 0..effort.repetitions {
        let tokens = tokens(load, world, effort).await?;
        // The second target profits from caches that the first has warmed, so the order alternates.
        for gateway in [turn % 2 == 0, turn % 2 != 0] {
            let report = once(load, world, programs, effort, tokens, gateway).await;
            let report = report.map_err(|fault| {
                format!("{}: {fault}", if gateway { "gateway" } else { "proxy" })
            })?;
            if gateway { reports.0.push(report) } else { reports.1.push(report) }
        }
    }
    if let Some(full) = &world.full {
        let requests = warmup(load, effort) + effort.requests(load.requests);
        full.prove(world.gateway.address(), requests * reports.0.len() as u64, effort).await?;
    }
    let pair = |figure: fn(&Report) -> f64| Comparison {
        gateway: median(reports.0.iter().map(figure).collect()),
        proxy: median(reports.1.iter().map(figure).collect()),
    };
    Ok(Measurement {
        rate: Some(pair(|report| report.rate)),
        p50: Some(pair(|report| report.p50_us)),
        p99: Some(pair(|report| report.p99_us)),
        cpu: Some(pair(cpu)),
        value: None,
    })
}

/// Returns the tokens for both targets: the proxy forwards them.
async fn tokens<'a>(
    load: &Load,
    world: &'a TestBed,
    effort: Effort,
) -> Result<Option<Tokens<'a>>, BoxError> {
    let Some(full) = &world.full else { return Ok(None) };
    let Some(algorithm) = load.new_tokens else { return Ok(Some(full.repeated())) };
    let requests = warmup(load, effort) + effort.requests(load.requests);
    let count = usize::try_from(requests)? + effort.connections(load.connections);
    full.new_ones(algorithm, count).await.map(Some)
}

fn warmup(load: &Load, effort: Effort) -> u64 {
    effort.scaled(load.requests / 20)
}

fn cpu(report: &Report) -> f64 {
    report.processes.get(TARGET).map_or(0.0, |cost| cost.cpu_us)
}

async fn once(
    load: &Load,
    world: &TestBed,
    programs: &Programs,
    effort: Effort,
    tokens: Option<Tokens<'_>>,
    gateway: bool,
) -> Result<Report, BoxError> {
    let echoes = |count| (1..=count).map(|number| format!("be{number}_echo")).collect();
    let tools: Vec<String> = match (gateway, load.mode, load.spread) {
        (true, Mode::Chain, _) => vec![CHAIN.to_owned()],
        (false, Mode::Chain, _) => echoes(CHAIN_LENGTH),
        (true, _, true) => echoes(BACKENDS),
        (true, _, false) => echoes(1),
        (false, ..) => vec!["echo".to_owned()],
    };
    // A chain is compared with direct calls through the gateway.
    let (front, mode) = match (gateway, load.mode) {
        (false, Mode::Chain) => (&world.gateway, Mode::Sequence),
        (true, mode) => (&world.gateway, mode),
        (false, Mode::List) => (&world.list_proxy, Mode::List),
        (false, mode) => (&world.proxy, mode),
    };
    let order = LoadOptions {
        generation: world.generation,
        mode,
        tools: &tools,
        expect_tools: world.visible,
        bytes: load.bytes,
        connections: effort.connections(load.connections),
        requests: effort.requests(load.requests),
        warmup: warmup(load, effort),
        streams: false,
        settle_ms: 0,
        tokens,
    };
    let before = (world.stats().await?, world.large.stats().await?);
    let report = run(programs, front, &order).await?;
    let after = (world.stats().await?, world.large.stats().await?);
    let reached: Vec<u64> =
        before.0.iter().zip(&after.0).map(|(before, after)| after.call - before.call).collect();
    let listed = after.1.list - before.1.list;
    if load.mode == Mode::List && !gateway && listed != order.requests + order.warmup {
        return Err(format!("{listed} lists reached the backend").into());
    }
    arrived(&reached, &report)?;
    Ok(report)
}

/// Checks that every call reached its backend exactly once, and no other backend.
fn arrived(reached: &[u64], report: &Report) -> Result<(), BoxError> {
    let mut expected = vec![0; reached.len()];
    for (tool, sent) in &report.sent {
        if tool == CHAIN {
            expected.iter_mut().take(CHAIN_LENGTH).for_each(|expected| *expected += sent);
            continue;
        }
        let number = tool.strip_prefix("be").and_then(|rest| rest.split_once('_'));
        let index = number.map_or(Ok(1), |(number, _)| number.parse::<usize>())? - 1;
        *expected.get_mut(index).ok_or("a tool of an unknown backend")? += sent;
    }
    if reached == expected {
        Ok(())
    } else {
        Err(format!("calls that should reach the backends: {expected:?}, did: {reached:?}").into())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn sent(tools: &[(&str, u64)]) -> Report {
        Report {
            sent: tools.iter().map(|(tool, count)| ((*tool).to_owned(), *count)).collect(),
            ok: 0,
            errors: 0,
            first_error: None,
            seconds: 1.0,
            rate: 0.0,
            p50_us: 0.0,
            p99_us: 0.0,
            processes: BTreeMap::new(),
        }
    }

    #[test]
    fn detects_repeated_and_misrouted_calls() {
        assert!(arrived(&[3, 2, 0], &sent(&[("be1_echo", 3), ("be2_echo", 2)])).is_ok());
        assert!(arrived(&[4, 2, 0], &sent(&[("be1_echo", 3), ("be2_echo", 2)])).is_err());
        assert!(arrived(&[2, 3, 0], &sent(&[("be1_echo", 3), ("be2_echo", 2)])).is_err());
        assert!(arrived(&[7, 0, 0], &sent(&[("echo", 7)])).is_ok());
        assert!(arrived(&[0], &sent(&[("be2_echo", 1)])).is_err());
        assert!(arrived(&[2, 2, 2, 0], &sent(&[("chain", 2)])).is_ok());
        assert!(arrived(&[2, 2, 3, 0], &sent(&[("chain", 2)])).is_err());
    }
}

//! Memory rows. Each figure comes from a fresh process.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::Effort;
use super::dimensions::TOOLS;
use super::load::{LoadOptions, TARGET, run};
use super::process::{POLL_INTERVAL, WAIT_TIMEOUT};
use super::programs::Programs;
use super::rows::IdleSessions;
use super::table::{Comparison, Measurement};
use super::test_bed::{ANONYMOUS, ServerProcess, TestBed};
use crate::BoxError;
use crate::load::{Cost, Mode, Report};
use crate::summary::median;
use crate::usage::Usage;

/// Number of samples per figure.
const SAMPLES: usize = 3;

/// Pause before memory is read, in milliseconds.
const REST: u64 = 2_000;

/// Sessions before the first counted one, so that buffers and pools have their final size.
const WARMUP: u64 = 500;

pub(super) async fn idle(
    world: &TestBed,
    programs: &Programs,
    effort: Effort,
) -> Result<Measurement, BoxError> {
    let mut pairs = Vec::new();
    for _ in 0..effort.samples(SAMPLES) {
        let asked = world.stats().await?;
        let gateway = ServerProcess::gateway(programs, &world.backends, ANONYMOUS).await?;
        let proxy = ServerProcess::proxy(programs, &world.backends[0]).await?;
        let deadline = Instant::now() + WAIT_TIMEOUT;
        loop {
            let now = world.stats().await?;
            if asked.iter().zip(&now).all(|(asked, now)| now.list > asked.list) {
                break;
            }
            if Instant::now() > deadline {
                return Err("the gateway does not ask what its backends offer".into());
            }
            sleep(POLL_INTERVAL).await;
        }
        sleep(Duration::from_millis(effort.scaled(REST))).await;
        pairs.push(Comparison { gateway: resident(&gateway)?, proxy: resident(&proxy)? });
        gateway.end().await?;
        proxy.end().await?;
    }
    Ok(value(&pairs))
}

pub(super) async fn sessions(
    sessions: &IdleSessions,
    world: &TestBed,
    programs: &Programs,
    effort: Effort,
) -> Result<Measurement, BoxError> {
    let backends = &world.backends[..sessions.backends];
    let tools: Vec<String> =
        (1..=backends.len()).map(|number| format!("be{number}_echo")).collect();
    let plain = ["echo".to_owned()];
    let order = |tools, expect_tools| LoadOptions {
        generation: world.generation,
        mode: Mode::Hold,
        tools,
        expect_tools,
        bytes: 200,
        connections: effort.connections(8),
        requests: effort.scaled(sessions.sessions),
        warmup: effort.scaled(WARMUP),
        streams: sessions.streams,
        settle_ms: effort.scaled(REST),
        tokens: None,
    };
    let per_session = |report: &Report| {
        cost(report).map(|cost| {
            let grown = cost.after_kib.saturating_sub(cost.before_kib);
            small(grown) / f64::from(report.ok.max(1))
        })
    };
    let mut pairs = Vec::new();
    for _ in 0..effort.samples(SAMPLES) {
        let front = ServerProcess::gateway(programs, backends, ANONYMOUS).await?;
        front.until_listed(world.generation, None, TOOLS * backends.len()).await?;
        let report = run(programs, &front, &order(&tools[..], TOOLS * backends.len())).await?;
        let gateway = per_session(&report)?;
        front.end().await?;
        let front = ServerProcess::proxy(programs, &backends[0]).await?;
        let report = run(programs, &front, &order(&plain[..], TOOLS)).await?;
        pairs.push(Comparison { gateway, proxy: per_session(&report)? });
        front.end().await?;
    }
    Ok(value(&pairs))
}

pub(super) async fn connections(
    count: usize,
    world: &TestBed,
    programs: &Programs,
    effort: Effort,
) -> Result<Measurement, BoxError> {
    let (prefixed, plain) = (["be1_echo".to_owned()], ["echo".to_owned()]);
    let order = |tools| LoadOptions {
        generation: world.generation,
        mode: Mode::Call,
        tools,
        expect_tools: 0,
        bytes: 200,
        connections: effort.connections(count),
        requests: effort.requests(10_000),
        warmup: effort.scaled(1_000),
        streams: false,
        settle_ms: 0,
        tokens: None,
    };
    let mut pairs = Vec::new();
    for _ in 0..effort.samples(SAMPLES) {
        let front = ServerProcess::gateway(programs, &world.backends, ANONYMOUS).await?;
        let report = run(programs, &front, &order(&prefixed)).await?;
        let gateway = small(cost(&report)?.after_kib) / 1024.0;
        front.end().await?;
        let front = ServerProcess::proxy(programs, &world.backends[0]).await?;
        let report = run(programs, &front, &order(&plain)).await?;
        pairs.push(Comparison { gateway, proxy: small(cost(&report)?.after_kib) / 1024.0 });
        front.end().await?;
    }
    Ok(value(&pairs))
}

fn value(pairs: &[Comparison]) -> Measurement {
    let gateway = median(pairs.iter().map(|pair| pair.gateway).collect());
    let proxy = median(pairs.iter().map(|pair| pair.proxy).collect());
    Measurement { value: Some(Comparison { gateway, proxy }), ..Measurement::default() }
}

fn cost(report: &Report) -> Result<Cost, BoxError> {
    report.processes.get(TARGET).copied().ok_or_else(|| "nothing was watched".into())
}

/// Returns the resident memory in MiB.
fn resident(front: &ServerProcess) -> Result<f64, BoxError> {
    Ok(small(Usage::of(front.pid())?.resident_kib) / 1024.0)
}

/// Converts KiB of one process without loss: it never reaches 4 TiB.
fn small(kib: u64) -> f64 {
    f64::from(u32::try_from(kib).unwrap_or(u32::MAX))
}

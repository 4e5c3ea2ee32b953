//! First list after a change of every backend: the gateway's cost from the notifications to the response, beside one list
//! through the proxy.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::future::try_join_all;
use tokio::time::{Instant, sleep};

use super::Effort;
use super::process::{POLL_INTERVAL, WAIT_TIMEOUT};
use super::table::{Comparison, Measurement};
use super::test_bed::{Backend, ServerProcess, TestBed};
use crate::BoxError;
use crate::client::Client;
use crate::summary::{median, micros};
use crate::usage::Usage;

/// Number of samples.
const SAMPLES: usize = 9;

/// Pause before each measurement, and between the gateway's and the client's list requests.
const QUIET: Duration = Duration::from_millis(100);

/// One sample.
#[derive(Clone, Copy, Debug)]
struct Sample {
    /// CPU time in microseconds.
    cpu: f64,
    /// List latency in microseconds.
    list: f64,
}

pub(super) async fn measure(world: &TestBed, effort: Effort) -> Result<Measurement, BoxError> {
    let mut gateway = world.gateway.client(world.generation)?;
    let mut proxy = world.list_proxy.client(world.generation)?;
    gateway.open().await?;
    proxy.open().await?;
    let mut samples = (Vec::new(), Vec::new());
    // The first sample is a warm-up.
    for turn in 0..=effort.samples(SAMPLES) {
        let changed = after_change(world, &mut gateway).await?;
        let plain = plain(&world.list_proxy, &mut proxy).await?;
        if turn > 0 {
            samples.0.push(changed);
            samples.1.push(plain);
        }
    }
    for mut client in [gateway, proxy] {
        if let Some(session) = client.leave() {
            client.end(session).await?;
        }
    }
    let pair = |figure: fn(&Sample) -> f64| Comparison {
        gateway: median(samples.0.iter().map(figure).collect()),
        proxy: median(samples.1.iter().map(figure).collect()),
    };
    Ok(Measurement {
        p50: Some(pair(|sample| sample.list)),
        cpu: Some(pair(|sample| sample.cpu)),
        ..Measurement::default()
    })
}

async fn after_change(world: &TestBed, client: &mut Client) -> Result<Sample, BoxError> {
    sleep(QUIET).await;
    let asked = world.stats().await?;
    let before = Usage::of(world.gateway.pid())?;
    let names = try_join_all(world.backends.iter().map(Backend::change)).await?;
    let names: BTreeSet<_> =
        (1..).zip(names).map(|(number, name): (usize, _)| format!("be{number}_{name}")).collect();
    let deadline = Instant::now() + WAIT_TIMEOUT;
    // No request is sent before the gateway has processed the notifications: polling would be measured too.
    loop {
        let now = world.stats().await?;
        if asked.iter().zip(&now).all(|(asked, now)| now.list > asked.list) {
            break;
        }
        if Instant::now() > deadline {
            return Err("the gateway does not ask backends that announced a change".into());
        }
        sleep(POLL_INTERVAL).await;
    }
    sleep(QUIET).await;
    let start = Instant::now();
    let listed = client.list().await?;
    let list = micros(start.elapsed());
    let cpu = micros(Usage::of(world.gateway.pid())?.since(&before));
    if names.is_subset(&listed) {
        Ok(Sample { cpu, list })
    } else {
        Err(format!("the first list after a change lacks some of {names:?}").into())
    }
}

/// Measures one list through the proxy after the same pause.
async fn plain(proxy: &ServerProcess, client: &mut Client) -> Result<Sample, BoxError> {
    sleep(QUIET * 2).await;
    let before = Usage::of(proxy.pid())?;
    let start = Instant::now();
    client.list().await?;
    let list = micros(start.elapsed());
    Ok(Sample { cpu: micros(Usage::of(proxy.pid())?.since(&before)), list })
}

//! Time from process start to the first `initialize` response.

use std::time::Duration;

use tokio::net::TcpStream;
use tokio::task::yield_now;
use tokio::time::{Instant, sleep};

use super::Effort;
use super::process::WAIT_TIMEOUT;
use super::programs::Programs;
use super::table::{Comparison, Measurement};
use super::test_bed::{ANONYMOUS, ServerProcess, TestBed};
use crate::summary::median;
use crate::{BoxError, Generation};

/// Number of samples.
const SAMPLES: usize = 9;

pub(super) async fn measure(
    world: &TestBed,
    programs: &Programs,
    effort: Effort,
) -> Result<Measurement, BoxError> {
    let (mut gateway, mut proxy) = (Vec::new(), Vec::new());
    for _ in 0..effort.samples(SAMPLES) {
        let start = Instant::now();
        let front = ServerProcess::gateway_at_once(programs, &world.backends, ANONYMOUS).await?;
        gateway.push(answered(front, start, world.generation).await?);
        let start = Instant::now();
        let front = ServerProcess::proxy_at_once(programs, &world.backends[0]).await?;
        proxy.push(answered(front, start, world.generation).await?);
    }
    let pair = Comparison { gateway: median(gateway), proxy: median(proxy) };
    Ok(Measurement { value: Some(pair), ..Measurement::default() })
}

/// Returns the milliseconds from `start` to the response.
async fn answered(
    front: ServerProcess,
    start: Instant,
    generation: Generation,
) -> Result<f64, BoxError> {
    // Retries without a sleep: the shortest sleep takes as long as the measured time.
    while TcpStream::connect(front.address()).await.is_err() {
        if start.elapsed() > WAIT_TIMEOUT {
            return Err("nobody listens".into());
        }
        yield_now().await;
    }
    front.client(generation)?.open().await?;
    let took = start.elapsed().as_secs_f64() * 1e3;
    front.end().await?;
    // Wait for cleanup of the old process, so that it does not overlap with the next start.
    sleep(Duration::from_millis(50)).await;
    Ok(took)
}

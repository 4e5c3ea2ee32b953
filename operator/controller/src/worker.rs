//! Workers: they reconcile what the queue holds, several objects at a time.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::time::Instant;

use crate::apply::ApplyError;
use crate::controllers::Context;
use crate::key::ObjectKey;
use crate::metrics::Metrics;

const FIRST_DELAY: Duration = Duration::from_secs(1);
const LONGEST_DELAY: Duration = Duration::from_mins(5);

/// Reconciles objects of the queue, at most `concurrency` at a time, until `stop` ends. Reconciles that have begun end first.
pub(crate) async fn work(
    context: Arc<Context>,
    metrics: Arc<Metrics>,
    concurrency: usize,
    stop: impl Future<Output = ()>,
) {
    let mut running = FuturesUnordered::new();
    let mut failures: HashMap<ObjectKey, u32> = HashMap::new();
    tokio::pin!(stop);
    loop {
        tokio::select! {
            biased;
            () = &mut stop => break,
            Some((target, result)) = running.next(), if !running.is_empty() => {
                let delay = delay(&context, &mut failures, &target, result);
                context.stores.queue.finish(&target, delay);
            }
            target = context.stores.queue.next(), if running.len() < concurrency => {
                let context = Arc::clone(&context);
                let metrics = Arc::clone(&metrics);
                running.push(async move {
                    let start = Instant::now();
                    let result = Box::pin(context.reconcile(&target)).await;
                    metrics.count_reconcile(target.kind, result.is_ok(), start.elapsed());
                    (target, result)
                });
            }
        }
    }
    while running.next().await.is_some() {}
}

/// Returns the time until an object is due again.
fn delay(
    context: &Context,
    failures: &mut HashMap<ObjectKey, u32>,
    target: &ObjectKey,
    result: Result<Option<Duration>, ApplyError>,
) -> Option<Duration> {
    match result {
        Ok(delay) => {
            failures.remove(target);
            delay
        }
        Err(error) => {
            let count = failures.entry(target.clone()).or_default();
            *count += 1;
            let delay = context.environment.backoff(FIRST_DELAY, LONGEST_DELAY, *count);
            tracing::warn!(object = %target, %error, delay_ms = delay.as_millis(), "reconcile failed");
            Some(delay)
        }
    }
}

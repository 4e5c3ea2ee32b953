//! The log: JSON lines on standard error.

use std::sync::OnceLock;

use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::reload::{self, Handle};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry};

static LEVEL: OnceLock<Handle<LevelFilter, Registry>> = OnceLock::new();

/// Starts the log. `debug` is `operational.logLevel: debug`.
pub fn start(debug: bool) {
    let (filter, handle) = reload::Layer::new(level(debug));
    let lines = tracing_subscriber::fmt::layer()
        .json()
        .flatten_event(true)
        .with_writer(std::io::stderr)
        .with_filter(filter);
    // A second start, as in a test that runs two servers, keeps the first log.
    if tracing_subscriber::registry().with(lines).try_init().is_ok() {
        _ = LEVEL.set(handle);
    }
}

/// Changes the level of a log that was started.
pub fn set_debug(debug: bool) {
    if let Some(handle) = LEVEL.get() {
        _ = handle.reload(level(debug));
    }
}

fn level(debug: bool) -> LevelFilter {
    if debug { LevelFilter::DEBUG } else { LevelFilter::INFO }
}

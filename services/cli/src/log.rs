//! Log on standard error, as text or as lines of JSON.

use std::io::{self, IsTerminal};
use std::sync::OnceLock;

use clap::ValueEnum;
use tracing::Level;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::reload::{self, Handle};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, fmt};

static FILTER: OnceLock<Handle<Targets, Registry>> = OnceLock::new();

/// The format of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// Text on a terminal, else JSON.
    #[default]
    Auto,
    /// Text; with color on a terminal, unless NO_COLOR is set.
    Text,
    /// A line of JSON for each event.
    Json,
}

/// Starts the log. `debug` is `operational.logLevel: debug`; the variable RUST_LOG, such as `info,vmcp_egress=trace`,
/// overrides it. Returns an error if RUST_LOG is invalid and therefore ignored.
pub(crate) fn start(format: LogFormat, debug: bool) -> Option<String> {
    let (targets, error) = match parse(&std::env::var("RUST_LOG").unwrap_or_default()) {
        Ok(targets) => (targets, None),
        Err(error) => (None, Some(error)),
    };
    let (filter, handle) = reload::Layer::new(targets.clone().unwrap_or_else(|| level(debug)));
    let is_terminal = io::stderr().is_terminal();
    let is_text = match format {
        LogFormat::Auto => is_terminal,
        LogFormat::Text => true,
        LogFormat::Json => false,
    };
    let lines = if is_text {
        let has_color = is_terminal && std::env::var_os("NO_COLOR").is_none_or(|no| no.is_empty());
        fmt::layer()
            .compact()
            .with_target(false)
            .with_ansi(has_color)
            .with_writer(io::stderr)
            .with_filter(filter)
            .boxed()
    } else {
        // The only span is that of the request, so that a list of spans would repeat it.
        fmt::layer()
            .json()
            .flatten_event(true)
            .with_span_list(false)
            .with_writer(io::stderr)
            .with_filter(filter)
            .boxed()
    };
    // A second start, as in a test that runs two servers, keeps the first log.
    if tracing_subscriber::registry().with(lines).try_init().is_ok() && targets.is_none() {
        _ = FILTER.set(handle);
    }
    error
}

/// Changes the level of the running log, unless RUST_LOG sets it.
pub(crate) fn set_debug(debug: bool) {
    if let Some(handle) = FILTER.get() {
        _ = handle.reload(level(debug));
    }
}

/// Returns the filter of RUST_LOG; `None` if it is empty.
fn parse(text: &str) -> Result<Option<Targets>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|error| {
        format!("RUST_LOG is not used: {error}; allowed: levels and targets, such as info,vmcp_egress=debug")
    })
}

/// Returns the default filter, with debug events of this project's crates only: those of libraries flood the log.
fn level(debug: bool) -> Targets {
    // It logs each failed request as an error. Its callers log the same with what follows from it.
    let targets =
        Targets::new().with_default(Level::INFO).with_target("kube_client", LevelFilter::OFF);
    if debug { targets.with_target("vmcp", Level::DEBUG) } else { targets }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_filters_of_levels_and_targets() {
        assert_eq!(parse(""), Ok(None));
        let targets = parse("warn,vmcp_egress=trace").unwrap().unwrap();
        assert!(targets.would_enable("vmcp_egress", &Level::TRACE));
        assert!(!targets.would_enable("vmcp_aggregate", &Level::INFO));
        assert!(parse("vmcp=loud").unwrap_err().contains("RUST_LOG is not used"));
    }

    #[test]
    fn debug_enables_events_of_own_crates() {
        let (quiet, debug) = (level(false), level(true));
        assert!(!quiet.would_enable("vmcp_aggregate", &Level::DEBUG));
        assert!(debug.would_enable("vmcp_aggregate::hub", &Level::DEBUG));
        assert!(!debug.would_enable("hyper", &Level::DEBUG));
        assert!(debug.would_enable("hyper", &Level::INFO));
        assert!(!debug.would_enable("kube_client::client::builder", &Level::ERROR));
    }
}

//! Capture of log output.

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use tracing::subscriber::{DefaultGuard, NoSubscriber};
use tracing::{Dispatch, Level, Subscriber};

/// Log output captured while this lives, as text.
#[must_use = "captures nothing once dropped"]
pub struct LogCapture {
    written: Written,
    /// Second dispatcher. With a single subscriber, tracing caches the interest of the first thread that meets a
    /// callsite, and another test's thread would disable it for all.
    _second: Dispatch,
    _listens: Option<DefaultGuard>,
}

#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl LogCapture {
    /// Captures the log of this thread, which includes all tasks of a runtime that runs on this thread alone.
    pub fn current_thread() -> Self {
        let written = Written::default();
        let second = Dispatch::new(NoSubscriber::default());
        let listens = tracing::subscriber::set_default(subscriber(written.clone()));
        Self { written, _second: second, _listens: Some(listens) }
    }

    /// Captures the log of all threads until the process ends: for programs with a single test.
    pub fn process() -> Self {
        let written = Written::default();
        let second = Dispatch::new(NoSubscriber::default());
        // A second global capture would stay empty, and its first assertion would fail.
        _ = tracing::subscriber::set_global_default(subscriber(written.clone()));
        Self { written, _second: second, _listens: None }
    }

    /// Returns the text logged so far.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.written.0.lock().unwrap_or_else(PoisonError::into_inner))
            .into_owned()
    }
}

fn subscriber(written: Written) -> impl Subscriber + Send + Sync {
    tracing_subscriber::fmt()
        .with_max_level(Level::TRACE)
        .with_ansi(false)
        .with_writer(move || written.clone())
        .finish()
}

impl fmt::Debug for LogCapture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LogCapture")
    }
}

impl io::Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#![doc = include_str!("../README.md")]

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use tracing::subscriber::{DefaultGuard, NoSubscriber};
use tracing::{Dispatch, Level, Subscriber};

/// What is logged as long as this lives, as text.
#[must_use = "it hears nothing once it is dropped"]
pub struct Log {
    written: Written,
    /// With a single subscriber, tracing asks the thread that meets an event first whether anybody listens: another
    /// test's thread would say no for all.
    _second: Dispatch,
    _listens: Option<DefaultGuard>,
}

#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// What this thread logs, and with it each task of a runtime that runs on this thread alone.
    pub fn of_this_thread() -> Self {
        let written = Written::default();
        let second = Dispatch::new(NoSubscriber::default());
        let listens = tracing::subscriber::set_default(subscriber(written.clone()));
        Self { written, _second: second, _listens: Some(listens) }
    }

    /// What all threads of the process log, from now to its end: for programs with a single test.
    pub fn of_the_process() -> Self {
        let written = Written::default();
        let second = Dispatch::new(NoSubscriber::default());
        // A second one in the process would hear nothing, as its user's first assertion tells.
        _ = tracing::subscriber::set_global_default(subscriber(written.clone()));
        Self { written, _second: second, _listens: None }
    }

    /// What was logged so far.
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

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Log")
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

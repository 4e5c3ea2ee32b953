#![doc = include_str!("../README.md")]

pub mod backend;
pub mod client;
pub mod driver;
pub mod load;
pub mod proxy;
pub mod summary;
pub mod usage;

/// What went wrong, in words for whoever runs the benchmark.
pub type Fault = Box<dyn std::error::Error + Send + Sync>;

/// How MCP is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Generation {
    /// MCP 2025-11-25: `initialize`, then a session.
    Stateful,
    /// MCP 2026-07-28: every request carries what is needed.
    Stateless,
}

impl Generation {
    /// The revision, as it stands in `MCP-Protocol-Version`.
    #[must_use]
    pub fn revision(self) -> &'static str {
        match self {
            Self::Stateful => "2025-11-25",
            Self::Stateless => "2026-07-28",
        }
    }

    /// The word for it on command lines and in names of rows.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Stateful => "stateful",
            Self::Stateless => "stateless",
        }
    }
}

/// Runs a program's future on a runtime of `threads` and turns a fault into a message and a failing status.
fn run(
    threads: usize,
    program: impl Future<Output = Result<std::process::ExitCode, Fault>>,
) -> std::process::ExitCode {
    let mut builder = if threads > 1 {
        tokio::runtime::Builder::new_multi_thread()
    } else {
        tokio::runtime::Builder::new_current_thread()
    };
    let outcome = builder
        .worker_threads(threads.max(1))
        .enable_all()
        .build()
        .map_err(Fault::from)
        .and_then(|runtime| runtime.block_on(program));
    outcome.unwrap_or_else(|fault| {
        eprintln!("{fault}");
        std::process::ExitCode::FAILURE
    })
}

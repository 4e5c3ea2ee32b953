#![doc = include_str!("../README.md")]

pub mod backend;
pub mod client;
pub mod driver;
pub mod load;
pub mod proxy;
pub mod summary;
pub mod usage;

/// Error of a benchmark run, shown to the operator.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Protocol generation of MCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Generation {
    /// MCP 2025-11-25: `initialize`, then a session.
    Stateful,
    /// MCP 2026-07-28: stateless requests.
    Stateless,
}

impl Generation {
    /// Returns the revision for `MCP-Protocol-Version`.
    #[must_use]
    pub fn revision(self) -> &'static str {
        match self {
            Self::Stateful => "2025-11-25",
            Self::Stateless => "2026-07-28",
        }
    }

    /// Returns its name on command lines and in row names.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Stateful => "stateful",
            Self::Stateless => "stateless",
        }
    }
}

/// Runs a program's future on a runtime of `threads`; prints an error and returns a failing exit code.
fn run(
    threads: usize,
    program: impl Future<Output = Result<std::process::ExitCode, BoxError>>,
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
        .map_err(BoxError::from)
        .and_then(|runtime| runtime.block_on(program));
    outcome.unwrap_or_else(|fault| {
        eprintln!("{fault}");
        std::process::ExitCode::FAILURE
    })
}

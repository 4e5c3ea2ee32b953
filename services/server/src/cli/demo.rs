//! `vmcp demo`.

use clap::Args;

use super::outcome::Failure;

#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// The port to listen on; 0 takes a free one.
    #[arg(long, default_value_t = 4483)]
    port: u16,
}

impl Demo {
    pub(crate) fn run(self) -> Result<(), Failure> {
        Err(Failure::Fault(format!("nothing to show on port {}", self.port)))
    }
}

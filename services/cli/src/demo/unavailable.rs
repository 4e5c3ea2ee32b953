//! `vmcp demo` of a build without the feature `demo`.

use clap::Args;

use crate::output::Failure;

#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// The port to listen on.
    #[arg(long = "port", hide = true)]
    _port: Option<u16>,
}

impl Demo {
    #[expect(clippy::unused_self, reason = "the same signature as with the feature")]
    pub(crate) fn run(self) -> Result<(), Failure> {
        let reason = "this build of vmcp has no demo servers: install it with them (cargo install vmcp --features demo), \
                      or serve your own MCP servers with the file that vmcp init writes";
        Err(Failure::Error(reason.to_owned()))
    }
}

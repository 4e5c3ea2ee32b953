//! `vmcp init`.

mod client_file;
mod import;
mod lenient;
mod starter;
mod write;

use std::path::PathBuf;

use clap::Args;

use self::import::Imported;
use super::outcome::{Failure, complain, print};

#[derive(Debug, Args)]
pub(crate) struct Init {
    /// Take over the servers of a client's file: mcp.json of Claude, Cursor or VS Code.
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
    /// The name of the server.
    #[arg(long, default_value = "my-tools")]
    name: String,
    /// Where to write; standard output if absent.
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Overwrite the file if it exists.
    #[arg(long, requires = "output")]
    force: bool,
}

impl Init {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let Self { from, name, output, force } = self;
        if name.is_empty() {
            return Err(Failure::Usage("--name must not be empty".to_owned()));
        }
        let (text, variables) = match &from {
            None => (starter::starter(&name), Vec::new()),
            Some(path) => {
                let Imported { text, variables } =
                    import::import(path, &name).map_err(Failure::Fault)?;
                (text, variables)
            }
        };
        let Some(path) = output else {
            print(&text);
            return Ok(());
        };
        write::write(&path, &text, force).map_err(Failure::Fault)?;
        let first = if variables.is_empty() {
            String::new()
        } else {
            format!("set {}, then ", variables.join(", "))
        };
        let path = path.display();
        complain(&format!("wrote {path}; {first}check it with: vmcp validate --config {path}"));
        Ok(())
    }
}

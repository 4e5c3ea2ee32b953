//! `vmcp-operator import`.

use clap::Args;
use vmcp_operator::manifests::{Imported, import};

use super::check::line;
use super::files::FileArgs;
use super::output::{Failure, document, eprint_line, print};

#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    #[command(flatten)]
    files: FileArgs,
    /// DNS domain of the cluster.
    #[arg(long, env = "VMCP_CLUSTER_DOMAIN", default_value = "cluster.local")]
    cluster_domain: String,
}

// === impl ImportArgs ===

impl ImportArgs {
    /// Prints the converted resources in the order of the given ones. What has no counterpart goes to standard error.
    pub(crate) fn run(self) -> Result<(), Failure> {
        let (documents, objects) = self.files.read()?;
        let Imported { resources, notes, findings } = import(objects, &self.cluster_domain);
        for note in &notes {
            eprint_line(&line(&documents, note));
        }
        for finding in &findings {
            eprint_line(&line(&documents, finding));
        }
        for resource in &resources {
            print(&document(&[], resource)?);
        }
        if findings.is_empty() { Ok(()) } else { Err(Failure::Reported) }
    }
}

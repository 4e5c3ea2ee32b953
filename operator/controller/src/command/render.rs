//! `vmcp-operator render`.

use clap::Args;
use vmcp_operator::manifests::{Manifests, RenderedServer};

use super::check::{eprint_notes, line};
use super::files::FileArgs;
use super::output::{Failure, document, eprint_line, print};
use super::settings::SettingsArgs;

#[derive(Debug, Args)]
pub(crate) struct RenderArgs {
    #[command(flatten)]
    files: FileArgs,
    #[command(flatten)]
    settings: SettingsArgs,
    /// The cluster assigns the users of pods, as OpenShift does.
    #[arg(long)]
    openshift: bool,
}

// === impl RenderArgs ===

impl RenderArgs {
    /// Prints the objects of each server in the order in which the operator applies them. Mistakes go to standard error.
    pub(crate) fn run(self) -> Result<(), Failure> {
        let (documents, objects) = self.files.read()?;
        let manifests = Manifests::read(objects, self.settings.settings(self.openshift));
        let mut has_findings = false;
        let reports = manifests.render();
        let of_servers = reports.iter().flat_map(|report| &report.findings);
        for finding in manifests.findings().iter().chain(of_servers) {
            has_findings = true;
            eprint_line(&line(&documents, finding));
        }
        let embedding = manifests.render_embedding_servers();
        if reports.is_empty() && embedding.is_empty() && !has_findings {
            let message =
                "no document is a VirtualMCPServer or EmbeddingServer: there is nothing to render";
            return Err(Failure::Error(message.to_owned()));
        }
        for report in reports {
            eprint_notes(&report);
            if let Some(rendered) = report.rendered {
                print_server(rendered)?;
            }
        }
        for object in embedding {
            print(&document(&[], &object)?);
        }
        if has_findings { Err(Failure::Reported) } else { Ok(()) }
    }
}

fn print_server(rendered: RenderedServer) -> Result<(), Failure> {
    let RenderedServer { plan, conversion } = rendered;
    let seal = plan.seal_secret.metadata.name.clone();
    let owned = plan.owned_secret.metadata.name.clone();
    for object in plan.into_objects() {
        let is_named = |name: &Option<String>| {
            object["kind"] == "Secret" && object["metadata"]["name"].as_str() == name.as_deref()
        };
        let mut comment = Vec::new();
        if is_named(&seal) {
            comment.push("The operator creates it once, with a random key.".to_owned());
        } else if is_named(&owned) {
            comment.push("The operator adds these copies:".to_owned());
            let copies = conversion.secrets.iter();
            comment.extend(copies.map(|entry| format!("{}: {}", entry.file, entry.source)));
            if conversion.secrets.is_empty() {
                comment = vec!["The server refers to no Secret.".to_owned()];
            }
        }
        print(&document(&comment, &object)?);
    }
    Ok(())
}

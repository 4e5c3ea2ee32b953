//! `vmcp authz explain`.

use clap::Args;
use vmcp_config::{Authz, File, IncomingMethod};
use vmcp_core::{Generation, Identity, STATEFUL, STATELESS};

use super::args::{Given, Who};
use super::output::{self, Told};
use super::target::{Asked, What, unseen};
use crate::cli::config::{ConfigFile, Loaded};
use crate::cli::output::{Failure, Form, Printed, block_on, complain, print, print_json};
use crate::cli::survey::{Seen, TIMEOUT, connect};
use crate::parts::Judge;

/// Exits with 0 whatever is decided.
#[derive(Debug, Args)]
pub(crate) struct Explain {
    #[command(flatten)]
    config: ConfigFile,
    #[command(flatten)]
    who: Who,
    #[command(flatten)]
    what: What,
    #[command(flatten)]
    given: Given,
    /// Ask no backend: what is named is taken to be there, without annotations, and no lists are shown.
    #[arg(long)]
    offline: bool,
    /// The revision of MCP that the client speaks: a backend of both generations may offer each something else.
    #[arg(long, value_name = "REVISION", default_value = STATELESS, value_parser = generation)]
    revision: Generation,
    #[command(flatten)]
    printed: Printed,
}

impl Explain {
    pub(crate) fn run(self) -> Result<(), Failure> {
        if self.given.any() && !self.what.any() {
            return Err(Failure::Usage("--argument needs --tool or --prompt".to_owned()));
        }
        if self.offline && !self.what.any() {
            let message = "--offline needs --tool, --prompt or --resource";
            return Err(Failure::Usage(message.to_owned()));
        }
        let (identity, arguments) = (self.who.identity()?, self.given.json()?);
        block_on(self.explain(identity, arguments))
    }

    async fn explain(self, identity: Identity, arguments: Option<String>) -> Result<(), Failure> {
        let Loaded { text: _, named: _, file, parts, warnings, egress: _ } =
            self.config.require()?;
        for warning in warnings {
            complain(&format!("warning: {warning}"));
        }
        for note in notes(&file, &identity) {
            complain(&format!("note: {note}"));
        }
        let judge = parts.guards.judge();
        let (asked, seen) = if self.offline {
            (self.what.supposed(), None)
        } else {
            let seen = connect(parts, TIMEOUT).await?;
            (self.what.among(&seen, self.revision)?, Some(seen))
        };
        let decided = asked.map(|asked| decided(&judge, &identity, asked, arguments.as_deref()));
        for (backend, why) in seen.iter().flat_map(unseen) {
            let name = &backend.name;
            complain(&format!("warning: {name} {why}: what it offers is not in the lists"));
        }
        let lists = seen.as_ref().map(|seen: &Seen| {
            output::lists(&seen.report, &judge.permissions(&identity), self.revision)
        });
        let told = Told { identity: &identity, decided, lists };
        match self.printed.form {
            Form::Text => print(&told.text()),
            Form::Json => print_json(&told.json()),
        }
        Ok(())
    }
}

/// Returns the generation of a client of this revision.
fn generation(revision: &str) -> Result<Generation, String> {
    match revision {
        STATELESS => Ok(Generation::Stateless),
        known if STATEFUL.contains(&known) => Ok(Generation::Stateful),
        _ => Err(format!("not one of {STATELESS}, {}", STATEFUL.join(", "))),
    }
}

fn decided(
    judge: &Judge,
    identity: &Identity,
    asked: Asked,
    arguments: Option<&str>,
) -> (Asked, vmcp_cedar::Explanation) {
    let explained = judge.explain(identity, &asked.item(), arguments.map(str::as_bytes));
    (asked, explained)
}

/// Returns remarks on the configuration that the reader of the explanation needs.
fn notes(file: &File, identity: &Identity) -> Vec<String> {
    let incoming = &file.incoming_auth;
    let mut notes = Vec::new();
    if matches!(incoming.method, IncomingMethod::Anonymous) && !identity.is_anonymous() {
        notes
            .push("incomingAuth.type is anonymous: no caller of this server has claims".to_owned());
    }
    if matches!(incoming.method, IncomingMethod::Oidc(_)) && identity.is_anonymous() {
        notes.push("incomingAuth.type is oidc: who has no token is not let in".to_owned());
    }
    match &incoming.authz {
        Authz::None => notes.push(
            "incomingAuth.authz is none: there are no policies, and everything is permitted"
                .to_owned(),
        ),
        Authz::Cedar(cedar) => {
            notes.extend(cedar.primary_upstream_provider.as_ref().map(|provider| {
                format!("the claims stand for those of {}'s access token", provider.as_str())
            }));
        }
    }
    notes
}

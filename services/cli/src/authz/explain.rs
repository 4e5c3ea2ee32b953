//! `vmcp authz explain`.

use clap::Args;
use vmcp_config::{Authz, File, IncomingMethod};
use vmcp_core::{Generation, Identity, ItemKind, STATEFUL, STATELESS};
use vmcp_server::parts::PolicyEvaluator;

use super::args::{CallArguments, CallerArgs};
use super::output::{self, ExplainOutput};
use super::target::{ResolvedTarget, TargetArgs, hidden_step, unknown_offers};
use crate::config::{ConfigFile, LoadedConfig};
use crate::output::{Failure, OutputArgs, OutputFormat, block_on, eprint_line, print, print_json};
use crate::survey::{BackendSurvey, TIMEOUT, connect};

/// Arguments of `vmcp authz explain`. The exit code is 0 for every decision.
#[derive(Debug, Args)]
pub(crate) struct Explain {
    #[command(flatten)]
    config: ConfigFile,
    #[command(flatten)]
    who: CallerArgs,
    #[command(flatten)]
    what: TargetArgs,
    #[command(flatten)]
    given: CallArguments,
    /// Send no requests to backends: assume that the item exists, without annotations, and show no lists.
    #[arg(long)]
    offline: bool,
    /// The MCP revision of the client. A backend of both generations may offer each different items.
    #[arg(long, value_name = "REVISION", default_value = STATELESS, value_parser = generation)]
    revision: Generation,
    #[command(flatten)]
    output: OutputArgs,
}

impl Explain {
    pub(crate) fn run(self) -> Result<(), Failure> {
        if self.given.is_given() && !self.what.is_given() {
            return Err(Failure::Usage("--argument needs --tool or --prompt".to_owned()));
        }
        if self.offline && !self.what.is_given() {
            let message = "--offline needs --tool, --prompt or --resource";
            return Err(Failure::Usage(message.to_owned()));
        }
        let (identity, arguments) = (self.who.identity()?, self.given.json()?);
        block_on(self.explain(identity, arguments))
    }

    async fn explain(self, identity: Identity, arguments: Option<String>) -> Result<(), Failure> {
        let LoadedConfig { text: _, named: _, file, parts, warnings, egress: _ } =
            self.config.require()?;
        for warning in warnings {
            eprint_line(&format!("warning: {warning}"));
        }
        for note in notes(&file, &identity) {
            eprint_line(&format!("note: {note}"));
        }
        let evaluator = parts.incoming_auth.policy_evaluator();
        let workflows = parts.settings.rules.workflows.iter();
        let composites: Vec<_> = workflows.map(|workflow| workflow.name().to_owned()).collect();
        let (resolved, survey) = if self.offline {
            (self.what.unverified(), None)
        } else {
            let survey = connect(parts, TIMEOUT).await?;
            (self.what.resolve(&survey, self.revision)?, Some(survey))
        };
        let decided =
            resolved.map(|resolved| decided(&evaluator, &identity, resolved, arguments.as_deref()));
        for (backend, why) in survey.iter().flat_map(unknown_offers) {
            let name = &backend.name;
            eprint_line(&format!("warning: {name} {why}: what it offers is not in the lists"));
        }
        let lists = survey.as_ref().map(|survey: &BackendSurvey| {
            output::lists(&survey.report, &evaluator.permissions(&identity), self.revision)
        });
        let hidden_step = decided.as_ref().and_then(|(target, _)| {
            Some(hidden_step(target, &evaluator.permissions(&identity))?.name.clone())
        });
        let step_notes = match &decided {
            Some((target, _)) if is_composite(target, &composites) => step_notes(self.offline),
            _ => &[],
        };
        let output = ExplainOutput { identity: &identity, decided, hidden_step, step_notes, lists };
        match self.output.format {
            OutputFormat::Text => print(&output.text()),
            OutputFormat::Json => print_json(&output.json()),
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
    evaluator: &PolicyEvaluator,
    identity: &Identity,
    resolved: ResolvedTarget,
    arguments: Option<&str>,
) -> (ResolvedTarget, vmcp_cedar::Explanation) {
    let explained = evaluator.explain(identity, &resolved.item(), arguments.map(str::as_bytes));
    (resolved, explained)
}

/// Returns `true` for a composite tool. Other tools have a backend, unless no backend was asked.
fn is_composite(target: &ResolvedTarget, composites: &[String]) -> bool {
    target.kind == ItemKind::Tool && target.backend.is_none() && composites.contains(&target.name)
}

/// Returns the parts of a composite tool's authorization that the explanation does not contain.
fn step_notes(offline: bool) -> &'static [&'static str] {
    const ARGUMENTS: &str =
        "each step of the composite tool is authorized with its own arguments when it starts";
    const OFFLINE: &str =
        "the tools of its steps are not checked offline: a hidden one hides the composite tool";
    if offline { &[OFFLINE, ARGUMENTS] } else { &[ARGUMENTS] }
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
        notes.push("incomingAuth.type is oidc: callers without a token are rejected".to_owned());
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

//! Output of `vmcp authz explain`, as text and as JSON.

use std::fmt::Write as _;

use serde_json::{Value, json};
use vmcp_aggregate::status::{Entry, Report};
use vmcp_cedar::{DecidingPolicy, Explanation};
use vmcp_core::{CallerPermissions, Decision, Generation, Identity, ItemKind, ToolAnnotations};

use super::target::{ResolvedTarget, hidden_step, kind, noun, resolved};
use crate::survey::is_offered;
use crate::table::plain;

const KINDS: [(ItemKind, &str, &str); 4] = [
    (ItemKind::Tool, "tools", "tools"),
    (ItemKind::Prompt, "prompts", "prompts"),
    (ItemKind::Resource, "resources", "resources"),
    (ItemKind::ResourceTemplate, "resource templates", "resourceTemplates"),
];

/// Complete result of one query.
#[derive(Debug)]
pub(crate) struct ExplainOutput<'a> {
    pub(crate) identity: &'a Identity,
    pub(crate) decided: Option<(ResolvedTarget, Explanation)>,
    /// Tool of a step that hides a composite tool from the caller.
    pub(crate) hidden_step: Option<String>,
    /// Remarks on the authorization of a composite tool's steps; empty for other items.
    pub(crate) step_notes: &'static [&'static str],
    pub(crate) lists: Option<Lists>,
}

/// Per kind: the visible names, and the total number of entries.
pub(crate) type Lists = [(Vec<String>, usize); 4];

/// Returns the entries that the caller can see, for clients of one generation.
pub(crate) fn lists(report: &Report, permissions: &CallerPermissions, client: Generation) -> Lists {
    KINDS.map(|(of, ..)| {
        let entries = report.entries.iter().filter(|entry| is_offered(entry, client));
        let entries = entries.filter(|entry| entry.shown && kind(entry) == of);
        let visible = |entry: &Entry| {
            let target = resolved(report, entry, client);
            permissions.is_visible(&target.item()) && hidden_step(&target, permissions).is_none()
        };
        let all: Vec<_> = entries.map(|entry| (&entry.name, visible(entry))).collect();
        let visible = all.iter().filter(|(_, visible)| *visible);
        (visible.map(|(name, _)| (*name).clone()).collect(), all.len())
    })
}

impl ExplainOutput<'_> {
    pub(crate) fn text(&self) -> String {
        let mut out = String::new();
        if let Some((resolved, explained)) = &self.decided {
            // Writing to a string cannot fail.
            let who = plain(self.identity.subject().unwrap_or("anonymous"));
            let name = plain(&resolved.name);
            _ = writeln!(
                out,
                "{} {name} for {who}: {}",
                noun(resolved.kind),
                self.decision(explained)
            );
            if let Some((backend, generation)) = &resolved.backend {
                _ = writeln!(out, "its backend: {}, in {}", plain(backend), generation.revision());
            }
            if let Some(annotations) = annotations(resolved.annotations) {
                _ = writeln!(out, "its server says: {annotations}");
            }
            if let Some(step) = &self.hidden_step {
                let step = plain(step);
                _ = writeln!(out, "a step calls {step}, which is hidden from the caller");
            }
            out.push_str(&reasons(explained));
            for note in self.step_notes {
                out.extend([note, "\n"]);
            }
        }
        if let Some(lists) = &self.lists {
            if !out.is_empty() {
                out.push('\n');
            }
            out.push_str("the caller sees\n");
            for ((_, name, _), (visible, all)) in KINDS.iter().zip(lists) {
                let names: Vec<_> = visible.iter().map(|name| plain(name)).collect();
                let colon = if names.is_empty() { "" } else { ": " };
                let names = names.join(", ");
                _ = writeln!(out, "  {} of {all} {name}{colon}{names}", visible.len());
            }
        }
        out
    }

    /// Describes the decision. A hidden step hides the composite tool, whatever the policies say of it.
    fn decision(&self, explained: &Explanation) -> String {
        let hidden = self.hidden_step.as_ref().map(|_| &Decision::Hide);
        decision(hidden.unwrap_or(&explained.decision))
    }

    pub(crate) fn json(&self) -> Value {
        let decided = self.decided.as_ref();
        let mut out =
            decided.map_or_else(|| json!({}), |(resolved, explained)| about(resolved, explained));
        if decided.is_some_and(|(resolved, _)| !resolved.steps.is_empty()) {
            out["hiddenStep"] = self.hidden_step.clone().into();
            if self.hidden_step.is_some() {
                (out["verdict"], out["visible"]) = ("hidden".into(), false.into());
            }
        }
        if !self.step_notes.is_empty() {
            out["stepNotes"] = json!(self.step_notes);
        }
        out["subject"] = self.identity.subject().into();
        if let Some(lists) = &self.lists {
            let list = |((_, _, name), (visible, all)): (&(_, _, &str), &(Vec<String>, usize))| {
                ((*name).to_owned(), json!({"visible": visible, "of": all}))
            };
            out["visibleItems"] =
                KINDS.iter().zip(lists).map(list).collect::<serde_json::Map<_, _>>().into();
        }
        out
    }
}

/// Describes the decision together with the response that the client gets.
fn decision(decision: &Decision) -> String {
    match decision {
        Decision::Allow => "permitted".to_owned(),
        Decision::Hide => "hidden: not listed, and answered like an unknown name".to_owned(),
        Decision::Deny => "listed, but denied with these arguments (403)".to_owned(),
        Decision::InsufficientScope(scopes) => {
            format!("listed, but the token lacks scopes: {} are needed (403)", scopes.join(" "))
        }
    }
}

fn reasons(explained: &Explanation) -> String {
    let Explanation { visible: _, decision, deciding, errors } = explained;
    let mut out = String::new();
    for error in errors {
        _ = writeln!(out, "error, which denies: {}", plain(error));
    }
    if deciding.is_empty() && errors.is_empty() && *decision != Decision::Allow {
        out.push_str("no policy permits it\n");
    }
    for one in deciding {
        // The text has the annotations.
        let DecidingPolicy { id, permits, text, annotations: _ } = one;
        _ = writeln!(out, "{id} {}", if *permits { "permits" } else { "forbids" });
        for line in text.lines() {
            _ = writeln!(out, "    {}", plain(line));
        }
    }
    out
}

fn named(annotations: ToolAnnotations) -> impl Iterator<Item = (&'static str, bool)> {
    let ToolAnnotations { read_only, destructive, idempotent, open_world } = annotations;
    let all = [
        ("readOnlyHint", read_only),
        ("destructiveHint", destructive),
        ("idempotentHint", idempotent),
        ("openWorldHint", open_world),
    ];
    all.into_iter().filter_map(|(name, hint)| Some((name, hint?)))
}

fn annotations(annotations: ToolAnnotations) -> Option<String> {
    let all: Vec<_> = named(annotations).map(|(name, hint)| format!("{name} {hint}")).collect();
    (!all.is_empty()).then(|| all.join(", "))
}

fn about(resolved: &ResolvedTarget, explained: &Explanation) -> Value {
    let ResolvedTarget { kind, name, annotations, backend, steps: _ } = resolved;
    let Explanation { visible, decision, deciding, errors } = explained;
    let (word, scopes) = match decision {
        Decision::Allow => ("permitted", None),
        Decision::Hide => ("hidden", None),
        Decision::Deny => ("denied", None),
        Decision::InsufficientScope(scopes) => ("needsScopes", Some(scopes)),
    };
    let deciding = deciding.iter().map(|one| {
        let DecidingPolicy { id, permits, text, annotations } = one;
        let effect = if *permits { "permit" } else { "forbid" };
        let annotations: serde_json::Map<_, _> =
            annotations.iter().map(|(name, value)| (name.clone(), value.clone().into())).collect();
        json!({"id": id, "effect": effect, "text": text, "annotations": annotations})
    });
    let annotations: serde_json::Map<_, _> =
        named(*annotations).map(|(name, hint)| (name.to_owned(), hint.into())).collect();
    let (backend, generation) =
        backend.as_ref().map(|(name, generation)| (name, generation.revision())).unzip();
    json!({
        "item": {
            "kind": noun(*kind), "name": name, "backend": backend, "generation": generation, "annotations": annotations,
        },
        "verdict": word,
        "scopes": scopes.map(|scopes| scopes.iter().map(|scope| &**scope).collect::<Vec<_>>()),
        "visible": visible,
        "deciding": deciding.collect::<Vec<_>>(),
        "errors": errors,
    })
}

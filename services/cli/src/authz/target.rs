//! Target of an authorization query, and its lookup in the backends' lists.

use std::fmt::Write as _;

use clap::Args;
use vmcp_aggregate::settings::Sharing;
use vmcp_aggregate::status::{BackendReport, Entry, HiddenReason, Report};
use vmcp_core::{CallerPermissions, Generation, Item, ItemBackend, ItemKind, ToolAnnotations};

use crate::inspect::hidden_reason;
use crate::output::Failure;
use crate::survey::{BackendSurvey, is_offered};

/// Maximum number of suggested names.
const MAX_SUGGESTIONS: usize = 10;

/// Command-line options that name one item.
#[derive(Debug, Args)]
#[group(multiple = false)]
pub(crate) struct TargetArgs {
    /// A tool, by the name that clients use.
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    /// A prompt, by the name that clients use.
    #[arg(long, value_name = "NAME")]
    prompt: Option<String>,
    /// A resource, or a listed resource template, by its URI.
    #[arg(long, value_name = "URI")]
    resource: Option<String>,
}

/// Tool, prompt or resource, from the list of a backend or from the command line.
#[derive(Debug)]
pub(crate) struct ResolvedTarget {
    pub(crate) kind: ItemKind,
    pub(crate) name: String,
    pub(crate) annotations: ToolAnnotations,
    /// The backend of the item, with the generation of its session; `None` without requests to backends.
    pub(crate) backend: Option<(String, Generation)>,
    /// Tools that the steps of a composite tool call; empty for others.
    pub(crate) steps: Vec<Self>,
}

impl ResolvedTarget {
    pub(crate) fn item(&self) -> Item<'_> {
        let Self { kind, name, annotations, backend, steps: _ } = self;
        let backend = backend.as_ref();
        let backend =
            backend.map(|(name, generation)| ItemBackend { name, generation: *generation });
        Item { kind: *kind, name, annotations: *annotations, backend }
    }
}

/// Returns the kind of an entry.
pub(crate) fn kind(entry: &Entry) -> ItemKind {
    match entry.kind {
        "tool" => ItemKind::Tool,
        "prompt" => ItemKind::Prompt,
        "resource" => ItemKind::Resource,
        _ => ItemKind::ResourceTemplate,
    }
}

impl TargetArgs {
    pub(crate) fn is_given(&self) -> bool {
        self.named().is_some()
    }

    fn named(&self) -> Option<(ItemKind, &str)> {
        let tool = self.tool.as_deref().map(|name| (ItemKind::Tool, name));
        let prompt = self.prompt.as_deref().map(|name| (ItemKind::Prompt, name));
        let resource = self.resource.as_deref().map(|name| (ItemKind::Resource, name));
        tool.or(prompt).or(resource)
    }

    /// Returns the item as the command line names it, without a lookup.
    pub(crate) fn unverified(&self) -> Option<ResolvedTarget> {
        let (kind, name) = self.named()?;
        let template = kind == ItemKind::Resource && name.contains('{');
        let kind = if template { ItemKind::ResourceTemplate } else { kind };
        Some(ResolvedTarget {
            kind,
            name: name.to_owned(),
            annotations: ToolAnnotations::default(),
            backend: None,
            steps: Vec::new(),
        })
    }

    /// Looks the item up in the lists that clients of one generation get.
    pub(crate) fn resolve(
        &self,
        survey: &BackendSurvey,
        client: Generation,
    ) -> Result<Option<ResolvedTarget>, Failure> {
        let Some((wanted, name)) = self.named() else { return Ok(None) };
        let located = wanted == ItemKind::Resource;
        let fits = |entry: &&Entry| {
            let kind = kind(entry);
            kind == wanted || (located && kind == ItemKind::ResourceTemplate)
        };
        let entries = || survey.report.entries.iter().filter(fits);
        let backend_of = |name: &str| {
            let backend = survey.report.item_backend(name, client);
            (backend.name.to_owned(), backend.generation)
        };
        let resolved = |entry: &Entry| resolved(&survey.report, entry, client);
        let mut shown = entries().filter(|entry| is_offered(entry, client) && entry.shown);
        if let Some(entry) = shown.find(|entry| entry.name == name) {
            return Ok(Some(resolved(entry)));
        }
        let template = |entry: &Entry| kind(entry) == ItemKind::ResourceTemplate;
        if located && entries().any(template) {
            // The resources of a template are not listed; the backend that has the template owns the resource.
            let (kind, annotations) = (ItemKind::Resource, ToolAnnotations::default());
            let backend = survey.report.resource_backend(name, client);
            let backend = backend.map(|name| backend_of(&name));
            let (name, steps) = (name.to_owned(), Vec::new());
            return Ok(Some(ResolvedTarget { kind, name, annotations, backend, steps }));
        }
        let what = if located { "resource" } else { noun(wanted) };
        let called = |entry: &&Entry| entry.name == name || entry.original == name;
        Err(match entries().find(|entry| entry.name == name) {
            Some(hidden) => Failure::Usage(hidden_message(what, hidden)),
            None => not_found(what, name, entries().filter(|entry| entry.shown), called, survey),
        })
    }
}

/// Returns the item of an entry, for clients of one generation.
pub(crate) fn resolved(report: &Report, entry: &Entry, client: Generation) -> ResolvedTarget {
    let (kind, name) = (kind(entry), entry.name.clone());
    let annotations = entry.annotations;
    let Some(composite) = &entry.composite else {
        let backend = report.item_backend(&entry.backend, client);
        let backend = Some((backend.name.to_owned(), backend.generation));
        return ResolvedTarget { kind, name, annotations, backend, steps: Vec::new() };
    };
    let tools = report.entries.iter().filter(|it| it.kind == entry.kind && it.composite.is_none());
    let called = tools.filter(|it| is_offered(it, client) && composite.tools.contains(&it.name));
    let steps = called.map(|tool| resolved(report, tool, client)).collect();
    ResolvedTarget { kind, name, annotations, backend: None, steps }
}

/// Returns the first tool of a composite tool's steps that is hidden from the caller, and with it the composite tool.
pub(crate) fn hidden_step<'a>(
    target: &'a ResolvedTarget,
    permissions: &CallerPermissions,
) -> Option<&'a ResolvedTarget> {
    target.steps.iter().find(|step| !permissions.is_visible(&step.item()))
}

pub(crate) fn noun(kind: ItemKind) -> &'static str {
    match kind {
        ItemKind::Tool => "tool",
        ItemKind::Prompt => "prompt",
        ItemKind::Resource => "resource",
        ItemKind::ResourceTemplate => "resource template",
    }
}

/// Returns the backends without a known offer.
pub(crate) fn unknown_offers(
    survey: &BackendSurvey,
) -> impl Iterator<Item = (&BackendReport, &'static str)> {
    survey.report.backends.iter().filter_map(|backend| match backend.catalog {
        Sharing::PerCaller => Some((backend, "offers each caller something else")),
        Sharing::Shared if !backend.offered => Some((backend, "does not answer")),
        Sharing::Shared => None,
    })
}

fn hidden_message(what: &str, entry: &Entry) -> String {
    let why = hidden_reason(entry).unwrap_or_default();
    let hidden_reason = match entry.hidden_reason {
        Some(
            HiddenReason::NameTaken(_)
            | HiddenReason::ToolNamesTaken(_)
            | HiddenReason::MissingTools(_),
        ) => "",
        Some(HiddenReason::Rule(_)) | None => "the configuration hides it: ",
    };
    format!(
        "no client sees the {what} \"{}\" of {}: {hidden_reason}{why}",
        entry.name, entry.backend
    )
}

fn not_found<'a>(
    what: &str,
    name: &str,
    shown: impl Iterator<Item = &'a Entry> + Clone,
    called: impl Fn(&&'a Entry) -> bool,
    survey: &BackendSurvey,
) -> Failure {
    let plain = |name: &str| crate::table::plain(name);
    let names = |entries: Vec<&Entry>| {
        entries.iter().map(|entry| plain(&entry.name)).collect::<Vec<_>>().join(", ")
    };
    let alike = |entry: &&'a Entry| called(entry) || entry.name.contains(name);
    let close: Vec<_> = shown.clone().filter(alike).take(MAX_SUGGESTIONS).collect();
    let mut message = format!("there is no {what} \"{}\"", plain(name));
    let all = shown.clone().count();
    // Writing to a string cannot fail.
    if !close.is_empty() {
        _ = write!(message, ": did you mean {}?", names(close));
    } else if all == 0 {
        _ = write!(message, ", nor any other {what}");
    } else {
        _ = write!(message, ": there are {}", names(shown.take(MAX_SUGGESTIONS).collect()));
        if all > MAX_SUGGESTIONS {
            _ = write!(message, " and {} more", all - MAX_SUGGESTIONS);
        }
    }
    let unknown_offers: Vec<_> =
        unknown_offers(survey).map(|(backend, why)| format!("{} {why}", backend.name)).collect();
    if unknown_offers.is_empty() {
        return Failure::Usage(message);
    }
    let unknown_offers = unknown_offers.join(", ");
    Failure::Error(format!("{message}; but {unknown_offers}: skip the lookup with --offline"))
}

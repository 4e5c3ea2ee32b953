//! What one backend offers, as the bytes it said it in.

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;
use vmcp_wire::{Span, elements, find, members, unquote};

/// The four kinds of things that are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Tools,
    Prompts,
    Resources,
    Templates,
}

/// One tool, prompt, resource or template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    /// What it is called by: `name`, `uri` or `uriTemplate`.
    pub(crate) key: Box<str>,
    /// Its definition.
    pub(crate) raw: Bytes,
    /// Where the literal of its key stands in the definition.
    pub(crate) at: Span,
}

/// Everything that one backend offers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Offer {
    pub(crate) tools: Arc<[Item]>,
    pub(crate) prompts: Arc<[Item]>,
    pub(crate) resources: Arc<[Item]>,
    pub(crate) templates: Arc<[Item]>,
    pub(crate) instructions: Option<String>,
}

impl Kind {
    pub(crate) const ALL: [Self; 4] =
        [Self::Tools, Self::Prompts, Self::Resources, Self::Templates];

    /// The method that lists it.
    pub(crate) fn method(self) -> &'static str {
        match self {
            Self::Tools => "tools/list",
            Self::Prompts => "prompts/list",
            Self::Resources => "resources/list",
            Self::Templates => "resources/templates/list",
        }
    }

    /// The member of the result that holds the list.
    pub(crate) fn member(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Prompts => "prompts",
            Self::Resources => "resources",
            Self::Templates => "resourceTemplates",
        }
    }

    /// The capability that a server declares it with.
    pub(crate) fn capability(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Prompts => "prompts",
            Self::Resources | Self::Templates => "resources",
        }
    }

    /// The member by which an item is called.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Self::Tools | Self::Prompts => "name",
            Self::Resources => "uri",
            Self::Templates => "uriTemplate",
        }
    }
}

impl Offer {
    pub(crate) fn of(&self, kind: Kind) -> &[Item] {
        match kind {
            Kind::Tools => &self.tools,
            Kind::Prompts => &self.prompts,
            Kind::Resources => &self.resources,
            Kind::Templates => &self.templates,
        }
    }

    pub(crate) fn set(&mut self, kind: Kind, items: Vec<Item>) {
        *match kind {
            Kind::Tools => &mut self.tools,
            Kind::Prompts => &mut self.prompts,
            Kind::Resources => &mut self.resources,
            Kind::Templates => &mut self.templates,
        } = items.into();
    }
}

/// The items in the result of a list request; those without a usable key are left out.
///
/// `result` must be JSON that was checked.
pub(crate) fn items(kind: Kind, result: &Bytes, seen: &mut HashSet<Box<str>>) -> Vec<Item> {
    let Some(array) = find(result, kind.member()) else { return Vec::new() };
    elements(array)
        .filter_map(|raw| Item::read(kind, result.slice_ref(raw)))
        .filter(|item| seen.insert(item.key.clone()))
        .collect()
}

impl Item {
    /// An item by its definition, which has to be JSON; `None` if it has no usable key.
    pub(crate) fn read(kind: Kind, raw: Bytes) -> Option<Self> {
        let member = members(&raw).find(|member| member.key.is(kind.key()))?;
        let key: Box<str> = unquote(member.value).filter(|key| !key.is_empty())?.into();
        let start = u32::try_from(member.value_offset).ok()?;
        let at = Span { start, end: start + u32::try_from(member.value.len()).ok()? };
        Some(Self { key, raw, at })
    }
}

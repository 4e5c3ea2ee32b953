//! Schema rules for items (MCP 2025-11-25 and 2026-07-28, schema: `Tool`, `Prompt`, `Resource`, `ResourceTemplate`). Clients
//! validate a list as a whole, so one invalid item would make them reject all others.

use std::borrow::Cow;

use vmcp_wire::{ItemRules, MemberRule, MemberType};

use super::Kind;
use super::rules::{CatalogInput, Conflict, singular};

/// Maximum number of left-out items of one kind in the report.
const MAX_REPORTED: usize = 100;

const fn optional(name: &'static str, kind: MemberType) -> MemberRule {
    MemberRule { name, kind, is_required: false }
}

const fn required(name: &'static str, kind: MemberType) -> MemberRule {
    MemberRule { name, kind, is_required: true }
}

const TITLE: MemberRule = optional("title", MemberType::String);
const DESCRIPTION: MemberRule = optional("description", MemberType::String);
const ANNOTATIONS: MemberRule = optional("annotations", MemberType::Object);
const ICONS: MemberRule = optional("icons", MemberType::Array);
const META: MemberRule = optional("_meta", MemberType::Object);
const NAME: MemberRule = required("name", MemberType::String);
const MIME_TYPE: MemberRule = optional("mimeType", MemberType::String);

const TOOLS: &ItemRules = &ItemRules {
    key: "name",
    members: &[
        required("inputSchema", MemberType::ObjectSchema),
        DESCRIPTION,
        TITLE,
        ANNOTATIONS,
        optional("outputSchema", MemberType::Object),
        optional("execution", MemberType::Object),
        ICONS,
        META,
    ],
};

const PROMPTS: &ItemRules = &ItemRules {
    key: "name",
    members: &[DESCRIPTION, TITLE, optional("arguments", MemberType::Array), ICONS, META],
};

const RESOURCES: &ItemRules = &ItemRules {
    key: "uri",
    members: &[
        NAME,
        DESCRIPTION,
        TITLE,
        MIME_TYPE,
        optional("size", MemberType::Number),
        ANNOTATIONS,
        ICONS,
        META,
    ],
};

const TEMPLATES: &ItemRules = &ItemRules {
    key: "uriTemplate",
    members: &[NAME, DESCRIPTION, TITLE, MIME_TYPE, ANNOTATIONS, ICONS, META],
};

impl Kind {
    /// Returns the schema rules for items of this kind.
    pub(crate) fn rules(self) -> &'static ItemRules {
        match self {
            Self::Tools => TOOLS,
            Self::Prompts => PROMPTS,
            Self::Resources => RESOURCES,
            Self::Templates => TEMPLATES,
        }
    }
}

/// Reports items that were left out because they are invalid.
pub(super) fn report<L>(parts: &[CatalogInput<'_, L>], conflicts: &mut Vec<Conflict>) {
    for kind in Kind::ALL {
        let mut reported = Vec::new();
        for part in parts {
            for items in [part.offers.stateful.of(kind), part.offers.stateless.of(kind)] {
                for (name, fault) in items.faults().take(MAX_REPORTED) {
                    let conflict = Conflict {
                        kind: singular(kind),
                        name: name.map_or_else(String::new, Cow::into_owned),
                        contenders: vec![part.name.to_owned()],
                        resolution: format!("left out: {} {}", fault.member, fault.problem),
                    };
                    if !reported.contains(&conflict) {
                        reported.push(conflict);
                    }
                }
            }
        }
        reported.truncate(MAX_REPORTED);
        conflicts.append(&mut reported);
    }
}

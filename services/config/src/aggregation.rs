//! Selection and naming of tools (`aggregation`).

use std::{
    collections::{BTreeMap, HashSet},
    fmt,
};

use crate::{
    config_value::{
        ConfigValue, Constraint, Rule, deserialize, keyword_enum, raw_conversion, section,
        section_with_default,
    },
    context::Context,
    patterns,
    reference::{Never, Reference},
    tree::Node,
};

/// Aggregation of the tools of all backends into one list.
#[derive(Clone, Debug, PartialEq)]
pub struct Aggregation<R: Reference = Never> {
    /// Resolution of name conflicts between backends.
    pub conflict_resolution: ConflictResolution,
    /// Hides all backend tools from clients; composite tools still reach them.
    pub exclude_all_tools: bool,
    /// Selection and overrides of a backend's tools, at most one entry per backend.
    pub tools: Vec<WorkloadTools<R>>,
}

/// Resolution of name conflicts between backends.
#[derive(Clone, Debug, PartialEq)]
pub enum ConflictResolution {
    /// Every name gets its backend's prefix.
    Prefix {
        /// Format of the prefix.
        format: PrefixFormat,
    },
    /// The first backend in the order has the name; the others' tools of that name are dropped.
    Priority {
        /// Names of backends. Those not listed come last, by name.
        order: Vec<String>,
    },
    /// An override resolves each conflict.
    Manual,
}

/// Format of a tool name's prefix: text in which `{workload}` is replaced by the backend's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrefixFormat(String);

section! {
    /// Selection and overrides of one backend's tools.
    pub struct WorkloadTools<R: Reference> {
        /// Name of the backend.
        pub workload: String, [Constraint::NotEmpty];
        /// Hides this backend's tools from clients; composite tools still reach them.
        pub exclude_all: bool = false;
        /// Names of the tools to show, after overrides and before prefixes. Empty shows all.
        pub filter: Vec<String> = Vec::new();
        /// Other names, descriptions and annotations, by the backend's own name of the tool.
        pub overrides: BTreeMap<String, ToolOverride> = BTreeMap::new();
        /// MCPToolConfig in the same namespace, instead of `filter` and `overrides`. In a resource only.
        pub tool_config_ref: Option<R>;
    }
}

section! {
    /// Values that replace those of the backend's tool definition.
    pub struct ToolOverride {
        /// Name in lists and calls.
        pub name: Option<String>, [Constraint::NotEmpty];
        /// Description in lists.
        pub description: Option<String>;
        /// Annotations in lists. Absent ones are those of the backend.
        pub annotations: Option<ToolAnnotations>;
    }
    rules [Rule::AtLeastOne(&["name", "description", "annotations"])]
}

section_with_default! {
    /// Annotations of a tool, as in MCP's ToolAnnotations.
    pub struct ToolAnnotations {
        /// Title for display.
        pub title: Option<String>;
        /// The tool changes nothing.
        pub read_only_hint: Option<bool>;
        /// The tool may destroy something.
        pub destructive_hint: Option<bool>;
        /// Calling it again with the same arguments has no further effect.
        pub idempotent_hint: Option<bool>;
        /// The tool interacts with external entities.
        pub open_world_hint: Option<bool>;
    }
}

keyword_enum! {
    /// Strategy for name conflicts between backends.
    enum ConflictResolutionTag {
        /// With a prefix.
        Prefix = "prefix",
        /// By the order of backends.
        Priority = "priority",
        /// By overrides.
        Manual = "manual",
    }
}

section! {
    /// Aggregation of the tools of all backends into one list.
    struct RawAggregation<R: Reference> {
        /// Strategy for name conflicts between backends. prefix: every name gets its backend's prefix. priority: the
        /// first backend in the order has the name. manual: overrides resolve each conflict.
        conflict_resolution: ConflictResolutionTag = ConflictResolutionTag::Prefix;
        /// Details of the conflict resolution.
        conflict_resolution_config: ConflictResolutionConfig = ConflictResolutionConfig::default();
        /// Hides all backend tools from clients; composite tools still reach them.
        exclude_all_tools: bool = false;
        /// Selection and overrides of a backend's tools, at most one entry per backend.
        tools: Vec<WorkloadTools<R>> = Vec::new();
    }
    rules [
        Rule::Unique("tools", "workload"),
        Rule::Cel(
            "self.conflictResolution != 'priority' || (has(self.conflictResolutionConfig) && \
             has(self.conflictResolutionConfig.priorityOrder) && size(self.conflictResolutionConfig.priorityOrder) > 0)",
            "conflictResolution: priority requires conflictResolutionConfig.priorityOrder",
        ),
        Rule::Cel(
            "self.conflictResolution == 'priority' || !has(self.conflictResolutionConfig) || \
             !has(self.conflictResolutionConfig.priorityOrder) || size(self.conflictResolutionConfig.priorityOrder) == 0",
            "priorityOrder only with conflictResolution: priority",
        ),
        Rule::Cel(
            "self.conflictResolution == 'prefix' || !has(self.conflictResolutionConfig) || \
             !has(self.conflictResolutionConfig.prefixFormat) || \
             self.conflictResolutionConfig.prefixFormat == '{workload}_'",
            "prefixFormat only with conflictResolution: prefix",
        ),
        Rule::Cel(
            "self.conflictResolution != 'manual' || (has(self.tools) && size(self.tools) > 0)",
            "conflictResolution: manual requires an entry in tools",
        ),
    ]
}

section_with_default! {
    /// Details of the conflict resolution.
    struct ConflictResolutionConfig {
        /// Prefix of each name under `prefix`; {workload} is replaced by the backend's name.
        prefix_format: PrefixFormat = PrefixFormat::default();
        /// Names of backends under `priority`, the first wins. Those not listed come last, by name.
        priority_order: Vec<String> = Vec::new(), [Constraint::EachNotEmpty];
    }
}

raw_conversion!(Aggregation<R: Reference> as RawAggregation<R>);

// === impl Aggregation ===

impl<R: Reference> Aggregation<R> {
    fn from_raw(raw: RawAggregation<R>, node: &Node, cx: &mut Context) -> Option<Self> {
        let RawAggregation {
            conflict_resolution: strategy,
            conflict_resolution_config,
            exclude_all_tools,
            tools,
        } = raw;
        let before = cx.count();
        check_config(strategy, &conflict_resolution_config, node, cx);
        let ConflictResolutionConfig { prefix_format: format, priority_order: order } =
            conflict_resolution_config;
        let conflict_resolution = match strategy {
            ConflictResolutionTag::Prefix => ConflictResolution::Prefix { format },
            ConflictResolutionTag::Priority => ConflictResolution::Priority { order },
            ConflictResolutionTag::Manual => ConflictResolution::Manual,
        };
        if strategy == ConflictResolutionTag::Manual && tools.is_empty() {
            cx.reject_key(
                node,
                "tools",
                "no entries",
                "at least one entry with conflictResolution: manual",
            );
        }
        (cx.count() == before).then_some(Self { conflict_resolution, exclude_all_tools, tools })
    }

    fn to_raw(&self) -> RawAggregation<R> {
        let Self { conflict_resolution, exclude_all_tools, tools } = self.clone();
        let mut config = ConflictResolutionConfig::default();
        let strategy = match conflict_resolution {
            ConflictResolution::Prefix { format } => {
                config.prefix_format = format;
                ConflictResolutionTag::Prefix
            }
            ConflictResolution::Priority { order } => {
                config.priority_order = order;
                ConflictResolutionTag::Priority
            }
            ConflictResolution::Manual => ConflictResolutionTag::Manual,
        };
        RawAggregation {
            conflict_resolution: strategy,
            conflict_resolution_config: config,
            exclude_all_tools,
            tools,
        }
    }
}

impl<R: Reference> Default for Aggregation<R> {
    fn default() -> Self {
        Self {
            conflict_resolution: ConflictResolution::default(),
            exclude_all_tools: false,
            tools: Vec::new(),
        }
    }
}

/// Rejects settings that the chosen strategy does not use. The default prefix is accepted, because defaults are written
/// into resources.
fn check_config(
    strategy: ConflictResolutionTag,
    config: &ConflictResolutionConfig,
    node: &Node,
    cx: &mut Context,
) {
    let ConflictResolutionConfig { prefix_format, priority_order } = config;
    let here = node.get("conflictResolutionConfig").unwrap_or(node);
    cx.at_key("conflictResolutionConfig", |cx| {
        if strategy != ConflictResolutionTag::Prefix && *prefix_format != PrefixFormat::default() {
            let found = format!("prefixFormat with conflictResolution: {strategy}");
            cx.reject_key(
                here,
                "prefixFormat",
                found,
                "prefixFormat only with conflictResolution: prefix",
            );
        }
        match (strategy, priority_order.is_empty()) {
            (ConflictResolutionTag::Priority, true) => {
                cx.reject_key(
                    here,
                    "priorityOrder",
                    "no backends",
                    "at least one backend with conflictResolution: priority",
                );
            }
            (ConflictResolutionTag::Prefix | ConflictResolutionTag::Manual, false) => {
                let found = format!("priorityOrder with conflictResolution: {strategy}");
                cx.reject_key(
                    here,
                    "priorityOrder",
                    found,
                    "priorityOrder only with conflictResolution: priority",
                );
            }
            (ConflictResolutionTag::Priority, false)
            | (ConflictResolutionTag::Prefix | ConflictResolutionTag::Manual, true) => {}
        }
        let mut seen = HashSet::new();
        for name in priority_order {
            if !seen.insert(name) {
                cx.reject_key(
                    here,
                    "priorityOrder",
                    format!("the duplicate value \"{name}\""),
                    "each backend once",
                );
            }
        }
    });
}

// === impl ConflictResolution ===

impl Default for ConflictResolution {
    fn default() -> Self {
        Self::Prefix { format: PrefixFormat::default() }
    }
}

// === impl PrefixFormat ===

impl PrefixFormat {
    /// Returns the prefix of `workload`: `{workload}_` becomes `github_` for `github`.
    #[must_use]
    pub fn prefix(&self, workload: &str) -> String {
        self.0.replace("{workload}", workload)
    }

    /// Returns the format as written in the document.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for PrefixFormat {
    fn default() -> Self {
        Self("{workload}_".to_owned())
    }
}

impl fmt::Display for PrefixFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl ConfigValue for PrefixFormat {
    fn is_free_text() -> bool {
        true
    }

    fn read(node: &Node, cx: &mut Context) -> Option<Self> {
        let text = crate::config_value::values::text(node, false, cx)?;
        if !patterns::PREFIX_FORMAT.matches(text) {
            cx.reject(node, patterns::PREFIX_FORMAT.meaning);
            return None;
        }
        Some(Self(text.to_owned()))
    }
}

impl serde::Serialize for PrefixFormat {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> serde::Deserialize<'de> for PrefixFormat {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserialize(deserializer)
    }
}

impl schemars::JsonSchema for PrefixFormat {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "PrefixFormat".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "pattern": patterns::PREFIX_FORMAT.regex })
    }
}

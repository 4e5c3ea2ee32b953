//! Conversion of YAML text to a [`Node`], with limits: one document, a maximum depth and size. Aliases count as the
//! values that they repeat, so that a small file cannot become a large tree.

use std::collections::HashMap;

use serde_saphyr::granit_parser::{Event, Options, Parser, ScalarStyle, ScanError, Tag, options};

use super::{Entry, MAX_BYTES, MAX_DEPTH, MAX_NODES, Node, NodeKind};
use crate::error::{ConfigError, ConfigErrors};

/// Parses the YAML document in `text`.
pub(crate) fn parse(text: &str) -> Result<Node, ConfigErrors> {
    let mut builder = Builder::default();
    for next in Parser::new_from_str_with_options(text, limits()) {
        let (event, span) = next.map_err(|error| syntax(&error))?;
        let line = span.start.line();
        builder.handle_event(event, line).map_err(ConfigErrors::single)?;
    }
    builder.root.ok_or_else(|| {
        ConfigErrors::single(config_error(1, "an empty document", "a map of settings"))
    })
}

#[derive(Default)]
struct Builder {
    open: Vec<OpenContainer>,
    /// Complete values by anchor. The anchor of an incomplete value is absent, so a value cannot contain itself.
    anchors: HashMap<usize, AnchorNode>,
    root: Option<Node>,
    documents: usize,
    nodes: usize,
    bytes: usize,
}

struct OpenContainer {
    line: usize,
    anchor: usize,
    container: Container,
}

enum Container {
    List(Vec<Node>),
    Map { entries: Vec<Entry>, key: Option<PendingKey> },
}

/// Key of a map whose value is not read yet.
struct PendingKey {
    text: String,
    line: usize,
    is_merge_key: bool,
}

struct AnchorNode {
    node: Node,
    nodes: usize,
    bytes: usize,
    depth: usize,
}

// === impl Builder ===

impl Builder {
    fn handle_event(&mut self, event: Event<'_>, line: usize) -> Result<(), ConfigError> {
        match event {
            Event::DocumentStart(..) => {
                self.documents += 1;
                if self.documents > 1 {
                    return Err(config_error(line, "a second document", "one document per file"));
                }
                Ok(())
            }
            Event::Scalar(text, style, anchor, tag) => {
                let kind = scalar(text.into_owned(), style, tag.as_deref(), line)?;
                self.finish(line, kind, anchor)
            }
            Event::SequenceStart(_, anchor, tag) => {
                collection_tag(tag.as_deref(), "seq", line)?;
                self.start(line, anchor, Container::List(Vec::new()))
            }
            Event::MappingStart(_, anchor, tag) => {
                collection_tag(tag.as_deref(), "map", line)?;
                self.start(line, anchor, Container::Map { entries: Vec::new(), key: None })
            }
            Event::SequenceEnd | Event::MappingEnd => match self.open.pop() {
                Some(OpenContainer { line, anchor, container }) => {
                    let kind = match container {
                        Container::List(items) => NodeKind::List(items),
                        Container::Map { entries, key: _ } => NodeKind::Map(entries),
                    };
                    self.finish(line, kind, anchor)
                }
                None => Err(config_error(line, "invalid YAML: an unmatched end", "YAML 1.2")),
            },
            Event::Alias(anchor) => self.expand_alias(anchor, line),
            // Stream marks and comments carry no value; the enum may grow.
            _ => Ok(()),
        }
    }

    fn start(
        &mut self,
        line: usize,
        anchor: usize,
        container: Container,
    ) -> Result<(), ConfigError> {
        let as_key = matches!(
            self.open.last(),
            Some(OpenContainer { container: Container::Map { key: None, .. }, .. })
        );
        if as_key {
            return Err(config_error(line, "a list or map as a key", "text as a key"));
        }
        self.check_depth(line, 1)?;
        self.open.push(OpenContainer { line, anchor, container });
        Ok(())
    }

    fn expand_alias(&mut self, anchor: usize, line: usize) -> Result<(), ConfigError> {
        let Some(found) = self.anchors.get(&anchor) else {
            return Err(config_error(
                line,
                "an alias to a value that contains it",
                "an alias to an earlier value",
            ));
        };
        let (nodes, bytes, depth) = (found.nodes, found.bytes, found.depth);
        self.check_depth(line, depth)?;
        self.add_size(line, nodes, bytes)?;
        let found = self.anchors.get(&anchor).expect("anchors are never removed");
        self.insert(line, found.node.kind.clone())
    }

    fn finish(&mut self, line: usize, kind: NodeKind, anchor: usize) -> Result<(), ConfigError> {
        let own = match &kind {
            NodeKind::Text(text) | NodeKind::Plain(text) => text.len(),
            NodeKind::List(_) | NodeKind::Map(_) => 0,
        };
        self.add_size(line, 1, own)?;
        if anchor != 0 {
            let node = Node { line: Some(line), kind: kind.clone() };
            let (nodes, bytes, depth) = measure(&node);
            // An anchored value is held a second time, so it counts a second time.
            self.add_size(line, nodes, bytes)?;
            self.anchors.insert(anchor, AnchorNode { node, nodes, bytes, depth });
        }
        self.insert(line, kind)
    }

    fn insert(&mut self, line: usize, kind: NodeKind) -> Result<(), ConfigError> {
        let Some(open) = self.open.last_mut() else {
            self.root.get_or_insert(Node { line: Some(line), kind });
            return Ok(());
        };
        match &mut open.container {
            Container::List(items) => items.push(Node { line: Some(line), kind }),
            Container::Map { entries, key } => {
                if let Some(PendingKey { text, line: key_line, is_merge_key }) = key.take() {
                    let value = Node { line: Some(line), kind };
                    entries.push(Entry { key: text, line: Some(key_line), value, is_merge_key });
                } else {
                    let is_merge_key = matches!(&kind, NodeKind::Plain(text) if text == "<<");
                    let (NodeKind::Text(text) | NodeKind::Plain(text)) = kind else {
                        return Err(config_error(line, "a list or map as a key", "text as a key"));
                    };
                    *key = Some(PendingKey { text, line, is_merge_key });
                }
            }
        }
        Ok(())
    }

    fn check_depth(&self, line: usize, more: usize) -> Result<(), ConfigError> {
        if self.open.len() + more > MAX_DEPTH {
            let allowed = format!("at most {MAX_DEPTH} levels of lists and maps");
            return Err(config_error(line, "a value nested too deeply", &allowed));
        }
        Ok(())
    }

    fn add_size(&mut self, line: usize, nodes: usize, bytes: usize) -> Result<(), ConfigError> {
        self.nodes = self.nodes.saturating_add(nodes);
        self.bytes = self.bytes.saturating_add(bytes);
        if self.nodes > MAX_NODES || self.bytes > 2 * MAX_BYTES {
            let allowed =
                format!("at most {MAX_NODES} values, including those that aliases repeat");
            return Err(config_error(line, "too many values", &allowed));
        }
        Ok(())
    }
}

fn measure(node: &Node) -> (usize, usize, usize) {
    let add = |(nodes, bytes, depth): (usize, usize, usize), more: (usize, usize, usize)| {
        (nodes + more.0, bytes + more.1, depth.max(more.2))
    };
    match &node.kind {
        NodeKind::Text(text) | NodeKind::Plain(text) => (1, text.len(), 0),
        NodeKind::List(items) => {
            let (nodes, bytes, depth) = items.iter().map(measure).fold((1, 0, 0), add);
            (nodes, bytes, depth + 1)
        }
        NodeKind::Map(entries) => {
            let (nodes, bytes, depth) = entries
                .iter()
                .map(|entry| add(measure(&entry.value), (1, entry.key.len(), 0)))
                .fold((1, 0, 0), add);
            (nodes, bytes, depth + 1)
        }
    }
}

fn scalar(
    text: String,
    style: ScalarStyle,
    tag: Option<&Tag>,
    line: usize,
) -> Result<NodeKind, ConfigError> {
    let plain = matches!(style, ScalarStyle::Plain);
    match tag.map(|tag| (tag, tag.core_suffix())) {
        None if plain => Ok(NodeKind::Plain(text)),
        None | Some((_, Some("str"))) => Ok(NodeKind::Text(text)),
        Some((_, Some("null" | "bool" | "int" | "float"))) => Ok(NodeKind::Plain(text)),
        Some((tag, _)) => Err(unknown_tag(tag, line)),
    }
}

fn collection_tag(tag: Option<&Tag>, own: &str, line: usize) -> Result<(), ConfigError> {
    match tag {
        Some(tag) if tag.core_suffix() != Some(own) => Err(unknown_tag(tag, line)),
        _ => Ok(()),
    }
}

fn unknown_tag(tag: &Tag, line: usize) -> ConfigError {
    config_error(
        line,
        &format!("the tag {}", super::shorten(&tag.original())),
        "values without tags",
    )
}

fn limits() -> Options {
    options! {
        emit_comments: false,
        flow_nesting_limit: MAX_DEPTH + 1,
        block_nesting_limit: MAX_DEPTH + 1,
    }
}

fn syntax(error: &ScanError) -> ConfigErrors {
    let found = format!("invalid YAML: {}", super::shorten(&error.info()));
    let tab = error.info().contains("found a tab");
    let allowed = if tab { "YAML 1.2 with spaces, not tabs, as indentation" } else { "YAML 1.2" };
    ConfigErrors::single(config_error(error.marker().line(), &found, allowed))
}

fn config_error(line: usize, found: &str, allowed: &str) -> ConfigError {
    ConfigError {
        path: String::new(),
        line: Some(line),
        found: found.to_owned(),
        allowed: allowed.to_owned(),
        suggestion: None,
    }
}

//! Keys that a map must not have.

use std::collections::HashMap;

use crate::{
    context::Context,
    error::ConfigError,
    tree::{Entry, Node, NodeKind},
};

/// Reports duplicate keys and YAML merge keys.
pub(super) fn check_keys(node: &Node, cx: &mut Context) {
    match &node.kind {
        NodeKind::Text(_) | NodeKind::Plain(_) => {}
        NodeKind::List(items) => {
            for (index, item) in items.iter().enumerate() {
                cx.at_index(index, |cx| check_keys(item, cx));
            }
        }
        NodeKind::Map(entries) => {
            let mut seen = HashMap::new();
            for entry in entries {
                if let Some(first) = seen.insert(entry.key.as_str(), entry.line) {
                    cx.at_key(&entry.key, |cx| cx.report(duplicate_key(entry, first)));
                }
                if entry.is_merge_key {
                    cx.at_key(&entry.key, |cx| cx.report(merge_key(entry)));
                }
                cx.at_key(&entry.key, |cx| check_keys(&entry.value, cx));
            }
        }
    }
}

fn duplicate_key(entry: &Entry, first: Option<usize>) -> ConfigError {
    let found = match first {
        Some(line) => format!("a duplicate key (first on line {line})"),
        None => "a duplicate key".to_owned(),
    };
    ConfigError {
        path: String::new(),
        line: entry.line,
        found,
        allowed: "each key once".to_owned(),
        suggestion: None,
    }
}

fn merge_key(entry: &Entry) -> ConfigError {
    ConfigError {
        path: String::new(),
        line: entry.line,
        found: "a merge key".to_owned(),
        allowed: "explicit keys; an alias (*name) can repeat a whole value".to_owned(),
        suggestion: None,
    }
}

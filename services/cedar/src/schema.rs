//! Schema of requests, in Cedar's JSON format.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use crate::names::{CLIENT, Feature, GROUP, ITEMS, SERVER};

/// Entity types and actions of one namespace.
type Namespace = (Map<String, Value>, Map<String, Value>);

/// Names in the configured entities.
#[derive(Debug, Default)]
pub(crate) struct EntityNames {
    types: BTreeSet<String>,
    /// Identifiers of actions, by type: actions may have parents.
    actions: BTreeSet<(String, String)>,
    attributes: BTreeSet<String>,
}

impl EntityNames {
    /// Collects the names in entities, in Cedar's JSON format.
    pub(crate) fn of(entities: &Value) -> Self {
        let mut names = Self::default();
        for entity in entities.as_array().into_iter().flatten() {
            names.uids(entity, 0);
            let attributes = entity["attrs"].as_object().into_iter().flatten();
            names.attributes.extend(attributes.map(|(name, _)| name.clone()));
        }
        names
    }

    fn uids(&mut self, value: &Value, depth: usize) {
        // Cedar has parsed them, so they nest no deeper than its parser allows.
        if depth > 128 {
            return;
        }
        if let (Some(kind), Some(id)) = (value["type"].as_str(), value["id"].as_str()) {
            if kind == "Action" || kind.ends_with("::Action") {
                self.actions.insert((kind.to_owned(), id.to_owned()));
            } else {
                self.types.insert(kind.to_owned());
            }
        }
        match value {
            Value::Array(values) => values.iter().for_each(|value| self.uids(value, depth + 1)),
            Value::Object(members) => {
                members.values().for_each(|value| self.uids(value, depth + 1));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    /// Returns whether a configured entity has an attribute `name`.
    pub(crate) fn has_attribute(&self, name: &str) -> bool {
        self.attributes.contains(name)
    }

    /// Returns the schema of requests, with the configured types and actions besides those of the
    /// model.
    pub(crate) fn schema(&self) -> Value {
        let own = [CLIENT, GROUP, SERVER].into_iter().chain(ITEMS);
        let all: BTreeSet<&str> = self.types.iter().map(String::as_str).chain(own).collect();
        // Any type other than principal and resource may be a parent.
        let outer: Vec<_> =
            all.iter().filter(|kind| **kind != CLIENT && !ITEMS.contains(kind)).collect();
        let mut spaces: BTreeMap<&str, Namespace> = BTreeMap::new();
        for kind in &all {
            let (space, name) = kind.rsplit_once("::").unwrap_or(("", kind));
            let entity = json!({ "memberOfTypes": outer });
            spaces.entry(space).or_default().0.insert(name.to_owned(), entity);
        }
        for (kind, id) in &self.actions {
            let space = kind.rsplit_once("::").map_or("", |(space, _)| space);
            spaces.entry(space).or_default().1.insert(id.clone(), json!({}));
        }
        for feature in Feature::ALL {
            let [kind, action, ..] = feature.names();
            let applies = json!({ "principalTypes": [CLIENT], "resourceTypes": [kind] });
            let groups = self.actions.iter().filter(|(kind, id)| kind != "Action" || id != action);
            let groups: Vec<_> =
                groups.map(|(kind, id)| json!({ "type": kind, "id": id })).collect();
            let groups = if groups.len() < self.actions.len() { Vec::new() } else { groups };
            let action_of = json!({ "appliesTo": applies, "memberOf": groups });
            spaces.entry("").or_default().1.insert(action.to_owned(), action_of);
        }
        let space = |(types, actions)| json!({ "entityTypes": types, "actions": actions });
        spaces.into_iter().map(|(name, parts)| (name.to_owned(), space(parts))).collect()
    }
}

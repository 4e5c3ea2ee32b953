//! Tools of a backend.

use std::sync::{Mutex, PoisonError};

const ECHO: &str = r#"{"name":"echo","description":"Returns the text that it is given.","inputSchema":{"type":"object","properties":{"text":{"type":"string","description":"What to return"}},"required":["text"]}}"#;

const BLOB: &str = r#"{"name":"blob","description":"Returns text of a given length.","inputSchema":{"type":"object","properties":{"bytes":{"type":"integer","minimum":0,"description":"How long"}},"required":["bytes"]}}"#;

/// Tool list of constant length whose last tool can be renamed.
#[derive(Debug)]
pub(super) struct Catalog(Mutex<State>);

#[derive(Debug)]
struct State {
    /// All definitions but the last, each followed by a comma.
    fixed: String,
    last: String,
    /// Number of renames of the last tool.
    edition: u64,
    count: usize,
}

impl Catalog {
    /// Creates a catalog of `count` tools, at least three.
    pub(super) fn new(count: usize) -> Self {
        let count = count.max(3);
        let mut fixed = format!("{ECHO},{BLOB},");
        for number in 2..count - 1 {
            fixed.push_str(&definition(&name(number, 0)));
            fixed.push(',');
        }
        let last = definition(&name(count - 1, 0));
        Self(Mutex::new(State { fixed, last, edition: 0, count }))
    }

    /// Renames the last tool and returns its new name.
    pub(super) fn rename_one(&self) -> String {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.edition += 1;
        let name = name(state.count - 1, state.edition);
        state.last = definition(&name);
        name
    }

    /// Returns the members of a `tools/list` result.
    pub(super) fn members(&self, stateless: bool) -> String {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let hints = if stateless { r#","ttlMs":300000,"cacheScope":"public""# } else { "" };
        format!(r#""tools":[{}{}]{hints}"#, state.fixed, state.last)
    }
}

fn name(number: usize, edition: u64) -> String {
    if edition == 0 { format!("tool_{number:04}") } else { format!("tool_{number:04}_v{edition}") }
}

/// Returns a definition of typical size.
fn definition(name: &str) -> String {
    format!(
        r#"{{"name":"{name}","title":"Search records","description":"Searches the records of one project and returns those that match, newest first.","inputSchema":{{"type":"object","properties":{{"query":{{"type":"string","description":"Words that a record has to contain"}},"limit":{{"type":"integer","minimum":1,"maximum":100,"description":"The most records"}}}},"required":["query"]}},"annotations":{{"readOnlyHint":true}}}}"#
    )
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn names(catalog: &Catalog) -> Vec<String> {
        let list: Value = serde_json::from_str(&format!("{{{}}}", catalog.members(true))).unwrap();
        let tools = list["tools"].as_array().unwrap();
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn has_requested_number_of_distinct_tools() {
        let mut names = names(&Catalog::new(200));
        assert_eq!(&names[..3], ["echo", "blob", "tool_0002"]);
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 200);
    }

    #[test]
    fn rename_keeps_number_of_tools() {
        let catalog = Catalog::new(5);
        assert_eq!(catalog.rename_one(), "tool_0004_v1");
        assert_eq!(catalog.rename_one(), "tool_0004_v2");
        assert_eq!(names(&catalog), ["echo", "blob", "tool_0002", "tool_0003", "tool_0004_v2"]);
    }

    #[test]
    fn definitions_are_about_400_bytes_long() {
        let size = definition("tool_0000").len();
        assert!((350..450).contains(&size), "{size}");
    }
}

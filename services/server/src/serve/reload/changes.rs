//! The difference between two configurations, for the log.

use std::collections::BTreeMap;

use vmcp_config::{Backend, File};

/// Returns the sections that differ, and the backends that were added, removed and changed. The list is empty if the
/// documents are equivalent, or if only named files have changed.
pub(super) fn changes(old: &File, new: &File) -> Vec<String> {
    let File {
        name,
        group_ref,
        metadata,
        aggregation,
        audit,
        backends,
        variables,
        composite_tools,
        incoming_auth,
        outgoing_auth,
        operational,
        optimizer,
        session_storage,
        telemetry,
        auth_server,
    } = new;
    let sections = [
        ("name", *name != old.name),
        ("groupRef", *group_ref != old.group_ref),
        ("metadata", *metadata != old.metadata),
        ("aggregation", *aggregation != old.aggregation),
        ("audit", *audit != old.audit),
        ("variables", *variables != old.variables),
        ("compositeTools", *composite_tools != old.composite_tools),
        ("incomingAuth", *incoming_auth != old.incoming_auth),
        ("outgoingAuth", *outgoing_auth != old.outgoing_auth),
        ("operational", *operational != old.operational),
        ("optimizer", *optimizer != old.optimizer),
        ("sessionStorage", *session_storage != old.session_storage),
        ("telemetry", *telemetry != old.telemetry),
        ("authServer", *auth_server != old.auth_server),
    ];
    let sections = sections.into_iter().filter(|(_, differs)| *differs);
    let mut changes: Vec<_> = sections.map(|(name, _)| name.to_owned()).collect();
    changes.extend(backend_changes(&old.backends, backends));
    changes
}

fn backend_changes(old: &[Backend], new: &[Backend]) -> Vec<String> {
    let by_name = |backends: &[Backend]| -> BTreeMap<String, Backend> {
        backends.iter().map(|backend| (backend.name.clone(), backend.clone())).collect()
    };
    let (before, after) = (by_name(old), by_name(new));
    let mut changes = Vec::new();
    for (name, backend) in &after {
        match before.get(name) {
            None => changes.push(format!("backend {name} added")),
            Some(known) if known != backend => changes.push(format!("backend {name} changed")),
            Some(_) => {}
        }
    }
    let removed = before.keys().filter(|name| !after.contains_key(*name));
    changes.extend(removed.map(|name| format!("backend {name} removed")));
    if changes.is_empty() && old != new {
        changes.push("order of backends".to_owned());
    }
    changes
}

#[cfg(test)]
mod tests {
    use vmcp_config::Format;

    use super::*;

    fn file(backends: &str, rest: &str) -> File {
        let text =
            format!("name: x\nincomingAuth: {{type: anonymous}}\nbackends: [{backends}]\n{rest}");
        File::parse(&text, Format::Yaml).unwrap()
    }

    #[test]
    fn names_sections_and_backends_that_differ() {
        let a = "{name: a, url: 'http://a', transport: sse}";
        let b = "{name: b, url: 'http://b', transport: sse}";
        let other = "{name: a, url: 'http://other', transport: sse}";
        let old = file(&format!("{a}, {b}"), "");
        assert!(changes(&old, &old).is_empty());
        let new = file(
            &format!("{other}, {}", b.replace("name: b", "name: c")),
            "operational: {logLevel: debug}\n",
        );
        assert_eq!(
            changes(&old, &new),
            ["operational", "backend a changed", "backend c added", "backend b removed"]
        );
        assert_eq!(changes(&old, &file(&format!("{b}, {a}"), "")), ["order of backends"]);
    }
}

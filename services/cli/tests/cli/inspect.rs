use serde_json::{Value, json};
use vmcp_test_support::McpBackend;

use crate::http::get;
use crate::mcp::Stateless;
use crate::program::{CommandOutput, Folder, ServerProcess, vmcp};

fn inspect(text: &str, arguments: &[&str]) -> CommandOutput {
    let folder = Folder::new();
    let file = folder.write("vmcp.yaml", text);
    vmcp(&[&["inspect", "-c", &file][..], arguments].concat())
}

/// Inspects two backends with this aggregation.
fn inspect_two(aggregation: &str, arguments: &[&str]) -> CommandOutput {
    let (one, two) = (McpBackend::stateless(&["x", "y", "z"]), McpBackend::stateless(&["x"]));
    let text = format!(
        "name: x\nincomingAuth: {{type: anonymous}}\naggregation: {aggregation}\nbackends:\n\
         - {{name: one, url: \"{}\", transport: streamable-http}}\n\
         - {{name: two, url: \"{}\", transport: streamable-http}}\n",
        one.url(),
        two.url()
    );
    inspect(&text, arguments)
}

/// Of each entry: name, backend, original name, whether it is shown and why not.
fn entries(aggregation: &str) -> Vec<String> {
    let ended = inspect_two(aggregation, &["-o", "json"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    let json: Value = serde_json::from_str(&ended.out).unwrap();
    let entry = |entry: &Value| {
        let word = |key: &str| entry[key].as_str().unwrap_or_default().to_owned();
        let renamed: Vec<_> = entry["renamedBy"].as_array().unwrap().iter().collect();
        let renamed: Vec<_> = renamed.iter().filter_map(|by| by.as_str()).collect();
        let state = if entry["shown"] == true { "shown".to_owned() } else { word("hiddenReason") };
        format!(
            "{} = {}.{} [{}] {state}",
            word("name"),
            word("backend"),
            word("originalName"),
            renamed.join(" ")
        )
    };
    json["entries"].as_array().unwrap().iter().map(entry).collect()
}

#[test]
fn shows_names_with_origin() {
    let aggregation = "{tools: [{workload: one, filter: [new], \
                       overrides: {x: {name: new}}}, {workload: two, excludeAll: true}]}";
    assert_eq!(
        entries(aggregation),
        [
            "one_new = one.x [override prefix] shown",
            "one_y = one.y [prefix] y is not in the filter of one in aggregation.tools",
            "one_z = one.z [prefix] z is not in the filter of one in aggregation.tools",
            "two_x = two.x [prefix] excludeAll of two in aggregation.tools",
        ]
    );
    let all = entries("{excludeAllTools: true}");
    assert!(all.iter().all(|entry| entry.ends_with("aggregation.excludeAllTools")), "{all:?}");
}

#[test]
fn shows_lost_names_with_conflict() {
    let aggregation =
        "{conflictResolution: priority, conflictResolutionConfig: {priorityOrder: [two]}}";
    assert_eq!(
        entries(aggregation),
        [
            "x = two.x [] shown",
            "x = one.x [] name conflict: two has it: it comes first in priorityOrder",
            "y = one.y [] shown",
            "z = one.z [] shown",
        ]
    );
    let manual = "{conflictResolution: manual, tools: [{workload: one, filter: [x, y]}]}";
    let entries = entries(manual);
    assert!(entries[0].starts_with("x = one.x [] name conflict: left out"), "{entries:?}");
    assert!(entries[1].starts_with("x = two.x [] name conflict: left out"), "{entries:?}");
    assert_eq!(entries[2], "y = one.y [] shown");
}

#[test]
fn prints_text_as_table() {
    let ended = inspect_two("{tools: [{workload: two, excludeAll: true}]}", &[]);
    assert_eq!((ended.code, &*ended.err), (0, ""));
    let line = |start: &str| {
        let mut lines = ended.out.lines();
        let line = lines.find(|line| line.starts_with(start));
        line.unwrap_or_else(|| panic!("{start}: {ended:?}"))
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(line("one "), "one streamable-http 2026-07-28 ready tools: 3 group=x");
    assert_eq!(line("tool  one_y"), "tool one_y one y prefix yes");
    assert_eq!(
        line("tool  two_x"),
        "tool two_x two x prefix no: excludeAll of two in aggregation.tools"
    );
}

#[test]
fn shows_tools_of_optimizer() {
    let backend = McpBackend::stateless(&["x"]);
    let text = |optimizer: &str| {
        format!(
            "name: x\nincomingAuth: {{type: anonymous}}\n{optimizer}\n\
             backends: [{{name: one, url: \"{}\", transport: streamable-http}}]\n",
            backend.url()
        )
    };
    let note = "clients list find_tool, call_tool and the tools with a user interface";
    assert!(inspect(&text("optimizer: {}"), &[]).out.contains(note));
    assert!(!inspect(&text(""), &[]).out.contains("find_tool"));
    let json: Value =
        serde_json::from_str(&inspect(&text("optimizer: {}"), &["-o", "json"]).out).unwrap();
    assert_eq!(json["optimizerTools"], json!(["find_tool", "call_tool"]));
}

#[test]
fn shows_items_per_generation() {
    let backend = McpBackend::both(&["x", "old"], &["x", "new", "newer"]);
    let text = format!(
        "name: x\nincomingAuth: {{type: anonymous}}\n\
         backends: [{{name: both, url: \"{}\", transport: streamable-http}}]\n",
        backend.url()
    );
    let ended = inspect(&text, &[]);
    let row = |start: &str| {
        let line = ended.out.lines().find(|line| line.starts_with(start));
        line.unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(
        row("both "),
        "both streamable-http 2026-07-28, 2025-11-25 ready tools: 3 (2025-11-25: 2) group=x"
    );
    assert_eq!(row("tool  both_new "), "tool both_new both new prefix yes stateless");
    assert_eq!(row("tool  both_old "), "tool both_old both old prefix yes stateful");
    assert_eq!(row("tool  both_x "), "tool both_x both x prefix yes all");
    let shown: Value = serde_json::from_str(&inspect(&text, &["-o", "json"]).out).unwrap();
    let found = &shown["backends"][0];
    assert_eq!(found["revisions"], json!(["2026-07-28", "2025-11-25"]), "{found}");
    assert_eq!(
        (&found["offers"]["tools"], &found["offersToStateful"]["tools"]),
        (&json!(3), &json!(2))
    );
    let folder = Folder::new();
    let file = folder.write("vmcp.yaml", &text);
    let ended = vmcp(&["validate", "--connect", "-c", &file]);
    assert!(ended.out.contains("3 tools (2025-11-25: 2)"), "{ended:?}");
    let (server, port) = ServerProcess::serve(&file, &[]);
    let started = server.logs("\"started\"");
    assert!(started.contains("\"tools\":4"), "each name counts once: {started}");
    assert_eq!(Stateless(port).tools(), ["both_new", "both_newer", "both_x"]);
    let status = get(port, "/status");
    assert_eq!(status["backends"][0]["mcp_revisions"], json!(["2026-07-28", "2025-11-25"]));
    let counts = (&status["offered"]["tools"], &status["offered_to_stateful"]["tools"]);
    assert_eq!(counts, (&json!(3), &json!(2)), "{status}");
}

#[test]
fn shows_errors_that_replace_lists() {
    let text = "name: x\nincomingAuth: {type: anonymous}\n\
                backends: [{name: gone, url: \"http://127.0.0.1:1/mcp\", transport: streamable-http}]\n";
    let ended = inspect(text, &[]);
    assert_eq!(ended.code, 1);
    assert!(ended.err.contains("lists fail as long as that is so"), "{ended:?}");
    assert!(ended.out.contains("unavailable"), "{ended:?}");
}

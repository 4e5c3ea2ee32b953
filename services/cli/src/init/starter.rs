//! Starter file.

use std::fmt::Write as _;

/// First lines of every file. Editors use the schema for completion and checks.
const HEAD: &str = "\
# yaml-language-server: $schema=vmcp.schema.json
# The editor's schema is written by: vmcp schema > vmcp.schema.json
# Check this file with: vmcp validate --config FILE (--connect asks the backends too)
";

const REST: &str = r#"
# The MCP servers behind this one. Names are unique; they become the prefix of tools and prompts.
backends:
  - name: everything
    url: http://127.0.0.1:3001/mcp
    # streamable-http, or sse for the deprecated HTTP+SSE transport.
    transport: streamable-http
  # - name: internal
  #   url: https://tools.internal.example.com/mcp
  #   transport: streamable-http
  #   type: entry                       # a remote server
  #   caBundlePath: /etc/ssl/internal.pem
  #   metadata: {team: platform}        # shown in /status

# How equal names of several backends are told apart.
aggregation:
  conflictResolution: prefix            # or priority, or manual
  conflictResolutionConfig:
    prefixFormat: "{workload}_"         # everything_echo
    # priorityOrder: [everything]       # with priority: the first one has the name
  # tools:
  #   - workload: everything
  #     filter: [echo, add]             # shows only these
  #     overrides:
  #       get-sum: {name: add, description: Adds two numbers}

operational:
  timeouts:
    default: 30s                        # for a backend's next answer
    # perWorkload: {everything: 2m}
  failureHandling:
    partialFailureMode: best_effort     # fail: a list fails when a backend is away
  # logLevel: debug
"#;

/// Returns a file with comments and one backend.
pub(super) fn starter(name: &str) -> String {
    head(name) + REST
}

/// Returns the beginning of a file: the server's name and its authentication.
pub(super) fn head(name: &str) -> String {
    format!(
        "{HEAD}\n# What clients see as the server's name.\nname: {}\n\n\
         # All clients that reach the port may connect: listen on the loopback interface.\n\
         incomingAuth:\n  type: anonymous\n",
        quoted(name)
    )
}

/// Formats text as a YAML scalar, in JSON's notation, which YAML reads unambiguously.
pub(crate) fn quoted(text: &str) -> String {
    let json = serde_json::Value::from(text).to_string();
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        // JSON leaves characters unescaped that other parsers treat as line ends.
        if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') {
            // Writing to a string cannot fail.
            _ = write!(out, "\\u{:04x}", u32::from(c));
        } else {
            out.push(c);
        }
    }
    out
}

//! Each crate has a row that lists its dependencies.

use std::collections::BTreeSet;

use super::*;

/// Dependency table of the workspace's crates, in dependency order. Every crate has a row.
pub(crate) const CRATES: &[(&str, &str, Sees)] = &[
    ("vmcp-wire", "layers/wire", Sees::Only(&[])),
    ("vmcp-core", "layers/core", Sees::Only(&["vmcp-wire"])),
    ("vmcp-jwt", "layers/jwt", Sees::Only(&["vmcp-wire", "vmcp-core"])),
    (
        "vmcp-oauth-client",
        "layers/oauth-client",
        Sees::Only(&["vmcp-wire", "vmcp-core", "vmcp-jwt"]),
    ),
    ("vmcp-http-guard", "layers/http-guard", Sees::Only(GROUND)),
    ("vmcp-decode", "layers/decode", Sees::Only(GROUND)),
    ("vmcp-timeout", "layers/timeout", Sees::Only(GROUND)),
    ("vmcp-authn", "layers/authn", Sees::Only(GROUND)),
    ("vmcp-authz", "layers/authz", Sees::Only(GROUND)),
    ("vmcp-audit", "layers/audit", Sees::Only(GROUND)),
    ("vmcp-telemetry", "layers/telemetry", Sees::Only(GROUND)),
    ("vmcp-breaker", "layers/breaker", Sees::Only(GROUND)),
    ("vmcp-header-injection", "layers/header-injection", Sees::Only(GROUND)),
    ("vmcp-token-exchange", "layers/token-exchange", Sees::Only(GROUND)),
    ("vmcp-aws-sts", "layers/aws-sts", Sees::Only(GROUND)),
    ("vmcp-config", "services/config", Sees::Only(&[])),
    ("vmcp-audit-log", "services/audit-log", Sees::Only(&["vmcp-wire", "vmcp-core", "vmcp-audit"])),
    ("vmcp-cedar", "services/cedar", Sees::Only(&["vmcp-wire", "vmcp-core", "vmcp-authz"])),
    ("vmcp-egress", "services/egress", Sees::Only(GROUND)),
    ("vmcp-upstream", "services/upstream", Sees::Only(GROUND)),
    (
        "vmcp-telemetry-export",
        "services/telemetry-export",
        Sees::Only(&["vmcp-wire", "vmcp-core", "vmcp-telemetry"]),
    ),
    ("vmcp-session", "services/session", Sees::Only(&["vmcp-wire", "vmcp-core"])),
    ("vmcp-redis", "services/redis", Sees::Only(&["vmcp-wire", "vmcp-core"])),
    ("vmcp-auth-store", "services/auth-store", Sees::Only(&["vmcp-wire", "vmcp-core"])),
    (
        "vmcp-auth-server",
        "services/auth-server",
        Sees::Only(&["vmcp-wire", "vmcp-core", "vmcp-jwt", "vmcp-upstream", "vmcp-auth-store"]),
    ),
    (
        "vmcp-auth-redis",
        "services/auth-redis",
        Sees::Only(&["vmcp-wire", "vmcp-core", "vmcp-redis", "vmcp-auth-store"]),
    ),
    ("vmcp-doctor", "services/doctor", Sees::Only(&["vmcp-wire", "vmcp-core"])),
    (
        "vmcp-aggregate",
        "services/aggregate",
        Sees::Only(&[
            "vmcp-wire",
            "vmcp-core",
            "vmcp-decode",
            "vmcp-timeout",
            "vmcp-breaker",
            "vmcp-session",
        ]),
    ),
    (
        "vmcp-legacy-sse",
        "services/legacy-sse",
        Sees::Only(&["vmcp-wire", "vmcp-core", "vmcp-decode", "vmcp-session"]),
    ),
    ("vmcp-server", "services/server", Sees::AllAbove),
    ("vmcp-demo", "services/demo", Sees::Only(&[])),
    ("vmcp", "services/cli", Sees::AllAbove),
    (TEST_SUPPORT, "tests/support", Sees::Only(&[])),
    ("vmcp-tests", "tests", Sees::AllAbove),
    ("vmcp-bench", "tests/bench", Sees::AllAbove),
    ("vmcp-examples", "examples", Sees::AllAbove),
];

/// Base crates that any layer may depend on. A layer never depends on another layer.
const GROUND: &[&str] = &["vmcp-wire", "vmcp-core", "vmcp-jwt", "vmcp-oauth-client"];

/// Allowed development dependency of every crate.
const TEST_SUPPORT: &str = "vmcp-test-support";

/// Dependencies of a crate inside the workspace.
#[derive(Clone, Copy)]
pub(crate) enum Sees {
    Only(&'static [&'static str]),
    AllAbove,
}

#[test]
fn every_crate_has_row_and_folder() {
    let place = |package: &Value| {
        let manifest = PathBuf::from(package["manifest_path"].as_str().unwrap());
        let root = fs::canonicalize(root()).unwrap();
        let folder = fs::canonicalize(manifest.parent().unwrap()).unwrap();
        folder.strip_prefix(root).unwrap().display().to_string()
    };
    let found: BTreeSet<_> = packages()
        .iter()
        .map(|package| (package["name"].as_str().unwrap().to_owned(), place(package)))
        .collect();
    let rows: BTreeSet<_> =
        CRATES.iter().map(|(name, place, _)| ((*name).to_owned(), (*place).to_owned())).collect();
    assert_eq!(
        found, rows,
        "the table in tests/tests/workspace_rules/crate_table.rs says what each crate may depend on"
    );
}

#[test]
fn dependencies_follow_crate_table() {
    let mut broken = Vec::new();
    for package in packages() {
        let name = package["name"].as_str().unwrap();
        let Some(row) = CRATES.iter().position(|(known, ..)| *known == name) else { continue };
        for dependency in package["dependencies"].as_array().unwrap() {
            let other = dependency["name"].as_str().unwrap();
            let of_its_tests = other == TEST_SUPPORT && dependency["kind"] == "dev";
            if dependency["path"].is_null() || of_its_tests {
                continue;
            }
            let allowed = match CRATES[row].2 {
                Sees::Only(known) => known.contains(&other),
                Sees::AllAbove => CRATES[..row].iter().any(|(known, ..)| *known == other),
            };
            if !allowed {
                broken.push(format!("{name} depends on {other}"));
            }
        }
    }
    assert_none(&broken, "a crate depends on what stands above it and is listed in its row");
}

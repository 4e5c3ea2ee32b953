//! Each crate has a row that lists its dependencies.

use std::collections::BTreeSet;

use super::*;

/// Dependency table of the workspace's crates, in dependency order. Every crate has a row.
pub(crate) const CRATES: &[(&str, &str, AllowedDependencies)] = &[
    ("vmcp-wire", "layers/wire", AllowedDependencies::Only(&[])),
    ("vmcp-core", "layers/core", AllowedDependencies::Only(&["vmcp-wire"])),
    ("vmcp-jwt", "layers/jwt", AllowedDependencies::Only(&["vmcp-wire", "vmcp-core"])),
    (
        "vmcp-oauth-client",
        "layers/oauth-client",
        AllowedDependencies::Only(&["vmcp-wire", "vmcp-core", "vmcp-jwt"]),
    ),
    ("vmcp-http-guard", "layers/http-guard", AllowedDependencies::Only(GROUND)),
    ("vmcp-decode", "layers/decode", AllowedDependencies::Only(GROUND)),
    ("vmcp-timeout", "layers/timeout", AllowedDependencies::Only(GROUND)),
    ("vmcp-authn", "layers/authn", AllowedDependencies::Only(GROUND)),
    ("vmcp-authz", "layers/authz", AllowedDependencies::Only(GROUND)),
    ("vmcp-audit", "layers/audit", AllowedDependencies::Only(GROUND)),
    ("vmcp-telemetry", "layers/telemetry", AllowedDependencies::Only(GROUND)),
    ("vmcp-breaker", "layers/breaker", AllowedDependencies::Only(GROUND)),
    ("vmcp-header-injection", "layers/header-injection", AllowedDependencies::Only(GROUND)),
    ("vmcp-token-exchange", "layers/token-exchange", AllowedDependencies::Only(GROUND)),
    ("vmcp-aws-sts", "layers/aws-sts", AllowedDependencies::Only(GROUND)),
    ("vmcp-config", "services/config", AllowedDependencies::Only(&[])),
    (
        "vmcp-audit-log",
        "services/audit-log",
        AllowedDependencies::Only(&["vmcp-wire", "vmcp-core", "vmcp-audit"]),
    ),
    (
        "vmcp-cedar",
        "services/cedar",
        AllowedDependencies::Only(&["vmcp-wire", "vmcp-core", "vmcp-authz"]),
    ),
    ("vmcp-egress", "services/egress", AllowedDependencies::Only(GROUND)),
    ("vmcp-upstream", "services/upstream", AllowedDependencies::Only(GROUND)),
    (
        "vmcp-telemetry-export",
        "services/telemetry-export",
        AllowedDependencies::Only(&["vmcp-wire", "vmcp-core", "vmcp-telemetry"]),
    ),
    ("vmcp-seal", "services/seal", AllowedDependencies::Only(&["vmcp-wire", "vmcp-core"])),
    (
        "vmcp-session",
        "services/session",
        AllowedDependencies::Only(&["vmcp-wire", "vmcp-core", "vmcp-seal"]),
    ),
    (
        "vmcp-peer",
        "services/peer",
        AllowedDependencies::Only(&["vmcp-wire", "vmcp-core", "vmcp-seal"]),
    ),
    ("vmcp-listener", "services/listener", AllowedDependencies::Only(&["vmcp-wire", "vmcp-core"])),
    ("vmcp-redis", "services/redis", AllowedDependencies::Only(&["vmcp-wire", "vmcp-core"])),
    (
        "vmcp-session-redis",
        "services/session-redis",
        AllowedDependencies::Only(&[
            "vmcp-wire",
            "vmcp-core",
            "vmcp-seal",
            "vmcp-session",
            "vmcp-redis",
        ]),
    ),
    (
        "vmcp-auth-store",
        "services/auth-store",
        AllowedDependencies::Only(&["vmcp-wire", "vmcp-core"]),
    ),
    (
        "vmcp-auth-server",
        "services/auth-server",
        AllowedDependencies::Only(&[
            "vmcp-wire",
            "vmcp-core",
            "vmcp-jwt",
            "vmcp-upstream",
            "vmcp-auth-store",
        ]),
    ),
    (
        "vmcp-auth-redis",
        "services/auth-redis",
        AllowedDependencies::Only(&["vmcp-wire", "vmcp-core", "vmcp-redis", "vmcp-auth-store"]),
    ),
    ("vmcp-optimize", "services/optimize", AllowedDependencies::Only(&["vmcp-wire", "vmcp-core"])),
    ("vmcp-doctor", "services/doctor", AllowedDependencies::Only(&["vmcp-wire", "vmcp-core"])),
    ("vmcp-gotemplate", "services/gotemplate", AllowedDependencies::Only(&[])),
    (
        "vmcp-compose",
        "services/compose",
        AllowedDependencies::Only(&["vmcp-wire", "vmcp-core", "vmcp-config", "vmcp-gotemplate"]),
    ),
    (
        "vmcp-compose-redis",
        "services/compose-redis",
        AllowedDependencies::Only(&[
            "vmcp-wire",
            "vmcp-core",
            "vmcp-seal",
            "vmcp-redis",
            "vmcp-config",
            "vmcp-gotemplate",
            "vmcp-compose",
        ]),
    ),
    (
        "vmcp-aggregate",
        "services/aggregate",
        AllowedDependencies::Only(&[
            "vmcp-wire",
            "vmcp-core",
            "vmcp-audit",
            "vmcp-decode",
            "vmcp-timeout",
            "vmcp-breaker",
            "vmcp-seal",
            "vmcp-peer",
            "vmcp-telemetry",
            "vmcp-session",
            "vmcp-config",
            "vmcp-gotemplate",
            "vmcp-compose",
            "vmcp-optimize",
        ]),
    ),
    (
        "vmcp-legacy-sse",
        "services/legacy-sse",
        AllowedDependencies::Only(&["vmcp-wire", "vmcp-core", "vmcp-decode", "vmcp-session"]),
    ),
    ("vmcp-structural-schema", "operator/schema", AllowedDependencies::Only(&[])),
    ("vmcp-strategic-merge", "operator/strategic-merge", AllowedDependencies::Only(&[])),
    (
        "vmcp-kube-fixture",
        "operator/fixture",
        AllowedDependencies::Only(&["vmcp-structural-schema", "vmcp-strategic-merge"]),
    ),
    (
        "vmcp-api",
        "operator/api",
        AllowedDependencies::Only(&["vmcp-config", "vmcp-structural-schema"]),
    ),
    (
        "vmcp-lease",
        "operator/lease",
        AllowedDependencies::Only(&["vmcp-structural-schema", "vmcp-kube-fixture"]),
    ),
    (
        "vmcp-operator",
        "operator/controller",
        AllowedDependencies::Only(&[
            "vmcp-aws-sts",
            "vmcp-config",
            "vmcp-egress",
            "vmcp-telemetry-export",
            "vmcp-header-injection",
            "vmcp-oauth-client",
            "vmcp-cedar",
            "vmcp-gotemplate",
            "vmcp-compose",
            "vmcp-structural-schema",
            "vmcp-strategic-merge",
            "vmcp-kube-fixture",
            "vmcp-api",
            "vmcp-lease",
        ]),
    ),
    (
        "vmcp-status-reporter",
        "services/status-reporter",
        AllowedDependencies::Only(&[
            "vmcp-config",
            "vmcp-structural-schema",
            "vmcp-kube-fixture",
            "vmcp-api",
            "vmcp-lease",
        ]),
    ),
    (
        "vmcp-discover",
        "services/discover",
        AllowedDependencies::Only(&[
            "vmcp-config",
            "vmcp-structural-schema",
            "vmcp-kube-fixture",
            "vmcp-api",
        ]),
    ),
    ("vmcp-server", "services/server", AllowedDependencies::AllAbove),
    ("vmcp-demo", "services/demo", AllowedDependencies::Only(&[])),
    ("vmcp", "services/cli", AllowedDependencies::AllAbove),
    (TEST_SUPPORT, "tests/support", AllowedDependencies::Only(&[])),
    ("vmcp-tests", "tests", AllowedDependencies::AllAbove),
    ("vmcp-bench", "tests/bench", AllowedDependencies::AllAbove),
    ("vmcp-examples", "examples", AllowedDependencies::AllAbove),
];

/// Base crates that any layer may depend on. A layer never depends on another layer.
const GROUND: &[&str] = &["vmcp-wire", "vmcp-core", "vmcp-jwt", "vmcp-oauth-client"];

/// Allowed development dependency of every crate.
const TEST_SUPPORT: &str = "vmcp-test-support";

/// Dependencies of a crate inside the workspace.
#[derive(Clone, Copy)]
pub(crate) enum AllowedDependencies {
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
                AllowedDependencies::Only(known) => known.contains(&other),
                AllowedDependencies::AllAbove => {
                    CRATES[..row].iter().any(|(known, ..)| *known == other)
                }
            };
            if !allowed {
                broken.push(format!("{name} depends on {other}"));
            }
        }
    }
    assert_none(&broken, "a crate depends on what stands above it and is listed in its row");
}

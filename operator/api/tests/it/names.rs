//! Names of generated objects.

use std::collections::{BTreeMap, BTreeSet};

use vmcp_api::conversion::ClusterDefaults;
use vmcp_api::names::{
    account_name, config_map_name, deployment_name, embedding_service_name, embedding_set_name,
    embedding_url, instance_label, owned_secret_name, peer_service_name, seal_secret_name,
    service_hosts, service_name, service_url, status_lease_name,
};

/// Names of one kind's objects: of a server, of another.
type Name = fn(&str) -> String;

/// Kinds, each with its maximum length, whether it permits dots, and its names of a server.
const KINDS: &[(&str, usize, bool, &[Name])] = &[
    ("Service", 63, false, &[service_name, peer_service_name, embedding_service_name]),
    ("Deployment", 63, false, &[deployment_name]),
    ("StatefulSet", 52, false, &[embedding_set_name]),
    ("ServiceAccount", 253, true, &[account_name]),
    ("ConfigMap", 253, true, &[config_map_name]),
    ("Secret", 253, true, &[seal_secret_name, owned_secret_name]),
    ("Lease", 253, true, &[status_lease_name]),
    ("label", 63, true, &[instance_label]),
];

/// Names of servers that could lead to one name: long, with dots, with the ends of generated names, and generated names.
fn servers() -> BTreeSet<String> {
    let mut names: BTreeSet<String> =
        ["a", "a-b", "a.b", "a--b", "a-peers", "peers", "vmcp-a", "0"]
            .map(str::to_owned)
            .into_iter()
            .collect();
    for length in [40, 46, 47, 52, 53, 57, 58, 59, 62, 63, 64, 128, 240, 247, 248, 252, 253] {
        for end in ["", "x", "-peers", ".x", "-vmcp", "-vmcp-config", "--x"] {
            let beginning: String = std::iter::repeat_n("ab.c-d", 43).collect();
            names.insert(format!("{}z{end}", &"y".repeat(length - 1 - end.len().min(length - 1))));
            names.insert(format!("{}z{end}", &beginning[..length - 1 - end.len()]));
        }
    }
    for name in names.clone() {
        for (.., of) in KINDS {
            names.extend(of.iter().map(|of| of(&name)));
        }
    }
    names.retain(|name| name.len() <= 253);
    names
}

#[test]
fn names_of_objects_never_collide() {
    let servers = servers();
    assert!(servers.len() > 1_000, "{}", servers.len());
    for (kind, .., of) in KINDS {
        let mut owners = BTreeMap::new();
        for server in &servers {
            for (index, of) in of.iter().enumerate() {
                let other = owners.insert(of(server), (server, index));
                assert_eq!(other, None, "{kind} {}", of(server));
            }
        }
    }
}

#[test]
fn names_of_objects_are_valid() {
    let servers = servers();
    for (kind, max, has_dots, of) in KINDS {
        for (server, of) in servers.iter().flat_map(|name| of.iter().map(move |of| (name, of))) {
            let name = of(server);
            assert!(name.len() <= *max, "{kind} {name}");
            assert!(*has_dots || !name.contains('.'), "{kind} {name}");
            let is_alphanumeric = |end: Option<char>| end.is_some_and(char::is_alphanumeric);
            for part in [&*name].into_iter().chain(name.split('.').filter(|_| !has_dots)) {
                let ends = [part.chars().next(), part.chars().last()];
                assert!(ends.into_iter().all(is_alphanumeric), "{kind} {name}");
            }
        }
    }
}

#[test]
fn ordinary_names_stay_readable() {
    let names = KINDS.iter().flat_map(|(.., of)| of.iter().map(|of| of("tools")));
    assert_eq!(
        names.collect::<Vec<_>>(),
        [
            "vmcp-tools",
            "vmcp-tools-peers",
            "embedding-tools",
            "tools-vmcp",
            "tools-embedding",
            "tools-vmcp",
            "tools-vmcp-config",
            "tools-vmcp-seal",
            "tools-vmcp-secrets",
            "tools-vmcp-status",
            "tools"
        ]
    );
    let dotted = service_name("a.b");
    assert!(dotted.starts_with("vmcp-a-b-") && dotted.len() == 9 + 16, "{dotted}");
    assert_eq!(instance_label("a.b"), "a.b");
}

#[test]
fn addresses_name_the_service() {
    let defaults = ClusterDefaults { domain: "example.org".to_owned(), redis: None };
    assert_eq!(
        service_hosts("vmcp-a", "tools", &defaults),
        ["vmcp-a", "vmcp-a.tools", "vmcp-a.tools.svc", "vmcp-a.tools.svc.example.org"]
    );
    let url = "http://vmcp-a.tools.svc.cluster.local:4483/mcp";
    assert_eq!(service_url("a", "tools", &ClusterDefaults::default()), url);
    let url = "http://embedding-a.tools.svc.example.org:8080";
    assert_eq!(embedding_url("a", "tools", 8080, &defaults), url);
}

//! Features of the program.

use std::collections::BTreeSet;

use super::*;

/// Crates of a client of Kubernetes.
const KUBERNETES: [&str; 7] = [
    "k8s-openapi",
    "kube",
    "kube-client",
    "vmcp-api",
    "vmcp-discover",
    "vmcp-lease",
    "vmcp-status-reporter",
];

/// Returns the crates in the program that `cargo build -p vmcp` builds with these arguments.
fn program(arguments: &[&str]) -> BTreeSet<String> {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--package", "vmcp", "--edges", "normal,build", "--prefix", "none"])
        .args(["--format", "{p}", "--offline"])
        .args(arguments)
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).unwrap();
    lines.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

fn of_kubernetes(crates: &BTreeSet<String>) -> Vec<&str> {
    KUBERNETES.into_iter().filter(|name| crates.contains(*name)).collect()
}

#[test]
fn only_feature_adds_client_of_kubernetes() {
    let none: [&str; 0] = [];
    let default = program(&[]);
    assert!(default.contains("vmcp-server"), "{default:?}");
    assert_eq!(of_kubernetes(&default), none);
    assert_eq!(of_kubernetes(&program(&["--no-default-features"])), none);
    assert_eq!(of_kubernetes(&program(&["--features", "kubernetes"])), KUBERNETES);
}

//! ServiceAccount of the pods, and what it may do.

use k8s_openapi::api::{
    core::v1::{LocalObjectReference, ServiceAccount},
    rbac::v1::{PolicyRule, Role, RoleBinding, RoleRef, Subject},
};
use vmcp_api::{
    GROUP,
    names::{account_name, status_lease_name},
};
use vmcp_config::Source;

use super::metadata::Owner;

/// Kinds that a server reads which discovers its backends.
const DISCOVERED: [&str; 5] = [
    "mcpexternalauthconfigs",
    "mcpremoteproxies",
    "mcpserverentries",
    "mcpservers",
    "mcptoolconfigs",
];

/// ServiceAccount of the pods of a server, and its permissions.
#[derive(Clone, Debug, PartialEq)]
pub struct Access {
    /// The account.
    pub service_account: ServiceAccount,
    /// The permissions.
    pub role: Role,
    /// The assignment of the permissions to the account.
    pub role_binding: RoleBinding,
}

/// Plans the account of a server, unless its spec names an existing one, whose permissions are the user's task.
pub(super) fn access(owner: Owner<'_>, source: Source) -> Option<Access> {
    if owner.existing_account().is_some() {
        return None;
    }
    let name = account_name(owner.name());
    let metadata = || owner.metadata(name.clone());
    let pull_secrets = pull_secrets(owner);
    let subject = Subject {
        kind: "ServiceAccount".to_owned(),
        name: name.clone(),
        namespace: Some(owner.namespace().to_owned()),
        ..Subject::default()
    };
    Some(Access {
        service_account: ServiceAccount {
            metadata: metadata(),
            // Absent rather than empty: OpenShift adds its own.
            image_pull_secrets: (!pull_secrets.is_empty()).then_some(pull_secrets),
            ..ServiceAccount::default()
        },
        role: Role { metadata: metadata(), rules: Some(rules(owner, source)) },
        role_binding: RoleBinding {
            metadata: metadata(),
            role_ref: RoleRef {
                api_group: "rbac.authorization.k8s.io".to_owned(),
                kind: "Role".to_owned(),
                name,
            },
            subjects: Some(vec![subject]),
        },
    })
}

/// Returns the Secrets with credentials for the image registry that the spec names. Those of a pod template and of the
/// operator's settings concern the pods alone.
fn pull_secrets(owner: Owner<'_>) -> Vec<LocalObjectReference> {
    let mut names: Vec<&str> = Vec::new();
    for reference in &owner.server.spec.image_pull_secrets {
        if !reference.name.is_empty() && !names.contains(&&*reference.name) {
            names.push(&reference.name);
        }
    }
    names.into_iter().map(|name| LocalObjectReference { name: name.to_owned() }).collect()
}

/// Returns what the pods may do: report the status of their server, and follow their server and the kinds of backends if they
/// discover these. Never anything with Secrets or ConfigMaps, whose contents are mounted.
fn rules(owner: Owner<'_>, source: Source) -> Vec<PolicyRule> {
    // Lists and watches of one name are allowed by a rule for this name.
    let own: &[&str] = match source {
        Source::Discovered => &["get", "list", "watch"],
        Source::Inline => &["get"],
    };
    let mut rules = vec![
        named(GROUP, "virtualmcpservers", owner.name(), own),
        named(GROUP, "virtualmcpservers/status", owner.name(), &["patch"]),
        named(
            "coordination.k8s.io",
            "leases",
            &status_lease_name(owner.name()),
            &["get", "update"],
        ),
    ];
    if source == Source::Discovered {
        rules.push(PolicyRule {
            api_groups: Some(strings(&[GROUP])),
            resources: Some(strings(&DISCOVERED)),
            verbs: strings(&["list", "watch"]),
            ..PolicyRule::default()
        });
    }
    rules
}

/// Returns a rule for one object.
fn named(group: &str, resource: &str, name: &str, verbs: &[&str]) -> PolicyRule {
    PolicyRule {
        api_groups: Some(strings(&[group])),
        resources: Some(strings(&[resource])),
        resource_names: Some(strings(&[name])),
        verbs: strings(verbs),
        ..PolicyRule::default()
    }
}

fn strings(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|&text| text.to_owned()).collect()
}

//! Invariants of the objects of every server.

use std::collections::BTreeSet;

use super::*;

/// Specs with optional parts.
fn specs() -> Vec<Value> {
    vec![
        json!({}),
        json!({"serviceAccount": "existing", "replicas": 2}),
        json!({"podTemplateSpec": {"metadata": {"labels": {"app.kubernetes.io/name": "x", "a": "b"}}}}),
        json!({"podTemplateSpec": {"metadata": {"labels": {"$patch": "replace", "a": "b"}}}}),
        json!({"podTemplateSpec": {"metadata": null}}),
        json!({"podTemplateSpec": {"metadata": {"labels": null, "annotations": null}}}),
        json!({"podTemplateSpec": {"$patch": "merge", "spec": {"containers": [{"name": "z", "image": "z"}]}}}),
    ]
}

fn names() -> Vec<String> {
    let mut names: Vec<String> = ["a", "a.b", "a-b", "a-peers", "a-vmcp"].map(str::to_owned).into();
    names.extend([52, 53, 58, 59, 63, 64, 253].map(|length| "n".repeat(length)));
    names
}

#[test]
fn plans_are_deterministic() {
    for spec in specs() {
        let planned =
            || plan(&server("tools", spec.clone()), &conversion(CONFIGURATION), &settings());
        match (planned(), planned()) {
            (Ok(one), Ok(other)) => assert_eq!(one.into_objects(), other.into_objects()),
            (one, other) => assert_eq!(one, other),
        }
    }
}

#[test]
fn selectors_match_pods_and_no_other_server() {
    let mut selectors = BTreeSet::new();
    for name in names() {
        let mut of_server = BTreeSet::new();
        for spec in specs() {
            let Ok(plan) = plan(&server(&name, spec), &conversion(CONFIGURATION), &settings())
            else {
                continue;
            };
            let deployment = plan.deployment.spec.unwrap();
            let selector = deployment.selector.match_labels.unwrap();
            let labels = deployment.template.metadata.unwrap().labels.unwrap();
            assert!(
                selector.iter().all(|(label, value)| labels.get(label) == Some(value)),
                "{name}"
            );
            for service in [plan.service, plan.peer_service] {
                assert_eq!(service.spec.unwrap().selector.as_ref(), Some(&selector));
            }
            of_server.insert(selector);
        }
        // A Deployment's selector cannot change.
        assert_eq!(of_server.len(), 1, "{name}");
        selectors.extend(of_server);
    }
    assert_eq!(selectors.len(), names().len());
}

#[test]
fn objects_belong_to_the_server_and_never_collide() {
    let mut seen = BTreeSet::new();
    for name in names() {
        let plan =
            plan(&server(&name, json!({})), &conversion(CONFIGURATION), &settings()).unwrap();
        for object in plan.into_objects() {
            let metadata = &object["metadata"];
            assert_eq!(metadata["namespace"], "team");
            assert_eq!(metadata["ownerReferences"][0]["name"], *name);
            assert_eq!(metadata["ownerReferences"][0]["controller"], true);
            assert_eq!(metadata["labels"]["app.kubernetes.io/managed-by"], "vmcp-operator");
            let id = format!("{} {}", object["kind"], metadata["name"]);
            assert!(seen.insert(id.clone()), "{id}");
        }
    }
}

#[test]
fn server_outside_a_cluster_owns_nothing() {
    let mut server = server("tools", json!({}));
    server.metadata.uid = None;
    let plan = plan(&server, &conversion(CONFIGURATION), &settings()).unwrap();
    assert_eq!(plan.config_map.metadata.owner_references, None);
}

#[test]
fn pods_roll_when_configuration_changes_alone() {
    let template = |yaml: &str| {
        let plan = plan(&server("tools", json!({})), &conversion(yaml), &settings()).unwrap();
        plan.deployment.spec.unwrap().template
    };
    let unchanged = template(CONFIGURATION);
    assert_eq!(template(CONFIGURATION), unchanged);
    assert_ne!(template(&format!("{CONFIGURATION}groupRef: other\n")), unchanged);
}

#[test]
fn pods_never_read_secrets_or_config_maps() {
    for source in ["inline", "discovered"] {
        let yaml = CONFIGURATION.replace("inline", source);
        let plan = plan(&server("tools", json!({})), &conversion(&yaml), &settings()).unwrap();
        let rules = plan.access.unwrap().role.rules.unwrap();
        let resources: BTreeSet<_> =
            rules.iter().flat_map(|rule| rule.resources.iter().flatten()).collect();
        assert_eq!(resources.len(), if source == "inline" { 3 } else { 8 }, "{resources:?}");
        for resource in resources {
            assert!(!["secrets", "configmaps", "*"].contains(&resource.as_str()), "{resource}");
        }
        let verbs = rules.iter().flat_map(|rule| &rule.verbs);
        assert!(verbs.clone().all(|verb| verb != "*" && verb != "delete" && verb != "create"));
    }
}

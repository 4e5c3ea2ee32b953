use std::collections::HashSet;

use super::super::Offer;
use super::*;
use crate::catalog::{Items, Offers};
use crate::settings::Override;
use crate::settings::{Conflicts, WorkloadRules};

fn offer(tools: &[&str]) -> Offer {
    let raw = |name: &&str| format!(r#"{{"name":"{name}","inputSchema":{{"type":"object"}}}}"#);
    let raw: Vec<_> = tools.iter().map(raw).collect();
    let raw: Vec<_> = raw.iter().map(String::as_str).collect();
    Offer { tools: Items::of(Kind::Tools, &raw), ..Offer::default() }
}

fn catalog(offers: &[(&str, Offer)], rules: &Rules) -> Arc<Catalog<String>> {
    catalog_among(&[], offers, rules)
}

fn catalog_among(
    backends: &[&str],
    offers: &[(&str, Offer)],
    rules: &Rules,
) -> Arc<Catalog<String>> {
    let parts: Vec<_> = offers
        .iter()
        .map(|(name, offer)| CatalogInput {
            name,
            backend: (*name).to_owned(),
            offers: ByGeneration::both(offer),
            only: None,
        })
        .collect();
    Arc::clone(combine(&parts, backends, rules).of(Generation::Stateless))
}

fn names(catalog: &Catalog<String>) -> Vec<&str> {
    catalog.list(Kind::Tools).keys().collect()
}

fn target(catalog: &Catalog<String>, name: &str) -> (String, String, bool) {
    let route = catalog.tools.get(name).unwrap();
    (route.backend.clone(), String::from_utf8(route.name.to_vec()).unwrap(), route.shown)
}

fn with(conflicts: Conflicts) -> Rules {
    Rules { conflicts, ..Rules::default() }
}

#[test]
fn prefixes_names_even_without_conflict() {
    let catalog = catalog(&[("b", offer(&["x", "y"])), ("a", offer(&["x"]))], &Rules::default());
    assert_eq!(names(&catalog), ["a_x", "b_x", "b_y"]);
    assert_eq!(target(&catalog, "b_x"), ("b".into(), "\"x\"".into(), true));
    assert_eq!(*catalog.conflicts, []);
}

#[test]
fn first_backend_wins_equal_prefixed_names() {
    let offers = [("b", offer(&["c"])), ("a", offer(&["c"]))];
    let catalog = catalog(&offers, &with(Conflicts::Prefix("all_".to_owned())));
    assert_eq!(names(&catalog), ["all_c"]);
    assert_eq!(target(&catalog, "all_c").0, "b");
    assert_eq!(catalog.conflicts[0].contenders, ["b", "a"]);
}

#[test]
fn longer_prefix_owns_matching_names() {
    let mut rules = Rules::default();
    let rename = Override { name: Some("b_own".to_owned()), ..Override::default() };
    let overrides = [("named".to_owned(), rename)].into();
    let workload = WorkloadRules { overrides, ..WorkloadRules::default() };
    rules.workloads.insert("a".to_owned(), workload);
    let prompts = Items::of(Kind::Prompts, &[r#"{"name":"b_p"}"#, r#"{"name":"bp"}"#]);
    let offers = [("a", Offer { prompts, ..offer(&["b_c", "b_", "bc", "b_x_y", "named"]) })];
    // The backends with the longer prefixes are unavailable.
    let catalog = catalog_among(&["a", "a_b", "a_b_x", "other"], &offers, &rules);
    assert_eq!(names(&catalog), ["a_b_own", "a_bc"]);
    assert_eq!(catalog.list(Kind::Prompts).keys().collect::<Vec<_>>(), ["a_bp"]);
    let told: Vec<_> = catalog.conflicts.iter().map(|it| (&*it.name, &*it.resolution)).collect();
    let tool = |backend| {
        format!(
            "left out: names that begin so are those of {backend}; \
             give it another name in aggregation.tools[].overrides"
        )
    };
    let prompt =
        "left out: names that begin so are those of a_b; give one of the two backends another name";
    let expected = [
        ("a_b_", &*tool("a_b")),
        ("a_b_c", &*tool("a_b")),
        ("a_b_x_y", &*tool("a_b_x")),
        ("a_b_p", prompt),
    ];
    assert_eq!(told, expected);
    assert_eq!(catalog.conflicts[1].contenders, ["a", "a_b"]);
    // Without prefixes, no backend owns the beginning of a name.
    let bare = catalog_among(&["a", "a_b"], &offers, &with(Conflicts::Priority(Vec::new())));
    assert_eq!(*bare.conflicts, []);
}

#[test]
fn equal_prefixes_share_names() {
    let rules = with(Conflicts::Prefix("x_".to_owned()));
    let offers = [("a", offer(&["t"])), ("b", offer(&["t"]))];
    assert_eq!(target(&catalog(&offers, &rules), "x_t").0, "a");
}

#[test]
fn priority_order_precedes_alphabetical_order() {
    let rules = with(Conflicts::Priority(vec!["z".to_owned()]));
    let offers = [("b", offer(&["x", "w"])), ("a", offer(&["x", "w"])), ("z", offer(&["x"]))];
    let catalog = catalog(&offers, &rules);
    assert_eq!(names(&catalog), ["w", "x"]);
    assert_eq!(target(&catalog, "x").0, "z");
    assert_eq!(target(&catalog, "w").0, "a");
    let resolution: Vec<_> = catalog.conflicts.iter().map(|one| one.resolution.as_str()).collect();
    assert_eq!(
        resolution,
        [
            "a has it: priorityOrder has none of them, and it comes first by name",
            "z has it: it comes first in priorityOrder"
        ]
    );
}

#[test]
fn reports_overrides_that_collide_within_one_backend() {
    let mut rules = Rules::default();
    let rename = Override { name: Some("y".to_owned()), ..Override::default() };
    let workload =
        WorkloadRules { overrides: [("x".to_owned(), rename)].into(), ..WorkloadRules::default() };
    rules.workloads.insert("a".to_owned(), workload);
    let catalog = catalog(&[("a", offer(&["x", "y"]))], &rules);
    assert_eq!(names(&catalog), ["a_y"]);
    assert_eq!(target(&catalog, "a_y").1, "\"x\"");
    let [conflict] = &catalog.conflicts[..] else { panic!("{:?}", catalog.conflicts) };
    assert_eq!(conflict.resolution, "a has it with what it calls x itself: it lists that first");
}

#[test]
fn manual_mode_omits_and_reports_unresolved_tools() {
    let mut rules = with(Conflicts::Manual);
    let offers = [("a", offer(&["x", "y"])), ("b", offer(&["x", "y"]))];
    let rename = Override { name: Some("bx".to_owned()), ..Override::default() };
    let workload =
        WorkloadRules { overrides: [("x".to_owned(), rename)].into(), ..WorkloadRules::default() };
    rules.workloads.insert("b".to_owned(), workload);
    let catalog = catalog(&offers, &rules);
    assert_eq!(names(&catalog), ["bx", "x"]);
    assert_eq!(target(&catalog, "bx"), ("b".into(), "\"x\"".into(), true));
    assert_eq!(catalog.conflicts.len(), 1);
    assert_eq!(catalog.conflicts[0].name, "y");
}

#[test]
fn manual_mode_prefixes_conflicting_prompts_in_order() {
    let prompts = |names: &[&str]| {
        let raw: Vec<_> = names.iter().map(|name| format!(r#"{{"name":"{name}"}}"#)).collect();
        let raw: Vec<_> = raw.iter().map(String::as_str).collect();
        Offer { prompts: Items::of(Kind::Prompts, &raw), ..Offer::default() }
    };
    let offers = [("m", prompts(&["z", "a"])), ("b", prompts(&["z", "b_z", "n"]))];
    let catalog = catalog(&offers, &with(Conflicts::Manual));
    assert_eq!(catalog.list(Kind::Prompts).keys().collect::<Vec<_>>(), ["a", "b_z", "m_z", "n"]);
    assert_eq!(catalog.prompts.get("b_z").unwrap().name, "\"b_z\"");
    assert_eq!(catalog.prompts.get("m_z").unwrap().backend, "m");
    // The prefixed name collides with an existing one.
    let told: Vec<_> = catalog.conflicts.iter().map(|one| (&*one.name, &*one.resolution)).collect();
    let left_out = "left out: with its prefix it is called like another";
    assert_eq!(told, [("z", "each got its backend's name as a prefix"), ("b_z", left_out)]);
}

#[test]
fn filter_matches_overridden_names_and_keeps_routes() {
    let mut rules = Rules::default();
    let rename = Override { name: Some("new".to_owned()), ..Override::default() };
    let workload = WorkloadRules {
        filter: Some(HashSet::from(["new".to_owned()])),
        overrides: [("old".to_owned(), rename)].into(),
        ..WorkloadRules::default()
    };
    rules.workloads.insert("a".to_owned(), workload);
    let catalog = catalog(&[("a", offer(&["old", "other"]))], &rules);
    assert_eq!(names(&catalog), ["a_new"]);
    assert_eq!(target(&catalog, "a_other"), ("a".into(), "\"other\"".into(), false));
}

#[test]
fn hidden_tool_never_claims_visible_name() {
    let mut rules = with(Conflicts::Priority(vec!["a".to_owned()]));
    let hidden = WorkloadRules { exclude_all: true, ..WorkloadRules::default() };
    rules.workloads.insert("a".to_owned(), hidden);
    let catalog = catalog(&[("a", offer(&["x"])), ("b", offer(&["x"]))], &rules);
    assert_eq!(target(&catalog, "x"), ("b".into(), "\"x\"".into(), true));
    assert_eq!(*catalog.conflicts, []);
}

#[test]
fn all_tools_can_be_hidden_and_stay_routable() {
    let rules = Rules { exclude_all_tools: true, ..Rules::default() };
    let catalog = catalog(&[("a", offer(&["x"]))], &rules);
    assert!(names(&catalog).is_empty());
    assert!(!catalog.tools.get("a_x").unwrap().shown);
}

#[test]
fn routes_shared_uri_to_first_backend() {
    let resources = Items::of(Kind::Resources, &[r#"{"uri":"file:///x"}"#]);
    let offer = Offer { resources, ..Offer::default() };
    let catalog = catalog(&[("b", offer.clone()), ("a", offer)], &Rules::default());
    assert_eq!(catalog.resource("file:///x").as_deref(), Some("b"));
    assert_eq!(catalog.list(Kind::Resources).keys().count(), 1);
    assert_eq!(catalog.conflicts[0].contenders, ["b", "a"]);
}

#[test]
fn omits_and_reports_tool_with_invalid_header_annotations() {
    let raw =
        r#"{"name":"x","inputSchema":{"properties":{"a":{"type":"array","x-mcp-header":"A"}}}}"#;
    let offer = Offer { tools: Items::of(Kind::Tools, &[raw]), ..Offer::default() };
    let catalog = catalog(&[("a", offer)], &Rules::default());
    assert!(names(&catalog).is_empty());
    assert_eq!(catalog.conflicts[0].name, "a_x");
}

#[test]
fn groups_instructions_by_backend_name() {
    let said = |text: &str| Offer { instructions: Some(text.to_owned()), ..Offer::default() };
    let catalog = catalog(&[("b", said("Use it.")), ("a", said(" "))], &Rules::default());
    assert_eq!(catalog.instructions.as_deref(), Some("## b\n\nUse it."));
}

/// Builds the catalogs of backends that offer these tools to clients of each generation.
fn catalogs(offers: &[(&str, [&[&str]; 2])], rules: &Rules) -> Catalogs<String> {
    let all: Vec<_> = offers
        .iter()
        .map(|(name, [stateful, stateless])| {
            let offers = Offers::same(offer(stateful));
            (*name, offers.with(Generation::Stateless, offer(stateless)))
        })
        .collect();
    let none = Offer::default();
    let parts: Vec<_> = all
        .iter()
        .map(|(name, offers)| CatalogInput {
            name,
            backend: (*name).to_owned(),
            offers: offers.known(&none).unwrap(),
            only: None,
        })
        .collect();
    combine(&parts, &[], rules)
}

fn names_by_generation(catalogs: &Catalogs<String>) -> [Vec<&str>; 2] {
    [Generation::Stateful, Generation::Stateless].map(|generation| names(catalogs.of(generation)))
}

#[test]
fn lists_items_per_generation() {
    let offers = [("a", [&["x", "y"][..], &["y", "z"]]), ("b", [&["x"], &["x"]])];
    let catalogs = catalogs(&offers, &Rules::default());
    assert_eq!(names_by_generation(&catalogs), [["a_x", "a_y", "b_x"], ["a_y", "a_z", "b_x"]]);
    let [stateful, stateless] =
        [Generation::Stateful, Generation::Stateless].map(|generation| catalogs.of(generation));
    assert!(stateful.tools.get("a_z").is_none() && stateless.tools.get("a_x").is_none());
    assert!(Arc::ptr_eq(&stateful.prompts, &stateless.prompts), "equal kinds are kept once");
    assert!(Arc::ptr_eq(&stateful.lists[1], &stateless.lists[1]));
}

#[test]
fn generations_with_equal_items_share_catalog() {
    let same = catalogs(&[("a", [&["x"], &["x"]])], &Rules::default());
    assert!(Arc::ptr_eq(same.of(Generation::Stateful), same.of(Generation::Stateless)));
    let more = catalogs(&[("a", [&["x"], &["x", "y"]])], &Rules::default());
    let changes = more.changes(&same);
    assert_eq!((&changes.stateful[..], &changes.stateless[..]), (&[][..], &[Kind::Tools][..]));
}

#[test]
fn assigns_name_to_one_backend_across_generations() {
    let rules = with(Conflicts::Priority(vec!["a".to_owned()]));
    let offers = [("a", [&["t"][..], &[]]), ("b", [&["t", "u"], &["t", "u"]])];
    let catalogs = catalogs(&offers, &rules);
    assert_eq!(names_by_generation(&catalogs), [vec!["t", "u"], vec!["u"]]);
    assert_eq!(target(catalogs.of(Generation::Stateful), "t").0, "a");
    assert!(catalogs.of(Generation::Stateless).tools.get("t").is_none());
    assert_eq!(catalogs.conflicts()[0].contenders, ["a", "b"]);
}

#[test]
fn assigns_uri_to_one_backend_across_generations() {
    let item = |uri: &str| format!(r#"{{"uri":"{uri}","name":"n"}}"#);
    let resources = |uris: &[&str]| {
        let items: Vec<_> = uris.iter().map(|uri| item(uri)).collect();
        let items: Vec<_> = items.iter().map(String::as_str).collect();
        let templates = [r#"{"uriTemplate":"x://{n}","name":"n"}"#];
        Offer {
            resources: Items::of(Kind::Resources, &items),
            templates: Items::of(Kind::Templates, &templates),
            ..Offer::default()
        }
    };
    let first = Offers::same(resources(&["x://1"])).with(Generation::Stateless, Offer::default());
    let second = Offers::same(resources(&["x://1", "x://2"]));
    let none = Offer::default();
    let parts = [("a", &first), ("b", &second)].map(|(name, offers)| CatalogInput {
        name,
        backend: name.to_owned(),
        offers: offers.known(&none).unwrap(),
        only: None,
    });
    let catalogs = combine(&parts, &[], &Rules::default());
    let [stateful, stateless] =
        [Generation::Stateful, Generation::Stateless].map(|generation| catalogs.of(generation));
    let owner = |catalog: &Catalog<String>, uri| catalog.resource(uri);
    assert_eq!(owner(stateful, "x://1").as_deref(), Some("a"));
    assert_eq!(owner(stateless, "x://1"), None, "its owner lacks it");
    assert_eq!(owner(stateless, "x://2").as_deref(), Some("b"));
    assert_eq!(owner(stateful, "x://3").as_deref(), Some("a"));
    assert_eq!(stateless.list(Kind::Resources).keys().collect::<Vec<_>>(), ["x://2"]);
    assert_eq!(stateless.list(Kind::Templates).len(), 0);
}

use vmcp_core::Generation;

use super::*;
use crate::catalog::{ByGeneration, Catalog, Items, Offer, combine};
use crate::settings::{Conflicts, WorkloadRules};

fn item(raw: &str) -> Option<ToolUi> {
    let items = Items::of(Kind::Tools, &[raw]);
    ToolUi::of(items.iter().next().unwrap())
}

fn tool(name: &str, meta: &str) -> String {
    format!(r#"{{"name":"{name}","inputSchema":{{"type":"object"}},"_meta":{{{meta}}}}}"#)
}

fn shows(name: &str, uri: &str) -> String {
    tool(name, &format!(r#""a":1,"ui":{{"resourceUri":"{uri}","visibility":["model","app"]}}"#))
}

fn offer(tools: &[String], resources: &[&str]) -> Offer {
    let tools: Vec<_> = tools.iter().map(String::as_str).collect();
    let raw = |uri: &&str| format!(r#"{{"uri":"{uri}","name":"n"}}"#);
    let resources: Vec<_> = resources.iter().map(raw).collect();
    let resources: Vec<_> = resources.iter().map(String::as_str).collect();
    Offer {
        tools: Items::of(Kind::Tools, &tools),
        resources: Items::of(Kind::Resources, &resources),
        ..Offer::default()
    }
}

fn catalog(offers: &[(&str, Offer)], rules: &Rules) -> std::sync::Arc<Catalog<String>> {
    let part = |(name, offer): &'_ (&'static str, &'static Offer)| CatalogInput {
        name,
        backend: (*name).to_owned(),
        offers: ByGeneration::both(*offer),
        only: None,
    };
    // Leaked: the parts of a test live as long as it does.
    let offers = offers.iter().map(|(name, offer)| {
        let name: &'static str = Box::leak(Box::<str>::from(*name));
        (name, &*Box::leak(Box::new(offer.clone())))
    });
    let parts: Vec<_> = offers.map(|offer| part(&offer)).collect();
    std::sync::Arc::clone(combine(&parts, &[], rules).of(Generation::Stateless))
}

/// Returns the backend that serves a URI, and the backend's own URI if it differs.
fn leads(catalog: &Catalog<String>, uri: &str) -> (Option<String>, Option<String>) {
    (catalog.resource(uri), catalog.own_uri(uri).map(str::to_owned))
}

fn page(catalog: &Catalog<String>, kind: Kind) -> serde_json::Value {
    let page = catalog.list(kind).page(kind, None).unwrap();
    serde_json::from_slice(&[b"[", &page.items[..], b"]"].concat()).unwrap()
}

#[test]
fn reads_interface_metadata_of_tools() {
    let ui = |resource: Option<&str>, for_apps| {
        Some(ToolUi { resource: resource.map(str::to_owned), for_apps })
    };
    for (meta, expected) in [
        (r#""ui":{"resourceUri":"ui://a/b"}"#, ui(Some("ui://a/b"), true)),
        (r#""\u0075i":{"resourceUri":"ui:\/\/a"}"#, ui(Some("ui://a"), true)),
        (r#""ui/resourceUri":"ui://old""#, ui(Some("ui://old"), true)),
        (
            r#""ui/resourceUri":"ui://old","ui":{"resourceUri":"ui://new","visibility":["app"]}"#,
            ui(Some("ui://new"), true),
        ),
        (r#""ui":{"visibility":["model"]}"#, ui(None, false)),
        (r#""ui":{"visibility":"app"}"#, ui(None, false)),
        (r#""ui":{"resourceUri":"https://a"}"#, ui(None, true)),
        (r#""ui":{"resourceUri":7}"#, ui(None, true)),
        (r#""ui":"ui://a""#, None),
        (r#""uix":{}"#, None),
    ] {
        assert_eq!(item(&tool("t", meta)), expected, "{meta}");
    }
    assert_eq!(item(&shows("t", &format!("ui://{}", "x".repeat(MAX_URI)))), ui(None, true));
}

#[test]
fn assigns_unique_uris_to_colliding_interfaces() {
    let own = || {
        let old = tool("old", r#""ui/resourceUri":"ui://app/old.html""#);
        let mut own = offer(&[shows("show", "ui://app/main.html"), old], &["ui://app/main.html"]);
        own.templates =
            Items::of(Kind::Templates, &[r#"{"uriTemplate":"ui://{+all}","name":"n"}"#]);
        own
    };
    let greedy = offer(&[], &["ui://app/main.html", "ui://vmcp/be%20b/app/main.html"]);
    let catalog = catalog(&[("greedy", greedy), ("a", own()), ("be b", own())], &Rules::default());
    assert_eq!(leads(&catalog, "ui://app/main.html"), (Some("a".to_owned()), None));
    assert_eq!(leads(&catalog, "ui://app/old.html"), (Some("a".to_owned()), None));
    for page in ["main", "old"] {
        let given = format!("ui://vmcp/be%20b/app/{page}.html");
        let expected = (Some("be b".to_owned()), Some(format!("ui://app/{page}.html")));
        assert_eq!(leads(&catalog, &given), expected);
    }
    let tools = page(&catalog, Kind::Tools);
    let meta = |index: usize| &tools[index]["_meta"];
    assert_eq!(meta(1)["ui"]["resourceUri"], "ui://app/main.html");
    assert_eq!(meta(3)["ui"]["resourceUri"], "ui://vmcp/be%20b/app/main.html");
    assert_eq!(meta(2)["ui/resourceUri"], "ui://vmcp/be%20b/app/old.html");
    assert_eq!((&meta(3)["a"], &meta(3)["ui"]["visibility"][1]), (&1.into(), &"app".into()));
    let resources = page(&catalog, Kind::Resources);
    let uris: Vec<_> = resources.as_array().unwrap().iter().map(|it| &it["uri"]).collect();
    assert_eq!(uris, ["ui://app/main.html", "ui://vmcp/be%20b/app/main.html"]);
    let told: Vec<_> = catalog.conflicts.iter().map(|it| (&*it.name, &*it.resolution)).collect();
    let resolution = "a has it; others are offered as ui://vmcp/<backend>/app/main.html";
    assert!(told.contains(&("ui://app/main.html", resolution)), "{told:?}");
    let resolution = "a has it: its tools show it";
    assert!(told.contains(&("ui://app/main.html", resolution)), "{told:?}");
}

#[test]
fn keeps_interface_uris_of_single_backend() {
    let own = shows("show", "ui://app/main.html");
    let other = offer(&[shows("show", "ui://other/main.html")], &["ui://other/main.html"]);
    let offers = [("a", offer(std::slice::from_ref(&own), &["ui://app/main.html"])), ("b", other)];
    let catalog = catalog(&offers, &Rules::default());
    assert_eq!(catalog.conflicts.len(), 0);
    let expected = own.replace("\"show\"", "\"a_show\"");
    let page = catalog.list(Kind::Tools).page(Kind::Tools, None).unwrap();
    assert!(page.items.starts_with(expected.as_bytes()), "{page:?}");
    // No backend lists the resource, but it is still routable.
    let hidden = offer(&[shows("show", "ui://app/hidden.html")], &[]);
    let catalog = self::catalog(&[("a", hidden)], &Rules::default());
    assert_eq!(leads(&catalog, "ui://app/hidden.html"), (Some("a".to_owned()), None));
}

#[test]
fn backends_cannot_claim_assigned_interface_uris() {
    let uri = "ui://vmcp/b/app";
    let forged = offer(&[shows("show", uri)], &[uri]);
    let offers = [
        ("a", forged),
        ("c", offer(&[shows("show", "ui://app")], &["ui://app"])),
        ("b", offer(&[shows("show", "ui://app")], &[])),
    ];
    let catalog = catalog(&offers, &Rules::default());
    assert_eq!(leads(&catalog, uri), (Some("b".to_owned()), Some("ui://app".to_owned())));
    let own = (Some("a".to_owned()), Some(uri.to_owned()));
    assert_eq!(leads(&catalog, "ui://vmcp/a/vmcp/b/app"), own);
}

#[test]
fn hidden_tools_have_no_interfaces() {
    let mut rules = Rules::default();
    let hidden = WorkloadRules { exclude_all: true, ..WorkloadRules::default() };
    rules.workloads.insert("a".to_owned(), hidden);
    let own = || offer(&[shows("show", "ui://app")], &["ui://app"]);
    let catalog = catalog(&[("a", own()), ("b", own())], &rules);
    assert_eq!(leads(&catalog, "ui://app"), (Some("b".to_owned()), None));
    assert_eq!(catalog.originals.len(), 1, "{:?}", catalog.originals);
}

#[test]
fn indexes_original_names_that_apps_may_call() {
    let tools = [
        shows("show", "ui://app"),
        tool("refresh", r#""ui":{"visibility":["app"]}"#),
        tool("think", r#""ui":{"visibility":["model"]}"#),
        tool("plain", ""),
    ];
    let plain = offer(&[tool("plain", ""), tool("other", "")], &[]);
    let offers = [("a", offer(&tools, &[])), ("b", offer(&tools, &[])), ("c", plain)];
    let all = catalog(&offers, &Rules::default());
    let names = |name: &str| all.originals.get(name).cloned().unwrap_or_default();
    for name in ["show", "refresh", "plain"] {
        assert_eq!(names(name), [format!("a_{name}").into(), format!("b_{name}").into()]);
    }
    assert_eq!((names("think").len(), names("other").len()), (0, 0));
    // Tools that keep their names need no entry.
    let rules = Rules { conflicts: Conflicts::Priority(Vec::new()), ..Rules::default() };
    assert_eq!(catalog(&offers, &rules).originals.len(), 0);
}

//! Rules between the sections of a document. They check the tree, so they also run if a section has errors.

use std::collections::BTreeSet;

use crate::{
    context::Context,
    string_types::{Issuer, ProviderName},
    suggest::nearest,
    template::Template,
    tree::{Node, NodeKind, shorten},
};

/// Rejects backends in a document with discovered credentials: these backends are discovered, too.
pub(super) fn check_discovered_backends(node: &Node, cx: &mut Context) {
    let discovered =
        get_path(node, &["outgoingAuth", "source"]).and_then(Node::text) == Some("discovered");
    let some = matches!(node.get("backends"), Some(Node { kind: NodeKind::List(items), .. }) if !items.is_empty());
    if discovered && some {
        let found = "backends with outgoingAuth.source: discovered";
        cx.reject_key(node, "backends", found, "backends only with outgoingAuth.source: inline");
    }
}

/// Rejects placeholders for variables that the document does not list, so that a copied URL or header cannot read other
/// secrets of the server.
pub(super) fn check_listed_variables(node: &Node, cx: &mut Context) {
    let mut listed = BTreeSet::new();
    if let Some(Node { kind: NodeKind::List(names), .. }) = node.get("variables") {
        listed.extend(names.iter().filter_map(Node::text));
    }
    let Some(Node { kind: NodeKind::List(backends), .. }) = node.get("backends") else { return };
    cx.at_key("backends", |cx| {
        for (index, backend) in backends.iter().enumerate() {
            cx.at_index(index, |cx| check_backend(backend, &listed, cx));
        }
    });
}

fn check_backend(backend: &Node, listed: &BTreeSet<&str>, cx: &mut Context) {
    if let Some(url) = backend.get("url") {
        cx.at_key("url", |cx| check_variables(url, listed, cx));
    }
    let Some(Node { kind: NodeKind::Map(headers), .. }) = backend.get("headers") else { return };
    cx.at_key("headers", |cx| {
        for header in headers {
            cx.at_key(&header.key, |cx| check_variables(&header.value, listed, cx));
        }
    });
}

fn check_variables(node: &Node, listed: &BTreeSet<&str>, cx: &mut Context) {
    let Some(template) = node.text().and_then(|text| Template::new(text).ok()) else { return };
    for name in template.variables().filter(|name| !listed.contains(name.as_str())) {
        let allowed = format!("a listed variable; add it with variables: [{name}]");
        cx.reject_as(node, format!("${{{name}}}"), allowed, None);
    }
}

/// Checks that clients are authenticated by the embedded authorization server.
pub(super) fn check_issuer(node: &Node, cx: &mut Context) {
    let own = get_path(node, &["authServer", "issuer"]).and_then(Node::text);
    // The reader of the value already rejects an invalid issuer.
    let Some(own) = own.filter(|own| Issuer::new(own).is_some()) else { return };
    let Some(incoming) = node.get("incomingAuth") else { return };
    if let Some(other) = incoming.get("type").and_then(Node::text).filter(has_no_tokens) {
        let found = format!("type: {} with authServer", shorten(other));
        cx.at_key("incomingAuth", |cx| {
            cx.reject_key(incoming, "type", found, "oidc, with the issuer of authServer");
        });
        return;
    }
    let Some(oidc) = incoming.get("oidc") else { return };
    if let Some(other) = oidc.get("issuer").and_then(Node::text).filter(|issuer| *issuer != own) {
        let found = format!("\"{}\"", shorten(other));
        cx.at_key("incomingAuth", |cx| {
            cx.at_key("oidc", |cx| {
                cx.reject_key(
                    oidc,
                    "issuer",
                    found,
                    format!("authServer.issuer, \"{}\"", shorten(own)),
                );
            });
        });
    }
}

fn has_no_tokens(kind: &&str) -> bool {
    matches!(*kind, "local" | "anonymous")
}

/// Checks that providers are upstreams of the embedded authorization server.
pub(super) fn check_providers(node: &Node, cx: &mut Context) {
    let mut names = BTreeSet::new();
    if let Some(Node { kind: NodeKind::List(upstreams), .. }) =
        get_path(node, &["authServer", "upstreamProviders"])
    {
        names.extend(
            upstreams.iter().filter_map(|upstream| upstream.get("name")).filter_map(Node::text),
        );
    }
    check_provider(node, &["incomingAuth", "authz", "primaryUpstreamProvider"], &names, cx);
    check_strategy(node, &["outgoingAuth", "default"], &names, cx);
    if let Some(Node { kind: NodeKind::Map(entries), .. }) =
        get_path(node, &["outgoingAuth", "backends"])
    {
        for entry in entries {
            check_strategy(node, &["outgoingAuth", "backends", &entry.key], &names, cx);
        }
    }
}

fn check_strategy(node: &Node, path: &[&str], names: &BTreeSet<&str>, cx: &mut Context) {
    const FIELDS: [[&str; 2]; 3] = [
        ["upstreamInject", "providerName"],
        ["tokenExchange", "subjectProviderName"],
        ["awsSts", "subjectProviderName"],
    ];
    for field in FIELDS {
        check_provider(node, &[path, field.as_slice()].concat(), names, cx);
    }
}

fn check_provider(node: &Node, path: &[&str], names: &BTreeSet<&str>, cx: &mut Context) {
    let Some(place) = get_path(node, path) else { return };
    let is_name = |name: &&str| ProviderName::new(name).is_some();
    let name = place.text().filter(is_name).filter(|name| !names.contains(name));
    let Some(name) = name else { return };
    let suggestion = if cx.is_full() {
        None
    } else {
        nearest(name, names.iter().copied()).map(ToOwned::to_owned)
    };
    let allowed = match names.iter().copied().collect::<Vec<_>>().as_slice() {
        [] => "an upstream provider of authServer, which has none".to_owned(),
        names => {
            format!(
                "an upstream provider of authServer: {}",
                crate::config_value::join_list(names, "or")
            )
        }
    };
    cx.at_keys(path, |cx| cx.reject_as(place, place.describe(), allowed, suggestion));
}

fn get_path<'a>(node: &'a Node, path: &[&str]) -> Option<&'a Node> {
    path.iter().try_fold(node, |node, key| node.get(key))
}

//! Modules use each other in one direction.

use std::collections::{BTreeMap, BTreeSet};

use super::*;

/// Returns the paths that a file's code names, beginning with `crate`, `self` or `super`, with the groups of `use` resolved.
fn named_paths(code: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for root in ["crate::", "super::", "self::"] {
        for (at, _) in code.match_indices(root) {
            let is_inner =
                code[..at].ends_with(|it: char| it.is_alphanumeric() || it == '_' || it == ':');
            if !is_inner {
                path_tree(&code[at..], &mut Vec::new(), &mut found);
            }
        }
    }
    found
}

/// Reads one path or group of paths, and returns the rest.
fn path_tree<'a>(text: &'a str, prefix: &mut Vec<String>, found: &mut Vec<Vec<String>>) -> &'a str {
    let text = text.trim_start();
    if let Some(mut rest) = text.strip_prefix('{') {
        loop {
            rest = path_tree(rest, &mut prefix.clone(), found).trim_start();
            match rest.strip_prefix(',') {
                Some(more) if more.trim_start().starts_with('}') => return &more.trim_start()[1..],
                Some(more) => rest = more,
                None => return rest.strip_prefix('}').unwrap_or(""),
            }
        }
    }
    let length = text.find(|it: char| !it.is_alphanumeric() && it != '_').unwrap_or(text.len());
    let (name, rest) = text.split_at(length);
    prefix.push(name.to_owned());
    if let Some(rest) = rest.strip_prefix("::") {
        return path_tree(rest, prefix, found);
    }
    found.push(prefix.clone());
    // `as NAME`
    rest.find([',', '}', ';']).map_or("", |end| &rest[end..])
}

/// Returns the module path of a source file in its crate.
fn module_of(path: &Path) -> Option<Vec<String>> {
    let mut parts: Vec<_> = path.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    let last = parts.pop()?.strip_suffix(".rs")?.to_owned();
    if !parts.is_empty() || (last != "lib" && last != "main") {
        parts.push(last);
    }
    Some(parts)
}

/// Returns the uses between sibling modules of a crate: parent module, one child, and another child that it names.
fn sibling_uses(
    files: &BTreeMap<Vec<String>, String>,
) -> BTreeMap<Vec<String>, BTreeSet<(String, String)>> {
    let mut uses = BTreeMap::<_, BTreeSet<_>>::new();
    for (module, text) in files {
        let code: Vec<_> = without_tests(text)
            .into_iter()
            .map(|line| line.split("//").next().unwrap_or_default())
            .collect();
        for path in named_paths(&code.join("\n")) {
            let mut absolute = match path[0].as_str() {
                "crate" => Vec::new(),
                _ => module.clone(),
            };
            for name in path {
                match name.as_str() {
                    "crate" | "self" => {}
                    "super" => _ = absolute.pop(),
                    _ => absolute.push(name),
                }
            }
            while !files.contains_key(&absolute) && absolute.pop().is_some() {}
            let common =
                module.iter().zip(&absolute).take_while(|(one, other)| one == other).count();
            if let (Some(one), Some(other)) = (module.get(common), absolute.get(common)) {
                uses.entry(module[..common].to_vec())
                    .or_default()
                    .insert((one.clone(), other.clone()));
            }
        }
    }
    uses
}

/// Takes a layer and its service, which name each other, as one module.
fn merge_layer_and_service(uses: &mut BTreeSet<(String, String)>) {
    let pair = ("layer".to_owned(), "service".to_owned());
    let reverse = ("service".to_owned(), "layer".to_owned());
    if !uses.contains(&pair) || !uses.contains(&reverse) {
        return;
    }
    let merged = |name: String| if name == pair.1 { pair.0.clone() } else { name };
    *uses = std::mem::take(uses)
        .into_iter()
        .map(|(user, used)| (merged(user), merged(used)))
        .filter(|(user, used)| user != used)
        .collect();
}

#[test]
fn sibling_modules_have_no_circle() {
    let mut crates = BTreeMap::<PathBuf, BTreeMap<Vec<String>, String>>::new();
    for (path, text) in rust_files().filter(|(path, _)| !is_test(path)) {
        let parts: Vec<_> = path.iter().collect();
        let Some(source) = parts.iter().position(|part| *part == "src") else { continue };
        let module = module_of(&parts[source + 1..].iter().collect::<PathBuf>());
        let folder = parts[..source].iter().collect();
        crates.entry(folder).or_default().extend(module.map(|module| (module, text)));
    }
    let mut circles = Vec::new();
    for (folder, files) in &crates {
        for (parent, mut uses) in sibling_uses(files) {
            merge_layer_and_service(&mut uses);
            // A module that uses no sibling, or that no sibling uses, is outside of circles.
            loop {
                let before = uses.len();
                let (users, used): (BTreeSet<_>, BTreeSet<_>) = uses.iter().cloned().unzip();
                uses.retain(|(user, other)| used.contains(user) && users.contains(other));
                if uses.len() == before {
                    break;
                }
            }
            if !uses.is_empty() {
                let parent =
                    parent.iter().fold("crate".to_owned(), |path, name| path + "::" + name);
                circles.push(format!("{} {parent}: {uses:?}", folder.display()));
            }
        }
    }
    assert_none(&circles, "modules use each other in one direction");
}

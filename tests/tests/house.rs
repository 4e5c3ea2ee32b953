//! Repository rules that neither the compiler nor Clippy checks: dependencies, file lengths, contents of crates. Each
//! message names the file that breaks the rule.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Maximum lines of a file without tests.
const LINES: usize = 400;

/// Maximum lines of a crate in `layers/` without tests.
const LAYER: usize = 3_000;

/// Exceptions for crates in `layers/`, each with its reason.
const LONGER: &[(&str, &str)] = &[
    ("core", "the ground: the words that all layers share"),
    ("wire", "the ground: one reader of messages, in whose parts nobody is interested alone"),
];

/// Dependency table of the workspace's crates, in dependency order. Every crate has a row.
const CRATES: &[(&str, &str, Sees)] = &[
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
    ("vmcp-demo", "services/demo", Sees::Only(&["vmcp-wire", "vmcp-core"])),
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
enum Sees {
    Only(&'static [&'static str]),
    AllAbove,
}

/// Forbidden everywhere, tests included: skipped tests and debug output. Split in two, so that this file does not match.
const NOWHERE: [(&str, &str); 2] = [("#[ig", "nore"), ("db", "g!(")];

/// Allowed in tests only.
const IN_TESTS: &[&str] = &[".unwrap()", "panic!(", "todo!(", "unimplemented!(", "unreachable!("];

/// Private directories besides that of this checkout: a path into one of these is meaningless on another machine.
const PRIVATE: &[&str] = &["root", "work", "tmp"];

/// Generated directories, and that of the version control system.
const SKIPPED: &[&str] =
    &[".git", "target", "node_modules", ".venv", "__pycache__", "corpus", "artifacts"];

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// Returns the packages of the workspace.
fn packages() -> Vec<Value> {
    metadata(&["--no-deps"])
}

/// Returns the packages that `cargo metadata` lists with these arguments.
fn metadata(arguments: &[&str]) -> Vec<Value> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--offline"])
        .args(arguments)
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    metadata["packages"].as_array().unwrap().clone()
}

/// Collects all hand-written files below a directory, with paths relative to the workspace root.
fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name();
        if SKIPPED.iter().any(|skipped| name == *skipped) {
            continue;
        }
        if entry.file_type().unwrap().is_dir() {
            files(&entry.path(), found);
        } else {
            found.push(entry.path().strip_prefix(root()).unwrap().to_owned());
        }
    }
}

/// Returns the text files. Skips binary files and files that a build removes meanwhile.
fn texts() -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    files(root(), &mut found);
    let read = |path: PathBuf| Some((fs::read_to_string(root().join(&path)).ok()?, path));
    found.into_iter().filter_map(read).map(|(text, path)| (path, text)).collect()
}

fn rust_files() -> impl Iterator<Item = (PathBuf, String)> {
    texts().into_iter().filter(|(path, _)| path.extension().is_some_and(|ending| ending == "rs"))
}

/// Returns `true` if a whole file is test code: an integration test, a `tests` module, a shared `testing` module, a fuzz
/// target.
fn is_test(path: &Path) -> bool {
    let inside = path.strip_prefix("tests/bench").or(path.strip_prefix("tests")).unwrap_or(path);
    let names = ["tests", "tests.rs", "testing.rs", "fuzz"];
    inside.iter().any(|part| names.iter().any(|name| part == *name))
}

/// Returns a file's lines up to its test module.
fn without_tests(text: &str) -> Vec<&str> {
    let lines: Vec<_> = text.lines().collect();
    let begins_tests = |pair: &[&str]| {
        pair[0].trim() == "#[cfg(test)]" && pair[1].starts_with("mod ") && pair[1].ends_with('{')
    };
    let end = lines.windows(2).position(begins_tests).unwrap_or(lines.len());
    lines[..end].to_vec()
}

fn assert_none(broken: &[String], rule: &str) {
    assert!(broken.is_empty(), "{rule}:\n{}", broken.join("\n"));
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
    assert_eq!(found, rows, "the table in tests/tests/house.rs says what each crate may depend on");
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

#[test]
fn crates_have_readme_description_and_workspace_lints() {
    let is_offered = |place: &str| place.starts_with("layers/") || place.starts_with("services/");
    let mut broken = Vec::new();
    for package in packages() {
        let name = package["name"].as_str().unwrap();
        let manifest = PathBuf::from(package["manifest_path"].as_str().unwrap());
        let readme = manifest.with_file_name("README.md");
        if fs::read_to_string(readme).unwrap_or_default().trim().is_empty() {
            broken.push(format!("{name}: README.md is missing or empty"));
        }
        if package["description"].as_str().unwrap_or_default().is_empty() {
            broken.push(format!("{name}: no description"));
        }
        let is_published =
            CRATES.iter().any(|(known, place, _)| *known == name && is_offered(place));
        for field in ["keywords", "categories"] {
            if is_published && package[field].as_array().is_none_or(Vec::is_empty) {
                broken.push(format!("{name}: no {field}"));
            }
        }
        let is_layer =
            CRATES.iter().any(|(known, place, _)| *known == name && place.starts_with("layers/"));
        // An empty list of registries is `publish = false`.
        if is_layer != package["publish"].is_null() {
            broken
                .push(format!("{name}: the layers and their base are published, and nothing else"));
        }
        if is_layer
            && (package["homepage"].is_null() || package["metadata"]["docs"]["rs"].is_null())
        {
            broken.push(format!("{name}: no homepage, or no metadata for docs.rs"));
        }
        if package["license"] != "Apache-2.0" {
            broken.push(format!("{name}: license.workspace is not set"));
        }
        let text = fs::read_to_string(&manifest).unwrap();
        if !text.contains("[lints]\nworkspace = true") {
            broken.push(format!("{name}: lints.workspace is not set"));
        }
    }
    assert_none(&broken, "a crate brings along what a reader looks for");
    let front = fs::read_to_string(root().join("README.md")).unwrap();
    for (name, place, _) in CRATES.iter().filter(|(_, place, _)| is_offered(place)) {
        let link = format!("[{name}]({place}/README.md)");
        assert!(front.contains(&link), "README.md leads to every crate: {link}");
    }
    let log = fs::read_to_string(root().join("CHANGELOG.md")).unwrap();
    assert!(log.contains("## [Unreleased]"), "CHANGELOG.md begins with what is unreleased");
}

#[test]
fn rust_version_is_that_of_newest_dependency() {
    let version = |package: &Value| -> Option<Vec<u32>> {
        let text = package["rust_version"].as_str()?;
        Some(text.split('.').map(|part| part.parse().unwrap()).collect())
    };
    let (own, others): (Vec<_>, Vec<_>) =
        metadata(&[]).into_iter().partition(|package| package["source"].is_null());
    let newest = others
        .iter()
        .filter_map(|package| Some((version(package)?, package["name"].as_str())))
        .max();
    let (newest, dependency) = newest.unwrap();
    for package in &own {
        let name = &package["name"];
        assert!(
            version(package) >= Some(newest.clone()),
            "{name}: {dependency:?} needs {newest:?}"
        );
    }
}

#[test]
fn library_crate_docs_are_its_readme() {
    let mut broken = Vec::new();
    for package in packages() {
        let targets = package["targets"].as_array().unwrap();
        let library = targets.iter().find(|target| target["kind"][0] == "lib");
        let Some(library) = library else { continue };
        let text = fs::read_to_string(library["src_path"].as_str().unwrap()).unwrap();
        if !text.starts_with("#![doc = include_str!(\"../README.md\")]") {
            broken.push(library["src_path"].as_str().unwrap().to_owned());
        }
    }
    assert_none(&broken, "what a crate is for is written once");
}

#[test]
fn files_stay_below_maximum_length() {
    let broken: Vec<_> = rust_files()
        .filter(|(path, _)| !is_test(path))
        .map(|(path, text)| (path, without_tests(&text).len()))
        .filter(|(_, lines)| *lines > LINES)
        .map(|(path, lines)| format!("{}: {lines}", path.display()))
        .collect();
    assert_none(&broken, &format!("at most {LINES} lines without tests"));
}

#[test]
fn layers_stay_below_maximum_length() {
    let layer = |path: &Path| {
        let mut parts = path.components().filter_map(|part| part.as_os_str().to_str());
        match (parts.next(), parts.next(), parts.next()) {
            (Some("layers"), Some(layer), Some("src")) => Some(layer.to_owned()),
            _ => None,
        }
    };
    let mut lengths = BTreeMap::<_, usize>::new();
    for (path, text) in rust_files().filter(|(path, _)| !is_test(path)) {
        if let Some(layer) = layer(&path) {
            *lengths.entry(layer).or_default() += without_tests(&text).len();
        }
    }
    let excused = |layer: &str| LONGER.iter().any(|(longer, _)| *longer == layer);
    let broken: Vec<_> = lengths
        .iter()
        .filter(|(layer, lines)| **lines >= LAYER && !excused(layer))
        .map(|(layer, lines)| format!("layers/{layer}: {lines}"))
        .collect();
    assert_none(&broken, &format!("fewer than {LAYER} lines without tests"));
}

#[test]
fn no_panics_outside_tests_and_no_skipped_tests() {
    let mut broken = Vec::new();
    let mut report = |path: &Path, line: &str, why: &str| {
        broken.push(format!("{}: {why} in {:?}", path.display(), line.trim()));
    };
    for (path, text) in texts() {
        let is_rust = path.extension().is_some_and(|ending| ending == "rs");
        if !is_rust && path.extension().is_none_or(|ending| ending != "md") {
            continue;
        }
        for line in text.lines() {
            for sought in NOWHERE.map(|(one, two)| format!("{one}{two}")) {
                if line.contains(&sought) {
                    report(&path, line, &sought);
                }
            }
            let fence = line.trim_start_matches(['/', '!', ' ']).strip_prefix("```");
            if fence.is_some_and(|kind| kind.contains("ignore")) {
                report(&path, line, "an example that is not compiled");
            }
        }
        if !is_rust || is_test(&path) {
            continue;
        }
        let code = without_tests(&text).into_iter().filter(|line| !line.trim().starts_with("//"));
        for line in code {
            for sought in IN_TESTS.iter().filter(|sought| line.contains(**sought)) {
                report(&path, line, sought);
            }
        }
    }
    assert_none(&broken, "errors are values, and tests run");
}

#[test]
fn files_contain_no_machine_specific_paths() {
    let mut broken = Vec::new();
    let checkout = fs::canonicalize(root()).unwrap().display().to_string();
    let places = || PRIVATE.iter().map(|place| format!("/{place}/"));
    for (path, text) in texts() {
        for sought in places().chain([checkout.clone()]) {
            // In a longer path or in a URL, the name is an ordinary path segment.
            let inside = |before: char| before.is_alphanumeric() || "-_.~}>$".contains(before);
            for (at, _) in text.match_indices(&sought) {
                if !text[..at].ends_with(inside) {
                    broken.push(format!("{}: {sought}", path.display()));
                }
            }
        }
    }
    assert_none(&broken, "paths begin at the workspace's root or come from the environment");
}

#[test]
fn lock_files_name_no_registry_host() {
    const CARGO: &str = "registry+https://github.com/rust-lang/crates.io-index";
    let mut broken = Vec::new();
    for (path, text) in texts() {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let is_foreign = |line: &&str| match name {
            "Cargo.lock" => line.starts_with("source = ") && !line.contains(CARGO),
            "package-lock.json" => line.contains("\"resolved\""),
            "requirements.txt" => line.contains("://") || line.contains("-index"),
            _ => false,
        };
        broken.extend(
            text.lines().filter(is_foreign).map(|line| format!("{}: {line}", path.display())),
        );
    }
    assert_none(&broken, "which registry is asked is the reader's own setting");
}

#[test]
fn paths_in_documents_exist() {
    let mut broken = Vec::new();
    for document in ["README.md", "CONTRIBUTING.md", "SECURITY.md"] {
        let text = fs::read_to_string(root().join(document)).unwrap();
        let outside_code = text.split("```").step_by(2);
        let spans = outside_code.flat_map(|part| part.split('`').skip(1).step_by(2));
        let folders = ["layers/", "services/", "examples/", "tests/"];
        let paths = spans.filter(|span| folders.iter().any(|folder| span.starts_with(folder)));
        let missing = paths.filter(|path| !root().join(path).exists());
        broken.extend(missing.map(|path| format!("{document}: {path}")));
    }
    assert_none(&broken, "a document names a path that does not exist");
}

#[test]
fn tests_named_in_security_exist() {
    let functions: BTreeSet<String> = rust_files()
        .flat_map(|(_, text)| {
            let names = text.split("fn ").skip(1).filter_map(|rest| rest.split_once('('));
            names.map(|(name, _)| name.to_owned()).collect::<Vec<_>>()
        })
        .collect();
    let security = fs::read_to_string(root().join("SECURITY.md")).unwrap();
    let cells = security.lines().filter_map(|line| line.strip_suffix('|')?.rsplit_once('|'));
    let named: Vec<_> = cells
        .flat_map(|(_, shown)| shown.split('`').skip(1).step_by(2))
        .filter(|name| name.contains('_'))
        .collect();
    assert!(named.len() > 20, "the threat model names the tests in its last column");
    // Scripts are referenced by their path.
    let exists = |name: &str| {
        if name.contains('/') { root().join(name).is_file() } else { functions.contains(name) }
    };
    let broken: Vec<_> =
        named.into_iter().filter(|name| !exists(name)).map(str::to_owned).collect();
    assert_none(&broken, "SECURITY.md names a test that does not exist");
}

/// Openers of a documentation block that postpone its subject.
const OPENERS: &[&str] = &[
    "Who", "What", "Whose", "Whom", "How", "Where", "Whoever", "Whatever", "Whether", "Why",
    "Nobody", "Somebody", "Anybody",
];

/// Words and phrases that this repository does not use in prose.
const BANNED: &[&str] = &[
    "whoever",
    "whomever",
    "nobody",
    "somebody",
    "anybody",
    "anew",
    "in vain",
    "is told",
    "are told",
    "can be had",
    "had to be had",
    "lets in",
    "let in",
];

/// Returns the comment blocks of a Rust file, each as its lines without the marks.
fn comment_blocks(text: &str) -> Vec<Vec<&str>> {
    let mut blocks = vec![Vec::new()];
    for line in text.lines() {
        let trimmed = line.trim_start();
        let own_line = ["///", "//!", "//"].iter().find_map(|mark| trimmed.strip_prefix(mark));
        // A URL contains two slashes, too.
        let comment = own_line.or_else(|| line.split_once(" // ").map(|(_, comment)| comment));
        match (comment, own_line) {
            (Some(comment), Some(_)) => blocks.last_mut().unwrap().push(comment.trim_start()),
            (comment, _) => {
                blocks.extend(comment.map(|comment| vec![comment]));
                blocks.push(Vec::new());
            }
        }
    }
    blocks.retain(|block| !block.is_empty());
    blocks
}

/// Returns the paragraphs of a Markdown file outside of code fences.
fn paragraphs(text: &str) -> Vec<Vec<&str>> {
    let outside_code = text.split("```").step_by(2);
    outside_code.map(|part| part.lines().collect()).collect()
}

#[test]
fn prose_names_its_subject_first() {
    let mut broken = Vec::new();
    for (path, text) in texts() {
        let is_rust = path.extension().is_some_and(|ending| ending == "rs");
        let is_markdown = path.extension().is_some_and(|ending| ending == "md");
        let blocks = match (is_rust, is_markdown) {
            (true, _) => comment_blocks(&text),
            (_, true) => paragraphs(&text),
            _ => continue,
        };
        for block in blocks {
            let opener = block[0].split(|it: char| !it.is_alphabetic()).next().unwrap_or_default();
            if is_rust && OPENERS.contains(&opener) {
                broken.push(format!("{}: opens with {opener}: {}", path.display(), block[0]));
            }
            let outside_code: Vec<_> =
                block.join(" ").split('`').step_by(2).map(str::to_lowercase).collect();
            let words = outside_code.join(" ");
            let words: Vec<_> = words
                .split(|it: char| !it.is_alphabetic())
                .filter(|word| !word.is_empty())
                .collect();
            let prose = format!(" {} ", words.join(" "));
            let found = BANNED.iter().filter(|phrase| prose.contains(&format!(" {phrase} ")));
            broken.extend(found.map(|phrase| format!("{}: {phrase}", path.display())));
        }
    }
    assert_none(&broken, "a sentence names its actor, in words of the field");
}

#[test]
fn test_names_have_at_most_eight_words() {
    const WORDS: usize = 8;
    let mut broken = Vec::new();
    let mut count = 0;
    for (path, text) in rust_files() {
        let mut is_test = false;
        for line in text.lines().map(str::trim) {
            let attribute = line.starts_with("#[test]") || line.starts_with("#[tokio::test");
            let Some((_, function)) = line.split_once("fn ").filter(|_| is_test) else {
                is_test |= attribute;
                continue;
            };
            is_test = false;
            count += 1;
            let name = function.split('(').next().unwrap_or_default();
            if name.split('_').count() > WORDS {
                broken.push(format!("{}: {name}", path.display()));
            }
        }
    }
    assert!(count > 2_000, "{count} tests were found");
    assert_none(&broken, "the name of a test is a sentence of at most eight words");
}

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

/// Parent modules whose children still use each other in a circle. Nothing is added to this list.
const CIRCLES: &[&str] = &[
    "layers/aws-sts crate",
    "services/cedar crate",
    "services/config crate",
    "services/demo crate",
    "services/egress crate",
    "services/server crate",
    "tests crate::fixture",
    "tests/bench crate::driver",
];

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
    let mut circles = BTreeMap::new();
    for (folder, files) in &crates {
        for (parent, mut uses) in sibling_uses(files) {
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
                circles.insert(format!("{} {parent}", folder.display()), uses);
            }
        }
    }
    let mut broken: Vec<_> = circles
        .iter()
        .filter(|(parent, _)| !CIRCLES.contains(&parent.as_str()))
        .map(|(parent, uses)| format!("{parent}: {uses:?}"))
        .collect();
    let without = CIRCLES.iter().filter(|parent| !circles.contains_key(**parent));
    broken.extend(without.map(|parent| format!("{parent} leaves the list: it has no circle")));
    assert_none(&broken, "modules use each other in one direction");
}

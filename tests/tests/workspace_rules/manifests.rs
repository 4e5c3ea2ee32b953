//! Each crate has the metadata and the README that users expect.

use super::crate_table::CRATES;
use super::*;

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

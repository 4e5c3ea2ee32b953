//! Properties of conversions and their parts.

use std::collections::BTreeSet;

use vmcp_api::conversion::{Available, SecretForm, SecretSource, SourceKind, backends, convert};
use vmcp_config::EnvName;

use super::fixture::{case, names};

#[test]
fn order_of_members_changes_nothing() {
    for name in names() {
        let inputs = case(&name);
        let mut reversed = inputs.clone();
        reversed.members.reverse();
        let text = |inputs| format!("{:?} {:?}", convert(inputs), backends(inputs));
        assert_eq!(text(&inputs), text(&reversed), "{name}");
    }
}

#[test]
fn files_of_different_sources_differ() {
    let long = "a".repeat(253);
    let mut files = BTreeSet::new();
    let mut count = 0;
    for kind in [SourceKind::Secret, SourceKind::ConfigMap] {
        for name in ["a", "a-b", "a.b", "0", long.as_str()] {
            for key in ["a", "b_a", "b-a", "b.a", "A", "ä", long.as_str()] {
                for form in [SecretForm::Verbatim, SecretForm::Bearer] {
                    let file = SecretSource::new(kind, name, key).with_form(form).file();
                    assert!(EnvName::new(&file).is_some() && file.len() <= 253, "{file}");
                    files.insert(file);
                    count += 1;
                }
            }
        }
    }
    assert_eq!(files.len(), count);
}

#[test]
fn bearer_copy_is_value_of_header() {
    let source = SecretSource::new(SourceKind::Secret, "a", "b");
    assert_eq!(source.content(b" token\n"), b" token\n");
    let bearer = source.clone().with_form(SecretForm::Bearer);
    assert_eq!(bearer.content(b" token\n"), b"Bearer token");
    // The operator knows keys, the pod knows files.
    let operator: Available = [source.clone()].into_iter().collect();
    assert!(operator.contains(&bearer));
    let pod = Available::from_files([source.file()]);
    assert!(pod.contains(&source) && !pod.contains(&bearer));
}

//! Every mistake that is known from a definition alone, with its path and message: `every_mistake.txt`.

use vmcp_compose::Workflow;
use vmcp_config::{ConfigError, File, Format};

/// Definitions, each followed by its mistakes, which are indented.
const MISTAKES: &str = include_str!("every_mistake.txt");

/// Returns the mistakes of a composite tool in a configuration, without their lines.
fn mistakes(definition: &str) -> Vec<String> {
    let document =
        format!("name: x\nincomingAuth: {{type: anonymous}}\ncompositeTools: [{definition}]\n");
    let errors = match File::parse(&document, Format::Yaml) {
        Err(errors) => errors.as_slice().to_vec(),
        Ok(file) => Workflow::compile(&file.composite_tools[0], "compositeTools[0]")
            .err()
            .unwrap_or_default(),
    };
    errors.into_iter().map(|error| ConfigError { line: None, ..error }.to_string()).collect()
}

#[test]
fn every_mistake_has_path_and_message() {
    let mut lines = MISTAKES.lines().peekable();
    let mut count = 0;
    while let Some(definition) = lines.next() {
        let mut expected = Vec::new();
        while let Some(mistake) = lines.next_if(|line| line.starts_with(' ')) {
            expected.push(mistake.trim_start());
        }
        assert!(!expected.is_empty(), "{definition} has mistakes");
        assert_eq!(mistakes(definition), expected, "{definition}");
        count += 1;
    }
    assert!(count > 70, "{count} definitions");
}

//! Placeholders in the files of MCP clients: `${env:NAME}` (VS Code, Cursor, Windsurf), `${NAME}` and
//! `${NAME:-default}` (Claude Code), `${input:ID}` and `${workspaceFolder}` (VS Code, Cursor).

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Part of a text in a client's file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// Text without placeholders.
    Text(String),
    /// An environment variable, or an input of VS Code, which a variable replaces.
    Variable { name: String, default: Option<String> },
    /// A placeholder that only the client can fill.
    Unknown(String),
}

/// Error of a text with a placeholder that cannot be filled.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PlaceholderError {
    /// Only the client knows its value.
    Unknown(String),
    /// The environment variable is not set.
    Unset(String),
}

/// Folders that placeholders refer to.
#[derive(Clone, Debug, Default)]
pub(super) struct Folders {
    /// The folder that the client's file belongs to.
    pub(super) workspace: PathBuf,
    /// The home of the user.
    pub(super) home: Option<PathBuf>,
}

impl Folders {
    /// Returns the folders of the file at `path`.
    pub(super) fn of(path: &Path) -> Self {
        let folder = path.parent().unwrap_or(Path::new("/"));
        let is_settings =
            folder.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        // `.vscode/mcp.json` and `.cursor/mcp.json` belong to the folder around them.
        let workspace = if is_settings { folder.parent().unwrap_or(folder) } else { folder };
        Self { workspace: workspace.to_owned(), home: std::env::home_dir() }
    }

    fn value(&self, name: &str) -> Option<String> {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        match name {
            "workspaceFolder" => Some(text(&self.workspace)),
            "workspaceFolderBasename" => self.workspace.file_name().map(|name| text(name.as_ref())),
            "userHome" => self.home.as_deref().map(text),
            "/" | "pathSeparator" => Some("/".to_owned()),
            _ => None,
        }
    }
}

/// Splits a text at its placeholders.
pub(super) fn parts(text: &str, folders: &Folders) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut literal = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let Some((inside, behind)) = after.split_once('}') else { break };
        literal.push_str(before);
        rest = behind;
        if let Some(value) = folders.value(inside) {
            literal.push_str(&value);
            continue;
        }
        if !literal.is_empty() {
            parts.push(Part::Text(std::mem::take(&mut literal)));
        }
        parts.push(placeholder(inside));
    }
    literal.push_str(rest);
    if !literal.is_empty() {
        parts.push(Part::Text(literal));
    }
    parts
}

fn placeholder(inside: &str) -> Part {
    if let Some(id) = inside.strip_prefix("input:") {
        return Part::Variable { name: variable_name(id), default: None };
    }
    let name = inside.strip_prefix("env:").unwrap_or(inside);
    let (name, default) = match name.split_once(":-") {
        Some((name, default)) => (name, Some(default.to_owned())),
        None => (name, None),
    };
    if vmcp_config::EnvName::new(name).is_some() {
        return Part::Variable { name: name.to_owned(), default };
    }
    Part::Unknown(format!("${{{inside}}}"))
}

/// Converts any text to the name of an environment variable.
pub(super) fn variable_name(text: &str) -> String {
    let upper = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    let name: String = text.chars().map(upper).collect();
    if name.starts_with(|c: char| c.is_ascii_digit()) || name.is_empty() {
        return format!("_{name}");
    }
    name
}

/// Returns the text as a template of the configuration, and its variables.
pub(super) fn to_template(
    text: &str,
    folders: &Folders,
) -> Result<(String, Vec<String>), PlaceholderError> {
    let (mut template, mut variables) = (String::new(), Vec::new());
    for part in parts(text, folders) {
        match part {
            Part::Text(text) => template.push_str(&escape(&text)),
            Part::Variable { name, default } => {
                let default = default.map(|default| format!(":-{default}")).unwrap_or_default();
                _ = write!(template, "${{{name}{default}}}");
                variables.push(name);
            }
            Part::Unknown(placeholder) => return Err(PlaceholderError::Unknown(placeholder)),
        }
    }
    Ok((template, variables))
}

/// Converts text to a template without placeholders.
pub(super) fn escape(text: &str) -> String {
    text.replace("${", "$${")
}

/// Fills the placeholders of a text from the environment.
pub(super) fn fill(
    text: &str,
    folders: &Folders,
    lookup: impl Fn(&str) -> Option<String>,
) -> Result<String, PlaceholderError> {
    let mut filled = String::new();
    for part in parts(text, folders) {
        match part {
            Part::Text(text) => filled.push_str(&text),
            Part::Variable { name, default } => match lookup(&name).or(default) {
                Some(value) => filled.push_str(&value),
                None => return Err(PlaceholderError::Unset(name)),
            },
            Part::Unknown(placeholder) => return Err(PlaceholderError::Unknown(placeholder)),
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folders() -> Folders {
        Folders { workspace: "/w/app".into(), home: Some("/home/me".into()) }
    }

    #[test]
    fn reads_placeholders_of_each_client() {
        for (text, template) in [
            ("Bearer ${env:TOKEN}", "Bearer ${TOKEN}"),
            ("${TOKEN}", "${TOKEN}"),
            ("${BASE:-https://a.test}/mcp", "${BASE:-https://a.test}/mcp"),
            ("${input:api-key}", "${API_KEY}"),
            ("${workspaceFolder}${/}x ${userHome}", "/w/app/x /home/me"),
            ("$TOKEN ${", "$TOKEN $${"),
        ] {
            assert_eq!(to_template(text, &folders()).unwrap().0, template, "{text}");
        }
        let unknown = PlaceholderError::Unknown("${command:x}".to_owned());
        assert_eq!(to_template("${command:x}", &folders()), Err(unknown));
    }

    #[test]
    fn fills_placeholders_from_the_environment() {
        let lookup = |name: &str| (name == "A").then(|| "1".to_owned());
        assert_eq!(fill("${env:A}${B:-2}", &folders(), lookup).as_deref(), Ok("12"));
        let unset = PlaceholderError::Unset("B".to_owned());
        assert_eq!(fill("${B}", &folders(), lookup), Err(unset));
    }

    #[test]
    fn names_variables_of_letters_digits_and_underscores() {
        assert_eq!(variable_name("github-token"), "GITHUB_TOKEN");
        assert_eq!(variable_name("1 é"), "_1__");
        assert_eq!(variable_name(""), "_");
    }

    #[test]
    fn settings_folders_belong_to_their_workspace() {
        let workspace = |path: &str| Folders::of(Path::new(path)).workspace;
        assert_eq!(workspace("/w/.vscode/mcp.json"), Path::new("/w"));
        assert_eq!(workspace("/w/.mcp.json"), Path::new("/w"));
    }
}

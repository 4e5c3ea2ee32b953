//! `vmcp list`.

use clap::Args;
use serde_json::{Map, Value, json};

use super::output::{Failure, OutputArgs, OutputFormat, block_on, eprint_line, print, print_json};
use super::server_args::ServerArgs;
use super::session::Session;
use super::table::table;

/// Maximum length of a description in a table, in characters.
const MAX_DESCRIPTION: usize = 80;

/// Lists: method, member of the result, member with an item's name.
const LISTS: [(&str, &str, &str); 4] = [
    ("tools/list", "tools", "name"),
    ("prompts/list", "prompts", "name"),
    ("resources/list", "resources", "uri"),
    ("resources/templates/list", "resourceTemplates", "uriTemplate"),
];

#[derive(Debug, Args)]
pub(crate) struct List {
    #[command(flatten)]
    server: ServerArgs,
    #[command(flatten)]
    output: OutputArgs,
}

impl List {
    pub(crate) fn run(self) -> Result<(), Failure> {
        block_on(self.list())
    }

    async fn list(self) -> Result<(), Failure> {
        let session = Session::start(self.server.load()?.parts).await?;
        let mut lists = Map::new();
        for (method, member, _) in LISTS {
            lists.insert(member.to_owned(), session.list(method, member).await?.into());
        }
        let (unreachable, no_lists) = (session.unreachable(), session.no_lists());
        session.close().await;
        match self.output.format {
            OutputFormat::Json => print_json(&json!(lists)),
            OutputFormat::Text => print(&as_text(&lists)),
        }
        for line in &unreachable {
            eprint_line(&super::table::plain(line));
        }
        no_lists.map_or(Ok(()), |reason| Err(Failure::Error(reason.to_owned())))
    }
}

fn as_text(lists: &Map<String, Value>) -> String {
    let mut out = String::new();
    for (_, member, key) in LISTS {
        let items = lists[member].as_array().map(Vec::as_slice).unwrap_or_default();
        if items.is_empty() {
            continue;
        }
        if !out.is_empty() {
            out.push('\n');
        }
        let rows: Vec<_> = items.iter().map(|item| row(item, key)).collect();
        let heading = [member.to_uppercase(), "DESCRIPTION".to_owned()];
        out.push_str(&table(&[&heading[0], &heading[1]], &rows));
    }
    if out.is_empty() { "nothing is offered\n".to_owned() } else { out }
}

fn row(item: &Value, key: &str) -> Vec<String> {
    let text = |key: &str| item[key].as_str().unwrap_or_default();
    let description = text("description").lines().next().unwrap_or_default();
    let mut short: String = description.chars().take(MAX_DESCRIPTION).collect();
    if short.len() < description.len() {
        short.push_str("...");
    }
    vec![text(key).to_owned(), short]
}

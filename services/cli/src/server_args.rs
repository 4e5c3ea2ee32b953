//! Servers for `vmcp list` and `vmcp call`: those of a configuration, or one at a URL.

use clap::Args;
use vmcp_config::{HeaderName, Template};

use super::config::{ConfigFile, LoadedConfig, load};
use super::init::quoted;
use super::output::Failure;

/// Options that select the servers.
#[derive(Debug, Args)]
pub(crate) struct ServerArgs {
    #[command(flatten)]
    config: ConfigFile,
    /// The URL of one MCP server, instead of a configuration file.
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// A header for that server, such as 'Authorization: Bearer ${TOKEN}'; ${NAME} is an environment variable.
    /// Repeatable.
    #[arg(long, value_name = "HEADER", requires = "url", value_parser = header)]
    header: Vec<(String, String)>,
    /// Use the deprecated HTTP+SSE transport for the server at the URL.
    #[arg(long, requires = "url")]
    sse: bool,
}

impl ServerArgs {
    /// Reads the configuration, or creates one for the URL.
    pub(crate) fn load(&self) -> Result<LoadedConfig, Failure> {
        let Self { config, url, header, sse } = self;
        let Some(url) = url else { return config.require() };
        let transport = if *sse { "sse" } else { "streamable-http" };
        let mut variables: Vec<&str> = Vec::new();
        let mut headers = String::new();
        let templates: Vec<_> =
            header.iter().map(|(name, value)| (name, Template::new(value))).collect();
        for (name, template) in &templates {
            // The option's parser has validated it.
            let Ok(template) = template else { continue };
            variables.extend(template.variables().map(vmcp_config::EnvName::as_str));
            headers.extend([&*quoted(name), ": ", &quoted(template.source()), ", "]);
        }
        // A single server has no conflicts, so its names stay unchanged.
        let text = format!(
            "name: vmcp\nincomingAuth: {{type: anonymous}}\nvariables: [{}]\nbackends:\n- {{name: server, url: {}, \
             transport: {transport}, headers: {{{headers}}}}}\naggregation: {{conflictResolution: priority, \
             conflictResolutionConfig: {{priorityOrder: [server]}}}}\noperational: {{failureHandling: \
             {{partialFailureMode: best_effort}}}}\n",
            variables.join(", "),
            quoted(&url.replace("${", "$${")),
        );
        load(text, &config.environment(), None)
            .map_err(|load_errors| Failure::Error(load_errors.describe("--url".as_ref())))
    }
}

/// Parses `Name: value`.
fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) =
        text.split_once(':').ok_or("must be a name and a value, such as 'X-Key: v'")?;
    let (name, value) = (name.trim(), value.trim());
    if HeaderName::new(name).is_none() {
        return Err(format!("{name} cannot be the name of a header"));
    }
    Template::new(value).map_err(|error| error.to_string())?;
    Ok((name.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_headers_with_placeholders() {
        let expected = ("X-Key".to_owned(), "a: ${B}".to_owned());
        assert_eq!(header("X-Key: a: ${B}"), Ok(expected));
        for wrong in ["X-Key", "a b: c", "X-Key: ${"] {
            assert!(header(wrong).is_err(), "{wrong}");
        }
    }
}

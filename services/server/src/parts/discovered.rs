//! Backends that were discovered in a cluster: a second input of the configuration, beside its file.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use vmcp_config::{
    Backend, ConfigError, EnvName, File, Format, Never, OutgoingAuth, Source, Strategy,
    WorkloadTools, WriteError,
};

use super::{LeftOutBackend, LeftOutReason, PartsError};

/// Backends that were discovered, and the members of the group that are left out.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct DiscoveredBackends {
    pub(crate) backends: Vec<Backend>,
    /// Variables that the headers of the backends read.
    pub(crate) variables: Vec<EnvName>,
    /// Credentials by backend name.
    pub(crate) strategies: BTreeMap<String, Strategy>,
    /// Selection and overrides of tools, with the contents of MCPToolConfigs.
    pub(crate) tools: Vec<WorkloadTools<Never>>,
    pub(crate) left_out: Vec<LeftOutBackend>,
}

/// Returns `true` for a file with `outgoingAuth.source: discovered`.
pub(super) fn is_discovered(file: &File) -> bool {
    file.outgoing_auth.source == Source::Discovered
}

/// Returns `true` for the text of a valid file with `outgoingAuth.source: discovered`.
pub(crate) fn discovers_backends(text: &str) -> bool {
    File::parse(text, Format::Yaml).is_ok_and(|file| is_discovered(&file))
}

impl DiscoveredBackends {
    /// Returns a file with `outgoingAuth.source: discovered` with the backends in it, so that the rules for a file judge them
    /// too. Other files remain as they are, as do those with errors.
    ///
    /// Credentials in the file win over those that were discovered. Discovered tools win over those in the file, which hides
    /// the tools whose MCPToolConfig it cannot contain.
    ///
    /// # Errors
    /// Returns the error of the YAML writer.
    pub(crate) fn merge<'t>(&self, text: &'t str) -> Result<Cow<'t, str>, WriteError> {
        let Ok(mut file) = File::parse(text, Format::Yaml) else { return Ok(text.into()) };
        if !is_discovered(&file) {
            return Ok(text.into());
        }
        file.backends.clone_from(&self.backends);
        for name in &self.variables {
            if !file.variables.contains(name) {
                file.variables.push(name.clone());
            }
        }
        let OutgoingAuth { source, default: _, backends } = &mut file.outgoing_auth;
        *source = Source::Inline;
        for (name, strategy) in &self.strategies {
            backends.entry(name.clone()).or_insert_with(|| strategy.clone());
        }
        // Members come and go: credentials of one that is away are no mistake.
        let names: BTreeSet<&str> = self.backends.iter().map(|it| it.name.as_str()).collect();
        backends.retain(|name, _| names.contains(name.as_str()));
        let listed: BTreeSet<&str> = self.tools.iter().map(|it| it.workload.as_str()).collect();
        file.aggregation.tools.retain(|tools| !listed.contains(tools.workload.as_str()));
        file.aggregation.tools.extend(self.tools.iter().cloned());
        file.to_yaml().map(Cow::Owned)
    }

    /// Leaves out the backends that the errors of the merged file concern. Returns `false` if they concern none: then the file
    /// is at fault.
    pub(crate) fn leave_out(&mut self, found: &PartsError) -> bool {
        // Indices count the backends before any of them is left out.
        let culprits: Vec<_> = found
            .errors
            .iter()
            .filter_map(|error| {
                let (name, rest) = self.culprit(&error.path)?;
                Some((name.to_owned(), describe(error, rest)))
            })
            .collect();
        let count = self.backends.len();
        for (name, message) in culprits {
            let Some(at) = self.backends.iter().position(|backend| backend.name == name) else {
                continue;
            };
            self.backends.remove(at);
            self.strategies.remove(&name);
            let reason = LeftOutReason::BackendInvalid;
            self.left_out.push(LeftOutBackend { backend: name, reason, message });
        }
        self.backends.len() < count
    }

    /// Returns the name of the backend that a path leads to, and the rest of the path.
    fn culprit<'p>(&self, path: &'p str) -> Option<(&str, &'p str)> {
        if let Some(rest) = path.strip_prefix("backends[") {
            let (index, rest) = rest.split_once(']')?;
            let backend = self.backends.get(index.parse::<usize>().ok()?)?;
            return Some((&backend.name, rest.trim_start_matches('.')));
        }
        let rest = path.strip_prefix("outgoingAuth.backends.")?;
        let within = |name: &&str| {
            rest.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        let names = self.backends.iter().map(|backend| backend.name.as_str()).filter(within);
        // Names have dots, so that one may begin with another.
        let name = names.max_by_key(|name| name.len())?;
        Some((name, rest[name.len()..].trim_start_matches('.')))
    }
}

/// Describes an error without its place in the merged file, which no user sees: the line, and the index in the path.
fn describe(error: &ConfigError, path: &str) -> String {
    ConfigError { path: path.to_owned(), line: None, ..error.clone() }.to_string()
}

#[cfg(test)]
mod tests {
    use vmcp_egress::Egress;

    use super::*;
    use crate::parts::Parts;

    const FILE: &str =
        "name: x\nincomingAuth: {type: anonymous}\noutgoingAuth: {source: discovered}\n";

    /// Returns the backends of a file as discovered ones.
    fn discovered(sections: &str) -> DiscoveredBackends {
        let text = format!("name: x\nincomingAuth: {{type: anonymous}}\n{sections}");
        let file = File::parse(&text, Format::Yaml).unwrap();
        DiscoveredBackends {
            backends: file.backends,
            variables: file.variables,
            strategies: file.outgoing_auth.backends,
            tools: file.aggregation.tools,
            left_out: Vec::new(),
        }
    }

    fn merged(discovered: &DiscoveredBackends, text: &str) -> File {
        File::parse(&discovered.merge(text).unwrap(), Format::Yaml).unwrap()
    }

    #[test]
    fn merged_file_has_discovered_backends() {
        let found = discovered(
            "backends: [{name: a, url: 'http://a/mcp', transport: sse, headers: {X-A: '${KEY}'}}]\n\
             variables: [KEY]\naggregation: {tools: [{workload: a, filter: [x]}]}\n\
             outgoingAuth: {source: inline, backends: {a: {type: unauthenticated}}}\n",
        );
        let hidden = "aggregation: {tools: [{workload: a, excludeAll: true}, {workload: b, excludeAll: true}]}\n";
        let file = merged(&found, &format!("{FILE}{hidden}"));
        assert_eq!(file.backends, found.backends);
        assert_eq!(file.variables, found.variables);
        assert_eq!(file.outgoing_auth.backends, found.strategies);
        let tools: Vec<_> = file
            .aggregation
            .tools
            .iter()
            .map(|tools| (tools.workload.as_str(), tools.exclude_all))
            .collect();
        assert_eq!(tools, [("b", true), ("a", false)]);
    }

    #[test]
    fn credentials_in_file_win() {
        let header = "{type: header_injection, headerInjection: {headerName: X-A, headerValue: v}}";
        let found = discovered(
            "backends: [{name: a, url: 'http://a/mcp', transport: sse}]\n\
             outgoingAuth: {source: inline, backends: {a: {type: unauthenticated}}}\n",
        );
        let text = FILE.replace(
            "discovered}",
            &format!("discovered, backends: {{a: {header}, away: {header}}}}}"),
        );
        let strategies = merged(&found, &text).outgoing_auth.backends;
        assert_eq!(strategies.len(), 1);
        assert!(matches!(strategies["a"], Strategy::HeaderInjection(_)));
    }

    #[test]
    fn other_files_remain_as_they_are() {
        let found = discovered("backends: [{name: a, url: 'http://a/mcp', transport: sse}]\n");
        for text in [FILE.replace("discovered", "inline"), "name: [".to_owned()] {
            assert_eq!(found.merge(&text).unwrap(), text);
            assert!(!discovers_backends(&text));
        }
        assert!(discovers_backends(FILE));
    }

    #[test]
    fn invalid_backend_leaves_only_itself_out() {
        let mut found = discovered(
            "backends:\n- {name: a, url: 'http://a/mcp', transport: sse}\n\
             - {name: a.b, url: 'http://b/mcp', transport: sse}\n\
             - {name: c, url: 'http://c/mcp', transport: sse, type: entry, caBundlePath: /none}\n",
        );
        let text = "name: x\nincomingAuth: {type: oidc, oidc: {issuer: 'https://i.test', audience: 'https://a.test', clientId: c}}\n\
                    backends: [{name: a.b, url: 'http://b/mcp', transport: sse}]\n\
                    outgoingAuth: {source: inline, backends: {a.b: {type: token_exchange, tokenExchange: {tokenUrl: 'https://i.test/token'}}}}\n";
        found.strategies = File::parse(text, Format::Yaml).unwrap().outgoing_auth.backends;
        // Anonymous callers have no tokens to exchange.
        let egress = Egress::default();
        let builder = Parts::builder(&egress).without_telemetry().replica(true);
        let mut rounds = 0;
        let info = loop {
            match builder.read(&found.merge(FILE).unwrap()) {
                Ok((_, parts)) => break parts.info,
                Err(error) => assert!(found.leave_out(&error), "{error}"),
            }
            rounds += 1;
        };
        assert_eq!(info.backends.keys().collect::<Vec<_>>(), ["a"]);
        assert!(rounds <= 2, "{rounds}");
        let mut left_out: Vec<_> =
            found.left_out.iter().map(|it| (it.backend.as_str(), it.message.as_str())).collect();
        left_out.sort_unstable();
        let [("a.b", exchange), ("c", bundle)] = left_out[..] else { panic!("{left_out:?}") };
        assert!(exchange.starts_with("type: found token_exchange"), "{exchange}");
        assert!(bundle.starts_with("caBundlePath: found"), "{bundle}");
        let mut none = DiscoveredBackends::default();
        let error = builder.read("name: x\n").unwrap_err();
        assert!(!none.leave_out(&error));
    }
}

//! Errors of a configuration that no server can be built from, reported all at once.

use std::fmt;

use vmcp_config::{ConfigError, ConfigErrors, File, Format};

use super::{Parts, PartsBuilder, UnsupportedSetting};

/// Errors of a configuration.
#[derive(Debug, Default, thiserror::Error)]
pub struct PartsError {
    /// Sections that this version does not support.
    pub unsupported: Vec<UnsupportedSetting>,
    /// Errors of the document first, then of values that are unusable now, such as a file that cannot be read.
    pub errors: Vec<ConfigError>,
    /// Number of leading `errors` that are errors of the document itself.
    pub in_document: usize,
    /// Number of errors beyond those in `errors`.
    pub more: usize,
}

impl fmt::Display for PartsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { unsupported, errors, in_document: _, more } = self;
        let lines = unsupported.iter().map(ToString::to_string);
        let errors = errors.iter().map(ToString::to_string);
        let more = (*more > 0).then(|| format!("and {more} more"));
        let lines: Vec<_> = lines.chain(errors).chain(more).collect();
        f.write_str(&lines.join("\n"))
    }
}

impl From<ConfigError> for PartsError {
    fn from(error: ConfigError) -> Self {
        Self { errors: vec![error], ..Self::default() }
    }
}

impl PartsError {
    /// Returns `true` if only a different document helps, and no change to the files and variables that it names.
    pub(crate) fn is_permanent(&self) -> bool {
        self.in_document > 0 || self.errors.is_empty()
    }
}

impl PartsBuilder<'_> {
    /// Parses a document and builds the parts that it configures, as [`build`](Self::build) does.
    ///
    /// # Errors
    /// Returns all errors: of the document, of combinations of sections, and of the files and variables that the
    /// document names. The valid parts of a document with errors are checked as well.
    pub fn read(self, text: &str) -> Result<(File, Parts), PartsError> {
        let found = match File::parse(text, Format::Yaml) {
            Ok(file) => return self.build(file.clone()).map(|parts| (file, parts)),
            Err(found) => found,
        };
        let further = File::parse_lossy(text, Format::Yaml).map(|file| self.further(file, &found));
        let PartsError { mut unsupported, errors: further, .. } = further.unwrap_or_default();
        let documents = found.as_slice();
        unsupported.retain(|section| documents.iter().all(|it| !is_related(it, &section.path)));
        let further = further
            .into_iter()
            .filter(|error| documents.iter().all(|it| !is_related(it, &error.path)));
        Err(PartsError {
            unsupported,
            errors: documents.iter().cloned().chain(further).collect(),
            in_document: documents.len(),
            more: found.count() - documents.len(),
        })
    }

    /// Returns the remaining errors of a document that has parse errors.
    fn further(self, file: File, found: &ConfigErrors) -> PartsError {
        // Contradictions are unknown without valid authentication settings.
        let is_known = found.iter().all(|error| !error.path.starts_with("incomingAuth"));
        let contradictions = if is_known { file.contradictions() } else { Vec::new() };
        let built = self.without_telemetry().build_consistent(file);
        let mut error = built.err().unwrap_or_default();
        error.errors.splice(..0, contradictions);
        error
    }
}

/// Returns `true` if the error at `path` may be a consequence of `error`: both concern the same value, or one of them
/// contains the other. An unknown key may be a misspelling of any other key of its object.
fn is_related(error: &ConfigError, path: &str) -> bool {
    let within = |inner: &str, outer: &str| {
        inner
            .strip_prefix(outer)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    };
    let at = error.path.as_str();
    let object = at.rsplit_once('.').filter(|_| error.is_unknown_key()).map(|(object, _)| object);
    within(path, at) || within(at, path) || object.is_some_and(|object| within(path, object))
}

#[cfg(test)]
mod tests {
    use vmcp_egress::Egress;

    use super::*;

    #[test]
    fn reports_template_errors_beside_structural_ones() {
        let document = "name: x\nincomingAuth: {type: anonymous}\nbackends: []\ncompositeTools:\n\
            - name: t\n  steps:\n\
            \x20 - {id: a, tool: w.t, dependsOn: [b], arguments: {x: '{{.param.x}}'}}\n\
            \x20 - {id: b, tool: w.t, dependsOn: [a], condition: 'maybe'}\n\
            \x20 - {id: c, arguments: {x: '{{end}}'}}\n\
            \x20 - {id: d, tool: w.t, dependsOn: [e], arguments: {x: '{{.steps.f}}'}}\n";
        let error = Parts::builder(&Egress::default()).without_telemetry().read(document);
        let error = error.unwrap_err();
        let mut paths: Vec<_> = error.errors.iter().map(|error| error.path.as_str()).collect();
        paths.sort_unstable();
        let expected = [
            "steps[0].arguments.x",
            "steps[1].condition",
            "steps[2].arguments.x",
            "steps[2].tool",
            "steps[3].arguments.x",
            "steps[3].dependsOn",
        ];
        assert_eq!(paths, expected.map(|path| format!("compositeTools[0].{path}")));
    }

    #[test]
    fn reports_other_errors_beside_each_structural_one() {
        for (step, path) in [
            ("type: forEach, itemVar: a b, collection: '[1]', step: {tool: w.t}", "itemVar"),
            ("type: forEach, itemVar: index, collection: '[1]', step: {tool: w.t}", "itemVar"),
            ("type: forEach, collection: '[1]'", "step"),
            ("type: elicitation, schema: {type: object}", "message"),
            ("type: elicitation, message: '', schema: {type: object}", "message"),
            ("type: elicitation, message: m", "schema"),
            ("tool: w.t, timeout: 0s", "timeout"),
            ("tool: w.t, onDecline: {action: abort}", "onDecline"),
            ("tool: w.t, onError: {action: abort, retryCount: 2}", "onError.retryCount"),
            ("tool: w.t, onError: {action: retry, retryCount: 11}", "onError.retryCount"),
            ("tool: w.t, onError: {action: retry}", "onError.retryCount"),
            ("tool: w.t, onErrr: {action: retry}", "onErrr"),
        ] {
            let document = format!(
                "name: x\nincomingAuth: {{type: anonymous}}\ncompositeTools:\n- name: t\n  steps:\n\
                \x20 - {{id: a, {step}}}\n\
                \x20 - {{id: b, tool: w.t, dependsOn: [c]}}\n\
                \x20 - {{id: d, tool: w.t, arguments: {{x: '{{{{if}}}}'}}}}\n"
            );
            let error = Parts::builder(&Egress::default()).without_telemetry().read(&document);
            let error = error.unwrap_err();
            let mut paths: Vec<_> = error.errors.iter().map(|error| error.path.as_str()).collect();
            paths.sort_unstable();
            let first = format!("steps[0].{path}");
            let expected = [first.as_str(), "steps[1].dependsOn", "steps[2].arguments.x"];
            assert_eq!(paths, expected.map(|path| format!("compositeTools[0].{path}")), "{step}");
        }
    }

    #[test]
    fn omits_errors_that_follow_from_others() {
        let wrong = ConfigError::new("backends[1].url", "x", "y");
        for (path, related) in [
            ("backends[1].url", true),
            ("backends[1]", true),
            ("backends", true),
            ("backends[1].url.x", true),
            ("backends[1].caBundlePath", false),
            ("backends[10].url", false),
            ("audit.logFile", false),
        ] {
            assert_eq!(is_related(&wrong, path), related, "{path}");
        }
        let document = "name: x\nincomingAuth: {type: anonymous}\nbackends: [{nam: a}]\naudi: {}\n";
        let unknown = File::parse(document, Format::Yaml).unwrap_err();
        let of = |path: &str| unknown.iter().any(|error| is_related(error, path));
        assert!(of("backends[0].caBundlePath") && !of("backends[1].url") && !of("audit.logFile"));
    }
}

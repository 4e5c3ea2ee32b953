//! State of a conversion: what was found so far.

use std::collections::BTreeMap;

use vmcp_config::{ConfigError, ConfigErrors, EnvName, FilePath, SecretFile, SecretRef, from_json};

use super::{
    ConditionUpdate, ConversionError, Inputs, SECRETS_PATH, SecretEntry, SecretSource, SourceKind,
    Warning, WarningReason,
};
use crate::{
    ConfigMapKeyRef,
    condition::ConditionReason,
    virtual_mcp_server::{AuthConfigured, Phase, ServerValid},
};

/// A conversion in progress, which collects errors.
pub(super) struct Converter<'a> {
    pub(super) inputs: &'a Inputs,
    pub(super) errors: Vec<ConversionError>,
    pub(super) warnings: Vec<Warning>,
    pub(super) conditions: Vec<ConditionUpdate>,
    secrets: BTreeMap<String, SecretEntry>,
    /// `true` if all sources count as existing, so that none hides another that comes after it.
    assumes_sources: bool,
}

/// Marker of a section without a result, whose errors have been recorded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rejected;

/// A source that does not exist yet.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Missing(pub(super) SecretSource);

impl<'a> Converter<'a> {
    pub(super) fn new(inputs: &'a Inputs) -> Self {
        Self {
            inputs,
            errors: Vec::new(),
            warnings: Vec::new(),
            conditions: Vec::new(),
            secrets: BTreeMap::new(),
            assumes_sources: false,
        }
    }

    /// Starts a conversion for its references alone: all sources count as existing.
    pub(super) fn for_references(inputs: &'a Inputs) -> Self {
        Self { assumes_sources: true, ..Self::new(inputs) }
    }

    /// Returns the result of a conversion, or its errors.
    pub(super) fn outcome<T>(mut self, result: Option<T>) -> Result<T, Vec<ConversionError>> {
        match result {
            Some(result) if self.errors.is_empty() => Ok(result),
            Some(_) | None => {
                if self.errors.is_empty() {
                    // A section without a result has recorded its errors.
                    self.reject(
                        "spec",
                        ServerValid::Invalid,
                        "the resource could not be converted",
                    );
                }
                Err(self.errors)
            }
        }
    }

    /// Returns the files of the operator's Secret, sorted.
    pub(super) fn take_secrets(&mut self) -> Vec<SecretEntry> {
        std::mem::take(&mut self.secrets).into_values().collect()
    }

    /// Records an error that ends in phase Failed.
    pub(super) fn reject<R: ConditionReason>(
        &mut self,
        path: impl Into<String>,
        reason: R,
        message: impl Into<String>,
    ) {
        self.errors.push(ConversionError {
            path: path.into(),
            condition: ConditionUpdate::new(reason, message),
            phase: Phase::Failed,
            event: None,
        });
    }

    /// Records an error that is also reported as an event.
    pub(super) fn reject_with_event<R: ConditionReason>(
        &mut self,
        path: impl Into<String>,
        reason: R,
        message: impl Into<String>,
        event: &'static str,
    ) {
        self.reject(path, reason, message);
        if let Some(error) = self.errors.last_mut() {
            error.event = Some(event);
        }
    }

    /// Records the errors of a part at `path`.
    pub(super) fn reject_part<R: ConditionReason>(
        &mut self,
        path: &str,
        reason: R,
        errors: &ConfigErrors,
    ) {
        for error in errors {
            self.reject(join(path, &error.path), reason, describe(error));
        }
    }

    /// Records a warning.
    pub(super) fn warn(&mut self, reason: WarningReason, message: impl Into<String>) {
        let warning = Warning { reason, message: message.into() };
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }

    /// Records the value of a condition.
    pub(super) fn report<R: ConditionReason>(&mut self, reason: R, message: impl Into<String>) {
        self.conditions.push(ConditionUpdate::new(reason, message));
    }

    /// Returns the name of the file with a copy of `source`.
    pub(super) fn source(&mut self, source: SecretSource, path: &str) -> Result<String, Missing> {
        let file = source.file();
        self.entry(file.clone(), source, path)?;
        Ok(file)
    }

    fn exists(&self, source: &SecretSource) -> bool {
        self.assumes_sources || self.inputs.available.contains(source)
    }

    /// Adds a copy of `source` to the operator's Secret, named `file`.
    pub(super) fn entry(
        &mut self,
        file: String,
        source: SecretSource,
        path: &str,
    ) -> Result<(), Missing> {
        let is_available = self.exists(&source);
        let entry =
            SecretEntry { file: file.clone(), source: source.clone(), path: path.to_owned() };
        let entry = self.secrets.entry(file).or_insert(entry);
        if entry.source != source {
            let message = format!("{} and {} have equal digests; rename one", entry.source, source);
            self.reject(path, ServerValid::Invalid, message);
        }
        if is_available { Ok(()) } else { Err(Missing(source)) }
    }

    /// Returns the variable with a copy of a Secret that the server requires.
    pub(super) fn required_env(&mut self, reference: &SecretRef, path: &str) -> Option<EnvName> {
        let file = self.required(secret(reference), path)?;
        Some(env_name(&file))
    }

    /// Returns the path of a copy of a Secret that the server requires.
    pub(super) fn required_file(
        &mut self,
        reference: &SecretRef,
        path: &str,
    ) -> Option<SecretFile> {
        let file = self.required(secret(reference), path)?;
        Some(SecretFile { file: file_path(&file) })
    }

    /// Returns the path of a copy of a CA bundle that the server requires. Absent are an optional one that does not exist, and
    /// one with an error.
    pub(super) fn required_bundle(
        &mut self,
        reference: &ConfigMapKeyRef,
        path: &str,
    ) -> Option<FilePath> {
        let ConfigMapKeyRef { name, key, optional } = reference;
        let source = SecretSource::new(SourceKind::ConfigMap, name, key);
        if *optional == Some(true) && !self.exists(&source) {
            _ = self.source(source, path);
            return None;
        }
        let file = self.required(source, path)?;
        Some(file_path(&file))
    }

    /// Returns the name of the file with a copy of `source`, or records that it does not exist.
    pub(super) fn required(&mut self, source: SecretSource, path: &str) -> Option<String> {
        match self.source(source, path) {
            Ok(file) => Some(file),
            Err(missing) => {
                self.reject_missing(&missing, path);
                None
            }
        }
    }

    /// Records that a source does not exist.
    pub(super) fn reject_missing(&mut self, missing: &Missing, path: &str) {
        let message = missing.to_string();
        self.reject_with_event(path, AuthConfigured::Invalid, message, "SecretValidationFailed");
    }
}

impl std::fmt::Display for Missing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self(source) = self;
        write!(f, "{source} does not exist; create it with this key")
    }
}

/// Returns the source of a reference to a Secret.
pub(super) fn secret(reference: &SecretRef) -> SecretSource {
    let SecretRef { name, key } = reference;
    SecretSource::new(SourceKind::Secret, name, key)
}

/// Returns the variable of a file.
pub(super) fn env_name(file: &str) -> EnvName {
    EnvName::new(file)
        .expect("a file's name begins with a letter and has letters, digits and underscores")
}

/// Returns the path of a file in the operator's Secret.
pub(super) fn file_path(file: &str) -> FilePath {
    absolute_path(&format!("{SECRETS_PATH}/{file}")).expect("the path is absolute")
}

/// Returns a path, or its error.
pub(super) fn absolute_path(path: &str) -> Result<FilePath, ConfigErrors> {
    from_json(&serde_json::Value::from(path))
}

/// Joins a path and one within it.
pub(super) fn join(path: &str, inner: &str) -> String {
    match (path.is_empty(), inner.is_empty()) {
        (_, true) => path.to_owned(),
        (true, false) => inner.to_owned(),
        (false, false) if inner.starts_with('[') || path.ends_with(": ") => {
            format!("{path}{inner}")
        }
        (false, false) => format!("{path}.{inner}"),
    }
}

/// Returns the sentence of an error, without its path.
pub(super) fn describe(error: &ConfigError) -> String {
    let error = ConfigError { path: String::new(), line: None, ..error.clone() };
    error.to_string()
}

/// Returns the sentences of all errors, each with its path.
pub(super) fn describe_all(errors: &ConfigErrors) -> String {
    let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
    errors.join("; ")
}

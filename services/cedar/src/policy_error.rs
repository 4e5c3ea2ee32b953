//! Errors of policies and entities.

use std::error::Error;
use std::fmt;

use cedar_policy::ffi::DetailedError;
use cedar_policy::{Effect, ParseErrors, PolicySet, Template};

/// All errors in a set of policies and entities. Their author has to fix them; the previous
/// policies stay in use.
#[derive(Debug)]
pub struct PolicyErrors(pub(crate) Vec<PolicyError>);

/// Error in a policy or in the entities.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// Without policies everything would be denied.
    #[error("there are no policies")]
    NoPolicies,
    /// The text is not a valid policy.
    #[error("policies[{index}]{}: {message}", line.map(|line| format!(", line {line}")).unwrap_or_default())]
    Policy {
        /// Index of the text, from 0.
        index: usize,
        /// Line in that text, from 1, if Cedar reports it.
        line: Option<usize>,
        /// Message of Cedar.
        message: String,
    },
    /// The entities are not an array of Cedar entities.
    #[error("entitiesJson: {message}")]
    Entities {
        /// Message of Cedar.
        message: String,
    },
}

impl PolicyErrors {
    /// Returns the errors, in the order of the texts.
    #[must_use]
    pub fn errors(&self) -> &[PolicyError] {
        &self.0
    }
}

impl PolicyError {
    pub(crate) fn policy(index: usize, message: impl Into<String>) -> Self {
        Self::Policy { index, line: None, message: message.into() }
    }

    pub(crate) fn entities(error: impl fmt::Display) -> Self {
        Self::Entities { message: error.to_string() }
    }

    /// Creates an error from Cedar's error with its causes, which have the details.
    pub(crate) fn of_entities(error: &(dyn Error + 'static)) -> Self {
        let mut message = error.to_string();
        let mut next = error.source();
        while let Some(cause) = next {
            message.push_str(": ");
            message.push_str(&cause.to_string());
            next = cause.source();
        }
        Self::Entities { message }
    }

    /// Creates an error for each of Cedar's parse errors in `text`.
    pub(crate) fn parse(index: usize, text: &str, errors: &ParseErrors) -> Vec<Self> {
        let error = |error| {
            let DetailedError { message, help, source_locations, .. } = DetailedError::from(error);
            let start = source_locations.first().map(|label| label.loc.start);
            let line = start
                .and_then(|start| text.get(..start))
                .map(|before| before.bytes().filter(|byte| *byte == b'\n').count() + 1);
            let help = help.map(|help| format!(" ({help})")).unwrap_or_default();
            Self::Policy { index, line, message: format!("{message}{help}") }
        };
        errors.iter().map(error).collect()
    }

    /// Checks the rules of this crate that go beyond Cedar's syntax.
    pub(crate) fn beyond_cedar(index: usize, set: &PolicySet) -> Vec<Self> {
        let mut errors = Vec::new();
        if set.is_empty() {
            errors.push(Self::policy(index, "the text has no policy"));
        }
        let template = |template: &Template| {
            let message = format!("{} is a template; templates are not supported", template.id());
            Self::policy(index, message)
        };
        errors.extend(set.templates().map(template));
        for policy in set.policies() {
            let Some(scopes) = policy.annotation("scopes") else { continue };
            if policy.effect() == Effect::Forbid {
                let message =
                    "@scopes is only allowed on a permit: a forbid applies with any scopes";
                errors.push(Self::policy(index, message));
            }
            // Scopes are written into a header (RFC 6749 section 3.3, scope-token).
            let token = |scope: &str| {
                scope.bytes().all(|byte| matches!(byte, 0x21 | 0x23..=0x5B | 0x5D..=0x7E))
            };
            if !scopes.split_whitespace().all(token) || scopes.trim().is_empty() {
                let message = "@scopes must be scope tokens separated by spaces";
                errors.push(Self::policy(index, message));
            }
        }
        errors
    }
}

impl fmt::Display for PolicyErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            write!(f, "{separator}{error}")?;
        }
        Ok(())
    }
}

impl Error for PolicyErrors {}

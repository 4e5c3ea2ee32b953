//! Arguments of a call, as policies see them.

use std::borrow::Cow;
use std::collections::HashSet;

use cedar_policy::RestrictedExpression;
use vmcp_wire::members;

use crate::dependencies::PolicyDependencies;
use crate::value::{Argument, from_raw};

/// Maximum number of arguments if policies reference the whole context.
const MAX_ARGUMENTS: usize = 256;

/// Names of arguments that policies reference.
#[derive(Debug, Default)]
pub(crate) struct ReferencedArguments {
    all: bool,
    names: HashSet<String>,
    folded: HashSet<String>,
}

/// `arg_<name>` for each scalar and `arg_<name>_present` for each object or array that policies
/// reference.
#[derive(Debug, Default)]
pub(crate) struct Arguments {
    pub(crate) values: Vec<(String, RestrictedExpression)>,
    /// Names of arguments without a scalar value: objects, arrays and null.
    pub(crate) without_scalar: Vec<String>,
}

/// Error of arguments that policies could interpret differently from the backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ArgumentError {
    #[error("a referenced argument is duplicated or differs in spelling")]
    Ambiguous,
    #[error("a referenced argument is a number without a Cedar value")]
    UnrepresentableNumber,
    #[error("more than {MAX_ARGUMENTS} arguments, and policies reference the whole context")]
    TooMany,
}

impl ReferencedArguments {
    pub(crate) fn of(reads: &PolicyDependencies) -> Self {
        let mut names = HashSet::new();
        for name in reads.attributes.iter().filter_map(|name| name.strip_prefix("arg_")) {
            names.extend(name.strip_suffix("_present").map(str::to_owned));
            names.insert(name.to_owned());
        }
        let folded = names.iter().map(|name| case_folded(name).into_owned()).collect();
        Self { all: reads.context, names, folded }
    }
}

impl Arguments {
    /// Parses the arguments in `raw`, a validated object.
    pub(crate) fn parse(
        raw: Option<&[u8]>,
        referenced_arguments: &ReferencedArguments,
    ) -> Result<Self, ArgumentError> {
        let mut found = Vec::new();
        let mut without_scalar = Vec::new();
        let mut present = Vec::new();
        let mut seen = HashSet::new();
        for member in members(raw.unwrap_or_default()) {
            let name = member.key.read();
            let folded = case_folded(&name);
            if !referenced_arguments.all && !referenced_arguments.folded.contains(&*folded) {
                continue;
            }
            // Some servers ignore the case of names and use the last duplicate.
            let exact = referenced_arguments.names.contains(&*name)
                || referenced_arguments.all && !name.contains('\0');
            if !exact || !seen.insert(folded.into_owned()) {
                return Err(ArgumentError::Ambiguous);
            }
            if seen.len() > MAX_ARGUMENTS {
                return Err(ArgumentError::TooMany);
            }
            match from_raw(member.value) {
                Argument::Scalar(value) => found.push((format!("arg_{name}"), value)),
                Argument::Nested => {
                    let there = RestrictedExpression::new_bool(true);
                    present.push((format!("arg_{name}_present"), there));
                    without_scalar.push(name.into_owned());
                }
                Argument::Null => without_scalar.push(name.into_owned()),
                Argument::Unrepresentable => return Err(ArgumentError::UnrepresentableNumber),
            }
        }
        // Presence takes precedence over an argument whose own name ends in `_present`.
        found.retain(|(name, _)| present.iter().all(|(there, _)| there != name));
        found.append(&mut present);
        Ok(Self { values: found, without_scalar })
    }
}

/// Returns the arguments that a policy reads as scalars only: any other value would never match its
/// comparison.
pub(crate) fn scalars_only(reads: &PolicyDependencies) -> impl Iterator<Item = &str> {
    let names = reads.attributes.iter().filter_map(|name| name.strip_prefix("arg_"));
    names.filter(|name| !reads.attribute(&format!("arg_{name}_present")))
}

/// Returns a name in lower case, up to a NUL, which terminates it for some servers.
fn case_folded(name: &str) -> Cow<'_, str> {
    let name = name.split('\0').next().unwrap_or_default();
    if name.bytes().any(|byte| byte.is_ascii_uppercase() || !byte.is_ascii()) {
        Cow::Owned(name.to_lowercase())
    } else {
        Cow::Borrowed(name)
    }
}

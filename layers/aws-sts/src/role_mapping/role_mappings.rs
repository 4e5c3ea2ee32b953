//! Role selection from a caller's claims.

use std::fmt;

use cel::{Context, Value as CelValue};
use serde_json::Value;
use vmcp_core::Claims;

use crate::MatcherError;
use crate::role_mapping::cost::CostBudget;
use crate::role_mapping::matcher::{self, Matcher};

/// Maximum number of mappings.
const MAX_MAPPINGS: usize = 1000;

/// Mappings from claims to roles. The matching mapping with the lowest priority value wins.
///
/// The role type `R` is up to the application. [`RoleMappings::new`] validates all mappings. The cost of a selection is
/// bounded: [`MatcherError`] lists the limits of expressions, and a selection that exceeds the budget for the given
/// claims fails with [`RoleError::TooCostly`].
pub struct RoleMappings<R> {
    mappings: Box<[CompiledMapping<R>]>,
    fallback: Option<R>,
    claim: Box<str>,
    /// Functions for expressions. Creating this context costs more than evaluating most expressions, so each selection
    /// uses an inner scope of it.
    functions: Context<'static, 'static>,
}

/// Mapping of matching callers to one role.
#[derive(Clone, Debug)]
pub struct RoleMapping<R> {
    /// Role of matching callers.
    pub role: R,
    /// Condition on the caller's claims.
    pub matches: RoleMatch,
    /// Mappings with lower values are evaluated first, and those without a value last. Ties keep the configured order.
    pub priority: Option<u32>,
}

/// Condition on a caller's claims.
#[derive(Clone, Debug)]
pub enum RoleMatch {
    /// The role claim equals this text or is a list that contains it. The text is compared, never evaluated.
    Claim(String),
    /// This CEL expression over `claims`, a map of all claims, is true. An evaluation error, such as an absent claim,
    /// and a value that is not a boolean count as no match.
    Matcher(String),
}

struct CompiledMapping<R> {
    role: R,
    condition: MatchCondition,
}

enum MatchCondition {
    Claim(String),
    Matcher(Matcher),
}

/// Invalid set of mappings.
#[derive(Debug, thiserror::Error)]
pub enum RoleMappingsError {
    /// There is neither a mapping nor a fallback role.
    #[error("neither a role mapping nor a fallback role is configured")]
    NoRoles,
    /// There are more than 1,000 mappings.
    #[error("{0} role mappings are more than 1000")]
    TooMany(usize),
    /// Some mappings are invalid. The list contains all of them, in the configured order.
    #[error("{}", join_errors(.0))]
    Mappings(Vec<MappingError>),
}

/// Invalid mapping.
#[derive(Debug, thiserror::Error)]
#[error("role mapping {index}: {problem}")]
pub struct MappingError {
    /// Zero-based index in the configured order.
    pub index: usize,
    /// Error in the expression.
    pub problem: MatcherError,
}

/// Failure to select a role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RoleError {
    /// No mapping matches, and no fallback role is configured.
    #[error("no role is mapped to the caller's claims")]
    Unmapped,
    /// The evaluation exceeds its cost limit because the claims are too large. The fallback role is not used, since a
    /// mapping might have matched.
    #[error("the caller's claims are too large for the role mappings")]
    TooCostly,
}

// === impl RoleMappings ===

impl<R> RoleMappings<R> {
    /// Compiles the mappings. Callers that match none of them have the role `fallback`. `claim` is the name of the claim
    /// for [`RoleMatch::Claim`], usually `groups`.
    ///
    /// # Errors
    /// Returns an error if there is neither a mapping nor a fallback, if there are more than 1,000 mappings, or if an
    /// expression is invalid.
    pub fn new(
        fallback: Option<R>,
        mappings: Vec<RoleMapping<R>>,
        claim: &str,
    ) -> Result<Self, RoleMappingsError> {
        if mappings.is_empty() && fallback.is_none() {
            return Err(RoleMappingsError::NoRoles);
        }
        if mappings.len() > MAX_MAPPINGS {
            return Err(RoleMappingsError::TooMany(mappings.len()));
        }
        let mut compiled = Vec::with_capacity(mappings.len());
        let mut errors = Vec::new();
        let mut patterns = Vec::new();
        for (index, mapping) in mappings.into_iter().enumerate() {
            let RoleMapping { role, matches, priority } = mapping;
            let condition = match matches {
                RoleMatch::Claim(value) => Ok(MatchCondition::Claim(value)),
                RoleMatch::Matcher(source) => {
                    Matcher::compile(&source, &mut patterns).map(MatchCondition::Matcher)
                }
            };
            match condition {
                Ok(condition) => compiled.push((priority, CompiledMapping { role, condition })),
                Err(problem) => errors.push(MappingError { index, problem }),
            }
        }
        if !errors.is_empty() {
            return Err(RoleMappingsError::Mappings(errors));
        }
        // The sort is stable, so mappings of equal priority keep the configured order.
        compiled.sort_by_key(|(priority, _)| (priority.is_none(), *priority));
        let mappings = compiled.into_iter().map(|(_, mapping)| mapping).collect();
        Ok(Self {
            mappings,
            fallback,
            claim: claim.into(),
            functions: matcher::functions(patterns),
        })
    }

    /// Returns the role for `claims`.
    ///
    /// # Errors
    /// Returns [`RoleError::Unmapped`] or [`RoleError::TooCostly`].
    pub fn select(&self, claims: &Claims) -> Result<&R, RoleError> {
        let mut context = None;
        let mut budget = CostBudget::new();
        for CompiledMapping { role, condition } in &self.mappings {
            let matches = match condition {
                MatchCondition::Claim(value) => {
                    claim_contains(claims.object().get(&*self.claim), value)
                }
                MatchCondition::Matcher(matcher) => {
                    let context = match &mut context {
                        Some(context) => context,
                        none => none.insert(self.context(claims, &mut budget)?),
                    };
                    matcher.matches(context, &mut budget)?
                }
            };
            if matches {
                return Ok(role);
            }
        }
        self.fallback.as_ref().ok_or(RoleError::Unmapped)
    }

    fn context<'a>(
        &'a self,
        claims: &Claims,
        budget: &mut CostBudget,
    ) -> Result<Context<'a, 'static>, RoleError> {
        let claims: CelValue = budget.convert_claims(claims)?;
        let mut context = self.functions.new_inner_scope();
        context.add_variable_from_value("claims", claims);
        Ok(context)
    }
}

impl<R: fmt::Debug> fmt::Debug for RoleMappings<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let roles: Vec<_> = self.mappings.iter().map(|mapping| &mapping.role).collect();
        f.debug_struct("Roles")
            .field("claim", &self.claim)
            .field("mappings", &roles)
            .field("fallback", &self.fallback)
            .finish_non_exhaustive()
    }
}

/// Returns `true` if `claim` equals `value` or is a list that contains it.
fn claim_contains(claim: Option<&Value>, value: &str) -> bool {
    match claim {
        Some(Value::String(text)) => text == value,
        Some(Value::Array(join_errors)) => {
            join_errors.iter().any(|item| item.as_str() == Some(value))
        }
        _ => false,
    }
}

fn join_errors(errors: &[MappingError]) -> String {
    let errors: Vec<_> = errors.iter().map(ToString::to_string).collect();
    errors.join("; ")
}

#[cfg(test)]
mod tests;

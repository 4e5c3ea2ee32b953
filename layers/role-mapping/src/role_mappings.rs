//! Which role a caller's claims lead to.

use std::fmt;

use cel::{Context, Value as CelValue};
use serde_json::Value;
use vmcp_core::Claims;

use crate::MatcherError;
use crate::cost::CostBudget;
use crate::matcher::{self, Matcher};

/// How many mappings there may be.
const MAX_MAPPINGS: usize = 1000;

/// Which role whose claims lead to. The mapping with the lowest priority that matches wins.
///
/// What a role is, `R`, is for whoever asks. Everything that can be wrong is found when it is made. What one choice may cost is bounded: see
/// [`MatcherError`] for what an expression may be, and [`RoleError::TooCostly`] for when it is too much
/// for the claims at hand.
pub struct RoleMappings<R> {
    mappings: Box<[CompiledMapping<R>]>,
    fallback: Option<R>,
    claim: Box<str>,
    /// What expressions may call. Making one costs more than evaluating most expressions, so each
    /// evaluation gets an inner scope of this one.
    functions: Context<'static, 'static>,
}

/// Whom a role is for.
#[derive(Clone, Debug)]
pub struct RoleMapping<R> {
    /// The role.
    pub role: R,
    /// Whose.
    pub matches: RoleMatch,
    /// Lower comes first. `None` comes last; equal ones stay in their order.
    pub priority: Option<u32>,
}

/// Whose claims lead to a role.
#[derive(Clone, Debug)]
pub enum RoleMatch {
    /// Those of a caller whose role claim is this text, or a list that has it. It is compared, never
    /// evaluated.
    Claim(String),
    /// Those for which this CEL expression over `claims`, a map of all claims, is true. One that
    /// fails, as for a claim that is absent, or gives anything else does not match.
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

/// Why a set of mappings is none.
#[derive(Debug, thiserror::Error)]
pub enum RoleMappingsError {
    /// Nobody could ever get a role.
    #[error("neither a role mapping nor a fallback role is configured")]
    NoRoles,
    /// There are more than 1,000.
    #[error("{0} role mappings are more than 1000")]
    TooMany(usize),
    /// Some mappings are wrong. All of them are told, in their order.
    #[error("{}", join_errors(.0))]
    Mappings(Vec<MappingError>),
}

/// What is wrong with one mapping.
#[derive(Debug, thiserror::Error)]
#[error("role mapping {index}: {problem}")]
pub struct MappingError {
    /// Which, counted from 0 in the order that was given.
    pub index: usize,
    /// What.
    pub problem: MatcherError,
}

/// Why a caller gets no role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RoleError {
    /// No mapping matches, and there is no fallback.
    #[error("no role is mapped to the caller's claims")]
    Unmapped,
    /// Finding out would take too long with claims of this size. The fallback is not taken then: a
    /// mapping might have matched.
    #[error("the caller's claims are too large for the role mappings")]
    TooCostly,
}

// === impl Roles ===

impl<R> RoleMappings<R> {
    /// The mappings, and the role of those whom none of them matches. `claim` is the name of the
    /// claim that [`RoleMatch::Claim`] looks into, usually `groups`.
    ///
    /// # Errors
    /// There is neither a mapping nor a fallback, or an expression is none that can be evaluated
    /// within bounds.
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
        // Stable: the order of the configuration decides between equals.
        compiled.sort_by_key(|(priority, _)| (priority.is_none(), *priority));
        let mappings = compiled.into_iter().map(|(_, mapping)| mapping).collect();
        Ok(Self {
            mappings,
            fallback,
            claim: claim.into(),
            functions: matcher::functions(patterns),
        })
    }

    /// The role that `claims` lead to.
    ///
    /// # Errors
    /// None does, or finding out costs too much.
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

/// A claim that is one text counts as a list of one.
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

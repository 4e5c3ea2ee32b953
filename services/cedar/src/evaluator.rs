//! Policies with the cache of their slices.

use std::sync::Arc;

use crate::compiled_policies::CompiledPolicies;
use crate::immutable_cache::ImmutableCache;
use crate::policy_slice::PolicySlice;

/// Maximum number of cached sets of policies.
const MAX_SLICES: usize = 1024;

/// Evaluator of policies, which caches the sets of them that are evaluated together.
pub(crate) struct Evaluator {
    policies: CompiledPolicies,
    slices: ImmutableCache<Vec<usize>, Arc<PolicySlice>>,
}

impl Evaluator {
    pub(crate) fn new(policies: CompiledPolicies) -> Self {
        Self { policies, slices: ImmutableCache::new(MAX_SLICES) }
    }

    pub(crate) fn policies(&self) -> &CompiledPolicies {
        &self.policies
    }

    /// Returns the policies at `positions`, shared by all callers with these policies.
    pub(crate) fn slice(&self, positions: Vec<usize>) -> Arc<PolicySlice> {
        self.slices.get_or_insert_with(positions, |positions| {
            Arc::new(PolicySlice::new(&self.policies, positions))
        })
    }

    /// Returns the number of cached sets of policies.
    pub(crate) fn cached_slices(&self) -> usize {
        self.slices.len()
    }
}

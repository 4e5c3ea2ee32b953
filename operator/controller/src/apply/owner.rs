//! Owner of generated objects.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Resource;

use super::ApplyError;
use crate::key::ObjectKey;

/// Owner of generated objects, which the garbage collector deletes with it.
#[derive(Clone, Debug)]
pub(crate) struct Owner {
    pub(crate) object: ObjectKey,
    pub(crate) reference: OwnerReference,
    pub(crate) generation: i64,
}

// === impl Owner ===

impl Owner {
    /// Takes an object that the API server stored.
    ///
    /// # Errors
    ///
    /// [`ApplyError::IncompleteOwner`] if it has no name, uid or generation.
    pub(crate) fn of(
        target: &ObjectKey,
        object: &impl Resource<DynamicType = ()>,
    ) -> Result<Self, ApplyError> {
        let reference = object.controller_owner_ref(&());
        let (Some(reference), Some(generation)) = (reference, object.meta().generation) else {
            return Err(ApplyError::IncompleteOwner { owner: target.clone() });
        };
        Ok(Self { object: target.clone(), reference, generation })
    }
}

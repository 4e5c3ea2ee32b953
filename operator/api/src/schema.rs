//! Structural schemas of Kubernetes from JSON Schemas.

pub(crate) mod bounds;
pub(crate) mod structural;

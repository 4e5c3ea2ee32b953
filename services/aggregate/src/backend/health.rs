//! Health of a backend: periodic checks, reachability and diagnosis.

pub(crate) mod check;
pub(crate) mod diagnosis;
pub(crate) mod reachability;
pub(crate) mod report;
pub(crate) mod state;

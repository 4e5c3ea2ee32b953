//! Health of a backend: periodic checks and diagnosis.

pub(crate) mod check;
pub(crate) mod diagnosis;
pub(crate) mod report;
pub(crate) mod state;

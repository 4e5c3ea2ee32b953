//! Conversion of resources to configuration: manifests of each feature, and what they are converted to.

mod credentials;
mod errors;
mod fields_document;
mod fixture;
mod full;
mod leaves;
mod properties;
mod references;
mod remote_url;
mod shared;
mod snapshots;
mod standalone;

//! Bounded caches of values derived from catalogs.

pub(crate) mod caller_catalog_cache;
pub(crate) mod dedup_lru_cache;
pub(crate) mod list_views;

//! Role selection from claims, by the value of one claim or by CEL expressions with a bounded cost.
//!
//! The type of a role is up to the application; the layer selects a [`RoleArn`](crate::RoleArn).
//!
//! ```rust
//! use serde_json::json;
//! use vmcp_aws_sts::role_mapping::{RoleMapping, RoleMappings, RoleMatch};
//! use vmcp_core::Claims;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let admins = RoleMapping {
//!     role: "admin",
//!     matches: RoleMatch::Matcher("'admins' in claims.groups && claims.verified".to_owned()),
//!     priority: None,
//! };
//! let roles = RoleMappings::new(Some("reader"), vec![admins], "groups")?;
//!
//! let claims = json!({"sub": "ada", "groups": ["admins"], "verified": true});
//! assert_eq!(roles.select(&Claims::from(claims.as_object().unwrap().clone()))?, &"admin");
//! # Ok(())
//! # }
//! ```

mod cost;
mod matcher;
mod parse;
mod role_mappings;

pub use self::{
    matcher::MatcherError,
    role_mappings::{
        MappingError, RoleError, RoleMapping, RoleMappings, RoleMappingsError, RoleMatch,
    },
};

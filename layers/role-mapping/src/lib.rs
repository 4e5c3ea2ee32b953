#![doc = include_str!("../README.md")]

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

#![doc = include_str!("../README.md")]

mod cost;
mod matcher;
mod parse;
mod roles;

pub use self::{
    matcher::MatcherError,
    roles::{MappingError, NoRole, RoleMapping, RoleMatch, Roles, RolesError},
};

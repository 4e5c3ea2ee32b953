//! Any text as an expression over claims: it is rejected, or evaluates within its bounds.
#![no_main]

use vmcp_role_mapping::{RoleMapping, RoleMatch, Roles};

#[path = "../../../layers/role-mapping/src/roles/tests/any.rs"]
mod any;

libfuzzer_sys::fuzz_target!(|source: &str| any::check(source));

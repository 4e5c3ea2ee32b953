//! Any text as an expression over claims: it is rejected, or evaluates within its bounds.
#![no_main]

use vmcp_aws_sts::role_mapping::{RoleMapping, RoleMatch, RoleMappings};

#[path = "../../../layers/aws-sts/src/role_mapping/role_mappings/tests/arbitrary.rs"]
mod arbitrary;

libfuzzer_sys::fuzz_target!(|source: &str| arbitrary::check(source));

//! `vmcp schema`.

use super::output::{Failure, print_json};

#[allow(clippy::unnecessary_wraps)] // The signature is that of every command.
pub(crate) fn run() -> Result<(), Failure> {
    print_json(&vmcp_config::schema());
    Ok(())
}

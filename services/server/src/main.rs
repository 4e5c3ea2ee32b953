//! The `vmcp` command.

use std::process::ExitCode;

/// A request makes some dozens of small allocations and two of a connection's buffer size, on whichever
/// worker it happens to be: with the system's allocator that is a sixth of its time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    vmcp::cli::run(std::env::args_os())
}

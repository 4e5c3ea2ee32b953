//! Smoke run of the whole benchmark: every response is correct, and every call reaches its backend once.

use std::process::Command;

#[test]
fn every_row_is_answered_correctly() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bench"));
    command.args(["--smoke", "--no-build"]);
    if let Some(program) = std::env::var_os("VMCP_BIN") {
        command.arg("--vmcp").arg(program);
    }
    let output = command.output().unwrap();
    let table = String::from_utf8_lossy(&output.stdout);
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{table}\n{log}");
}

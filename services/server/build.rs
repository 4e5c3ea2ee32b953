//! Has the linker lay the functions side by side that a gateway runs (`layout.txt`).
//!
//! A process keeps in memory what it touches of its program, in windows of 64 KiB. A tenth of the
//! code is run; scattered over all of it, it takes 5 MB more than side by side.

use std::path::Path;
use std::{env, fs, io};

/// What is in front of everything else. The linker's own script stays in force for the rest.
const HEAD: &str = "SECTIONS\n{\n  .text.run :\n  {\n";
const TAIL: &str = "  }\n}\nINSERT BEFORE .text;\n";

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=layout.txt");
    println!("cargo::rerun-if-env-changed=CARGO_ENCODED_RUSTFLAGS");
    let is = |name, value| env::var(name).is_ok_and(|found| found == value);
    // Other linkers than LLVM's and GNU's have no such scripts, and nobody measures a debug build's memory.
    let chosen = ["CARGO_ENCODED_RUSTFLAGS", "RUSTC_LINKER"].map(env::var).into_iter().flatten();
    let foreign = chosen.into_iter().any(|text| text.contains("fuse-ld") || text.contains("mold"));
    if foreign || !is("CARGO_CFG_TARGET_OS", "linux") || !is("PROFILE", "release") {
        return Ok(());
    }
    let sections = |name: &str| format!("    *(.text.{name} .text.unlikely.{name})\n");
    let names: String = fs::read_to_string("layout.txt")?.lines().map(sections).collect();
    let script = Path::new(&env::var("OUT_DIR").unwrap_or_default()).join("layout.ld");
    fs::write(&script, format!("{HEAD}{names}{TAIL}"))?;
    println!("cargo::rustc-link-arg-bins=-Wl,-T,{}", script.display());
    Ok(())
}

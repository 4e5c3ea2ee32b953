//! Locations of the measured programs.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::BoxError;

/// The programs of a run and a directory for their output.
#[derive(Debug)]
pub(super) struct Programs {
    pub(super) backend: PathBuf,
    pub(super) proxy: PathBuf,
    pub(super) load: PathBuf,
    pub(super) vmcp: PathBuf,
    scratch: PathBuf,
}

impl Programs {
    /// Finds the tools beside this program, and the gateway at `vmcp`; builds the missing ones.
    pub(super) fn find(vmcp: Option<PathBuf>, build_tools: bool) -> Result<Self, BoxError> {
        let this = env::current_exe()?;
        let beside = this.parent().ok_or("this program is in no directory")?;
        if build_tools {
            let bins = ["bench-backend", "bench-proxy", "bench-load"];
            build(beside, "vmcp-bench", &bins)?;
        }
        let vmcp = vmcp.map_or_else(
            || {
                // Built in a separate run of cargo, so that feature unification with the tools does not affect it.
                build(beside, "vmcp", &["vmcp"])?;
                Ok::<_, BoxError>(beside.join("vmcp"))
            },
            Ok,
        )?;
        let scratch = env::temp_dir().join(format!("vmcp-bench-{}", std::process::id()));
        fs::create_dir_all(&scratch)?;
        let tool = |name: &str| beside.join(name);
        let programs = Self {
            backend: tool("bench-backend"),
            proxy: tool("bench-proxy"),
            load: tool("bench-load"),
            vmcp,
            scratch,
        };
        for path in [&programs.backend, &programs.proxy, &programs.load, &programs.vmcp] {
            if !path.is_file() {
                return Err(format!("{} is missing", path.display()).into());
            }
        }
        Ok(programs)
    }

    /// Returns the path of a file of this run.
    pub(super) fn scratch(&self, name: &str) -> PathBuf {
        self.scratch.join(name)
    }
}

impl Drop for Programs {
    fn drop(&mut self) {
        // Remaining files in the system's temporary directory are harmless.
        _ = fs::remove_dir_all(&self.scratch);
    }
}

/// Builds programs of a package into the directory `profile`, with the profile of this program.
fn build(profile: &Path, package: &str, bins: &[&str]) -> Result<(), BoxError> {
    let target = profile.parent().ok_or("this program is in no target directory")?;
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(env!("CARGO_MANIFEST_DIR")).args(["build", "--package", package]);
    for bin in bins {
        command.args(["--bin", bin]);
    }
    if profile.ends_with("release") {
        command.arg("--release");
    }
    let status = command.arg("--target-dir").arg(target).status()?;
    if status.success() { Ok(()) } else { Err(format!("{package} does not build").into()) }
}

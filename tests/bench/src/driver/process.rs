//! A child process that lives as long as its handle.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::BoxError;

/// Timeout for process startup and background work.
pub(super) const WAIT_TIMEOUT: Duration = Duration::from_secs(20);

/// Poll interval.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// A child process, killed on drop.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    pid: u32,
    log: PathBuf,
}

impl Process {
    /// Starts a program that logs to `log`.
    pub(super) fn start(command: &mut Command, log: &Path) -> Result<Self, BoxError> {
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(log)?)
            .kill_on_drop(true)
            .spawn()?;
        let pid = child.id().ok_or("the process has ended already")?;
        Ok(Self { child, pid, log: log.to_owned() })
    }

    /// Starts a tool and reads the address that it prints.
    pub(super) async fn announced(
        command: &mut Command,
        log: &Path,
    ) -> Result<(Self, String), BoxError> {
        let mut process = Self::start(command, log)?;
        let stdout = process.child.stdout.take().ok_or("no stdout")?;
        let mut address = String::new();
        timeout(WAIT_TIMEOUT, BufReader::new(stdout).read_line(&mut address)).await??;
        if address.is_empty() {
            return Err(process.fault("ended at once"));
        }
        address.truncate(address.trim_end().len());
        Ok((process, address))
    }

    pub(super) fn pid(&self) -> u32 {
        self.pid
    }

    /// Returns `true` if the process has exited.
    pub(super) fn ended(&mut self) -> Result<bool, BoxError> {
        Ok(self.child.try_wait()?.is_some())
    }

    /// Kills the process and waits for its exit.
    pub(super) async fn end(mut self) -> Result<(), BoxError> {
        Ok(self.child.kill().await?)
    }

    /// Returns an error with this text and the end of the log.
    pub(super) fn fault(&self, what: &str) -> BoxError {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let last: Vec<_> = log.lines().rev().take(5).collect();
        let last: Vec<_> = last.into_iter().rev().collect();
        format!("process {} {what}\n{}", self.pid, last.join("\n")).into()
    }
}

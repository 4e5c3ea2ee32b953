//! Child processes that never outlive the test that started them.

use std::fmt;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::{TestError, scratch_dir};

/// Maximum length of a quoted log in bytes.
const QUOTED: usize = 4000;

static STARTED: AtomicU64 = AtomicU64::new(0);

/// A running program with its descendants, killed on drop.
pub struct Process {
    name: String,
    child: Child,
    group: u32,
    log: PathBuf,
}

impl Process {
    /// Starts the program. Its standard error is kept for messages; so is its standard output, unless `piped` reserves it
    /// for [`Process::lines`].
    ///
    /// # Errors
    /// Returns an error if the program cannot be started.
    pub fn start(name: &str, mut command: Command, piped: bool) -> Result<Self, TestError> {
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let logs = scratch_dir()?.join("logs");
        fs::create_dir_all(&logs)?;
        let log = logs.join(format!("{}-{number}-{name}.log", std::process::id()));
        let file = File::create(&log)?;
        let out = if piped { Stdio::piped() } else { Stdio::from(file.try_clone()?) };
        let child = command
            .stdin(if piped { Stdio::piped() } else { Stdio::null() })
            .stdout(out)
            .stderr(file)
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| {
                format!(
                    "cannot start {name} ({}): {error}",
                    command.as_std().get_program().display()
                )
            })?;
        let group = child.id().ok_or_else(|| format!("{name} ended at once"))?;
        Ok(Self { name: name.to_owned(), child, group, log })
    }

    /// Returns the process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.group
    }

    /// Returns the exit status, if the process has exited.
    ///
    /// # Errors
    /// Returns an error if the system reports no status.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>, TestError> {
        Ok(self.child.try_wait()?)
    }

    /// Waits for the exit.
    ///
    /// # Errors
    /// Returns an error if the system reports no status.
    pub async fn end(&mut self) -> Result<ExitStatus, TestError> {
        Ok(self.child.wait().await?)
    }

    /// Returns its standard output as lines, and its standard input; only once.
    ///
    /// # Errors
    /// Returns an error if the process was not started `piped`, or on a second call.
    pub fn lines(&mut self) -> Result<(Lines<BufReader<ChildStdout>>, ChildStdin), TestError> {
        let out = self.child.stdout.take().ok_or("standard output is not piped")?;
        let input = self.child.stdin.take().ok_or("standard input is not piped")?;
        Ok((BufReader::new(out).lines(), input))
    }

    /// Returns the end of its log.
    #[must_use]
    pub fn log(&self) -> String {
        let log = fs::read(&self.log).unwrap_or_default();
        String::from_utf8_lossy(&log[log.len().saturating_sub(QUOTED)..]).into_owned()
    }

    /// Kills the process with its descendants and waits for its exit.
    ///
    /// # Errors
    /// Returns an error if the system reports no status.
    pub async fn kill(mut self) -> Result<(), TestError> {
        self.end_now().await
    }

    /// As [`Process::kill`], by reference.
    ///
    /// # Errors
    /// Returns an error if the system reports no status.
    pub async fn end_now(&mut self) -> Result<(), TestError> {
        self.strike();
        self.child.wait().await?;
        Ok(())
    }

    fn strike(&self) {
        // The process group lives as long as any member; an empty group is not an error.
        let _ = std::process::Command::new("kill")
            .args(["-KILL", "--", &format!("-{}", self.group)])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.strike();
        if !std::thread::panicking() {
            // The log of a successful test is not needed.
            let _ = fs::remove_file(&self.log);
        }
    }
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Process")
            .field("name", &self.name)
            .field("id", &self.group)
            .finish_non_exhaustive()
    }
}

/// Runs a program to its end and returns its output.
///
/// # Errors
/// Returns an error with the program's output if it cannot be started, or fails.
pub(super) async fn output(name: &str, mut command: Command) -> Result<String, TestError> {
    let out = command.stdin(Stdio::null()).kill_on_drop(true).output().await.map_err(|error| {
        format!("cannot start {name} ({}): {error}", command.as_std().get_program().display())
    })?;
    let said = String::from_utf8_lossy(&out.stdout);
    if out.status.success() {
        return Ok(said.into_owned());
    }
    let complained = String::from_utf8_lossy(&out.stderr);
    Err(format!("{name} failed with {}:\n{complained}\n{said}", out.status).into())
}

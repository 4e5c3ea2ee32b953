//! Child processes that never outlive the test that started them.

use std::fmt;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::{Fault, scratch_dir};

/// How much of a log a message quotes, in bytes.
const QUOTED: usize = 4000;

static STARTED: AtomicU64 = AtomicU64::new(0);

/// A running program with everything that it started, killed when this is dropped.
pub struct Process {
    name: String,
    child: Child,
    group: u32,
    log: PathBuf,
}

impl Process {
    /// Starts the program. What it writes to standard error is kept for messages; standard output too, unless
    /// [`Process::lines`] is wanted, for which `piped` is true.
    ///
    /// # Errors
    /// When the program cannot be started.
    pub fn start(name: &str, mut command: Command, piped: bool) -> Result<Self, Fault> {
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

    /// The process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.group
    }

    /// How the process ended, if it did.
    ///
    /// # Errors
    /// When the system cannot tell.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>, Fault> {
        Ok(self.child.try_wait()?)
    }

    /// Waits for the end.
    ///
    /// # Errors
    /// When the system cannot tell.
    pub async fn end(&mut self) -> Result<ExitStatus, Fault> {
        Ok(self.child.wait().await?)
    }

    /// The lines of its standard output, once, and its standard input.
    ///
    /// # Errors
    /// When the process was not started `piped`, or on a second call.
    pub fn lines(&mut self) -> Result<(Lines<BufReader<ChildStdout>>, ChildStdin), Fault> {
        let out = self.child.stdout.take().ok_or("standard output is not piped")?;
        let input = self.child.stdin.take().ok_or("standard input is not piped")?;
        Ok((BufReader::new(out).lines(), input))
    }

    /// The end of what it logged.
    #[must_use]
    pub fn log(&self) -> String {
        let log = fs::read(&self.log).unwrap_or_default();
        String::from_utf8_lossy(&log[log.len().saturating_sub(QUOTED)..]).into_owned()
    }

    /// Ends it and everything it started, the hard way, and waits until it is gone.
    ///
    /// # Errors
    /// When the system cannot tell.
    pub async fn kill(mut self) -> Result<(), Fault> {
        self.end_now().await
    }

    /// As [`Process::kill`], for who keeps it.
    ///
    /// # Errors
    /// When the system cannot tell.
    pub async fn end_now(&mut self) -> Result<(), Fault> {
        self.strike();
        self.child.wait().await?;
        Ok(())
    }

    fn strike(&self) {
        // The group outlives its leader for as long as any member lives; an empty one is no fault.
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
            // The log of a test that succeeds is of no use to anybody.
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

/// Runs a program to its end and gives what it printed.
///
/// # Errors
/// When it cannot be started or fails; the message quotes what it printed.
pub(super) async fn output(name: &str, mut command: Command) -> Result<String, Fault> {
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

//! Sinks: destinations of formatted lines.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Destination of lines. Called from a thread that may block, one batch at a time.
///
/// Implemented for closures `FnMut(&[u8]) -> io::Result<()>`.
pub trait LineSink: Send + 'static {
    /// Writes complete lines.
    ///
    /// # Errors
    /// Not all lines were written. The log counts their events as lost, or passes the same lines
    /// again if responses wait.
    fn write(&mut self, lines: &[u8]) -> io::Result<()>;

    /// Reopens the destination after log rotation.
    ///
    /// # Errors
    /// The destination cannot be opened; lines continue to the old one.
    fn reopen(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Sink that writes to the standard output.
#[derive(Clone, Copy, Debug, Default)]
pub struct StdoutSink;

/// Sink that appends to a file, created with mode 0600.
#[derive(Debug)]
pub struct FileSink {
    path: PathBuf,
    file: File,
    /// `true` after a partial write, until the next line feed.
    is_line_incomplete: bool,
}

/// Error of opening the audit file.
#[derive(Debug, thiserror::Error)]
#[error("failed to open the audit file {}: {source}; check its directory and permissions", .path.display())]
pub struct OpenError {
    /// Path of the file.
    pub path: PathBuf,
    /// Cause.
    pub source: io::Error,
}

impl<F> LineSink for F
where
    F: FnMut(&[u8]) -> io::Result<()> + Send + 'static,
{
    fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        self(lines)
    }
}

// === impl StdoutSink ===

impl LineSink for StdoutSink {
    fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(lines)?;
        out.flush()
    }
}

// === impl FileSink ===

impl FileSink {
    /// Opens the file, or creates it.
    ///
    /// # Errors
    /// The file can neither be opened nor created.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, OpenError> {
        let path = path.into();
        match open(&path) {
            Ok(file) => Ok(Self { path, file, is_line_incomplete: false }),
            Err(source) => Err(OpenError { path, source }),
        }
    }
}

impl LineSink for FileSink {
    fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        // An incomplete line must not merge with the next one.
        if self.is_line_incomplete {
            self.file.write_all(b"\n")?;
            self.is_line_incomplete = false;
        }
        let mut rest = lines;
        while !rest.is_empty() {
            match self.file.write(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    let (done, left) = rest.split_at(written.min(rest.len()));
                    self.is_line_incomplete = done.last() != Some(&b'\n');
                    rest = left;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn reopen(&mut self) -> io::Result<()> {
        self.file = open(&self.path)?;
        self.is_line_incomplete = false;
        Ok(())
    }
}

fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

#[cfg(test)]
mod tests;

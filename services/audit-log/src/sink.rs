//! Where lines go.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Takes the lines. Called from a thread that may block, one batch at a time.
///
/// A closure `FnMut(&[u8]) -> io::Result<()>` is one.
pub trait LineSink: Send + 'static {
    /// Writes some whole lines.
    ///
    /// # Errors
    /// They are not written, or not all of them. The audit counts them as lost, or, where requests are
    /// to wait rather than events be lost, gives the same lines again.
    fn write(&mut self, lines: &[u8]) -> io::Result<()>;

    /// Opens anew what the lines go to: somebody has renamed the file.
    ///
    /// # Errors
    /// It cannot be opened; the lines go on to where they went.
    fn reopen(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Lines to the standard output.
#[derive(Clone, Copy, Debug, Default)]
pub struct StdoutSink;

/// Lines to the end of a file that only its owner may read (mode 0600 when it is made).
#[derive(Debug)]
pub struct FileSink {
    path: PathBuf,
    file: File,
    /// A line was written in part.
    is_line_incomplete: bool,
}

/// The audit file cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("the audit file {} cannot be opened for appending: {source}", .path.display())]
pub struct OpenError {
    /// Which file.
    pub path: PathBuf,
    /// Why.
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
    /// Opens the file, or makes it.
    ///
    /// # Errors
    /// Neither is possible.
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
        // What is left of a torn line must not spoil the next one.
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

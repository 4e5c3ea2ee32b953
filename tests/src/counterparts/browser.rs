//! A user's browser: Chromium from Debian's packages, driven by a script in `tests/tools`.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use std::{env, fs};

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncWriteExt, BufReader, Lines};
use tokio::process::{ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use super::install::chromium;
use super::{Process, TestError, npm, scratch_dir};

/// Page load timeout; browsers start slowly on a busy machine.
const WAIT_TIMEOUT: Duration = Duration::from_mins(1);

static STARTED: AtomicU64 = AtomicU64::new(0);

/// A running browser, closed when this is dropped.
#[derive(Debug)]
pub struct Browser {
    lines: Lines<BufReader<ChildStdout>>,
    input: ChildStdin,
    process: Process,
    // Dropped after the process that writes into it.
    _profile: Profile,
}

/// Profile directory of a browser: cookies, caches.
#[derive(Debug)]
struct Profile(PathBuf);

/// Settings of a browser window.
#[derive(Debug, Clone, Copy)]
pub struct Window {
    /// True if pages may run scripts.
    pub scripts: bool,
    /// In CSS pixels.
    pub width: u32,
    /// True if the user prefers a dark color scheme.
    pub dark: bool,
}

/// A page as seen by its user or read by a screen reader.
#[derive(Debug, Clone, Deserialize)]
pub struct Sight {
    /// Address.
    pub url: String,
    /// Title.
    pub title: String,
    /// Declared language.
    pub lang: String,
    /// Text.
    pub text: String,
    /// Headings of the first level.
    pub headings: Vec<String>,
    /// True if the page needs horizontal scrolling.
    pub overflows: bool,
    /// The focused element.
    pub focus: Option<Focus>,
    /// Complaints since the last page view: policy violations, failed requests.
    pub complaints: Vec<Complaint>,
    /// Violations that the accessibility audit found.
    #[serde(default)]
    pub audit: Vec<String>,
    /// The text of each frame in the page.
    pub framed: Vec<String>,
}

/// The focused element.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Focus {
    /// Its accessible name.
    pub name: String,
    /// Width of its focus ring in CSS pixels.
    pub ring: f64,
}

/// A message in the browser's console.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Complaint {
    /// Address of the page.
    pub at: String,
    /// Text of the message.
    pub text: String,
}

impl Window {
    /// A desktop window with scripts.
    pub const WIDE: Self = Self { scripts: true, width: 1280, dark: false };

    /// A window as narrow as a small phone.
    pub const NARROW: Self = Self { width: 360, ..Self::WIDE };
}

impl Browser {
    /// Starts a browser without cookies.
    ///
    /// # Errors
    /// Returns an error if the installation or the startup fails.
    pub async fn start(window: Window) -> Result<Self, TestError> {
        let (npm, chromium) = (npm().await?, chromium().await?);
        let Window { scripts, width, dark } = window;
        let libraries = [chromium.libraries(), chromium.libraries().join("pulseaudio")];
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let profile = format!("{}-browser-{number}", std::process::id());
        let profile = Profile(scratch_dir()?.join("runs").join(profile));
        fs::create_dir_all(&profile.0)?;
        let mut command = Command::new(npm.node24());
        command
            .arg(npm.script("browser.mjs"))
            .arg(chromium.file("usr/lib/chromium/chromium-headless-shell"))
            .arg(json!({ "script": scripts, "width": width, "dark": dark }).to_string())
            .arg(env::join_paths(libraries)?)
            .arg(chromium.file("fonts.conf"))
            .env("TMPDIR", &profile.0);
        let mut process = Process::start("browser", command, true)?;
        let (lines, input) = process.lines()?;
        Ok(Self { lines, input, process, _profile: profile })
    }

    /// Navigates to an address.
    ///
    /// # Errors
    /// Returns an error if no page loads.
    pub async fn open(&mut self, url: &str) -> Result<Sight, TestError> {
        self.act(&json!({ "open": url })).await
    }

    /// Presses a key, such as `Tab` or `Shift+Tab`.
    ///
    /// # Errors
    /// Returns an error if the key does not exist.
    pub async fn press(&mut self, key: &str) -> Result<Sight, TestError> {
        self.act(&json!({ "press": key })).await
    }

    /// Fills in the field of this name.
    ///
    /// # Errors
    /// Returns an error if the element is missing.
    pub async fn fill(&mut self, field: &str, text: &str) -> Result<Sight, TestError> {
        self.act(&json!({ "fill": field, "with": text })).await
    }

    /// Clicks on the button of this name.
    ///
    /// # Errors
    /// Returns an error if the button is missing, or not unique.
    pub async fn click(&mut self, button: &str) -> Result<Sight, TestError> {
        self.act(&json!({ "click": button })).await
    }

    /// Follows the link whose name contains this text.
    ///
    /// # Errors
    /// Returns an error if the element is missing.
    pub async fn follow(&mut self, link: &str) -> Result<Sight, TestError> {
        self.act(&json!({ "follow": link })).await
    }

    /// Waits until the address begins with this text.
    ///
    /// # Errors
    /// Returns an error on a timeout.
    pub async fn until(&mut self, start: &str) -> Result<Sight, TestError> {
        self.act(&json!({ "until": start })).await
    }

    /// Runs the accessibility audit of axe on the page.
    ///
    /// # Errors
    /// Returns an error if axe fails.
    pub async fn audit(&mut self) -> Result<Sight, TestError> {
        self.act(&json!({ "audit": true })).await
    }

    async fn act(&mut self, what: &Value) -> Result<Sight, TestError> {
        self.input.write_all(format!("{what}\n").as_bytes()).await?;
        let line = timeout(WAIT_TIMEOUT, self.lines.next_line()).await;
        let line = line.map_err(|_| format!("{what}: nothing happens"))??;
        let line = line.ok_or_else(|| format!("the browser ended\n{}", self.process.log()))?;
        let seen: Value = serde_json::from_str(&line)?;
        match seen["error"].as_str() {
            Some(error) => Err(format!("{what}: {error}").into()),
            None => Ok(Sight::deserialize(seen)?),
        }
    }
}

impl Drop for Profile {
    fn drop(&mut self) {
        // The browser exits when its driver does, and may write until then; some of its files may remain.
        let _ = fs::remove_dir_all(&self.0);
    }
}

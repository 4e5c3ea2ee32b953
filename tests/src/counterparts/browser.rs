//! A person's browser: Chromium of Debian's packages, driven by a script in `tests/tools`.

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
use super::{Fault, Process, npm, scratch_dir};

/// Until a page is there; browsers start slowly on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

static STARTED: AtomicU64 = AtomicU64::new(0);

/// A running browser, closed when this is dropped.
#[derive(Debug)]
pub struct Browser {
    lines: Lines<BufReader<ChildStdout>>,
    input: ChildStdin,
    process: Process,
    // Goes after the process that writes into it.
    _profile: Profile,
}

/// What a browser keeps while it runs: cookies, caches.
#[derive(Debug)]
struct Profile(PathBuf);

/// What a browser is like.
#[derive(Debug, Clone, Copy)]
pub struct Window {
    /// Whether pages may run scripts.
    pub scripts: bool,
    /// In CSS pixels.
    pub width: u32,
    /// Whether the person likes dark pages.
    pub dark: bool,
}

/// What somebody has before them, or a screen reader reads out.
#[derive(Debug, Clone, Deserialize)]
pub struct Sight {
    /// The address.
    pub url: String,
    /// The title.
    pub title: String,
    /// The language that the page says it is in.
    pub lang: String,
    /// The text.
    pub text: String,
    /// The headings of the first level.
    pub headings: Vec<String>,
    /// Whether one has to scroll sideways.
    pub overflows: bool,
    /// What the keyboard acts on.
    pub focus: Option<Focus>,
    /// What the browser complained about since the last sight: policies that were violated, requests that failed.
    pub complaints: Vec<Complaint>,
    /// What an audit found amiss.
    #[serde(default)]
    pub audit: Vec<String>,
    /// The text of each frame in the page.
    pub framed: Vec<String>,
}

/// What the keyboard acts on.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Focus {
    /// What it is called.
    pub name: String,
    /// How wide the ring around it is, in CSS pixels.
    pub ring: f64,
}

/// Something that the browser complained about.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Complaint {
    /// The address of the page.
    pub at: String,
    /// In its own words.
    pub text: String,
}

impl Window {
    /// That of a desktop, for pages that may do what they want.
    pub const WIDE: Self = Self { scripts: true, width: 1280, dark: false };

    /// That of a small telephone.
    pub const NARROW: Self = Self { width: 360, ..Self::WIDE };
}

impl Browser {
    /// Opens one, without cookies.
    ///
    /// # Errors
    /// When it cannot be installed or does not come up.
    pub async fn start(window: Window) -> Result<Self, Fault> {
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

    /// Goes to an address.
    ///
    /// # Errors
    /// When there is no page.
    pub async fn open(&mut self, url: &str) -> Result<Sight, Fault> {
        self.act(&json!({ "open": url })).await
    }

    /// Presses a key, as `Tab` or `Shift+Tab`.
    ///
    /// # Errors
    /// When there is no such key.
    pub async fn press(&mut self, key: &str) -> Result<Sight, Fault> {
        self.act(&json!({ "press": key })).await
    }

    /// Fills in the field of this name.
    ///
    /// # Errors
    /// When there is none.
    pub async fn fill(&mut self, field: &str, text: &str) -> Result<Sight, Fault> {
        self.act(&json!({ "fill": field, "with": text })).await
    }

    /// Clicks on the button of this name.
    ///
    /// # Errors
    /// When there is none, or there are several.
    pub async fn click(&mut self, button: &str) -> Result<Sight, Fault> {
        self.act(&json!({ "click": button })).await
    }

    /// Follows the link whose name has this in it.
    ///
    /// # Errors
    /// When there is none.
    pub async fn follow(&mut self, link: &str) -> Result<Sight, Fault> {
        self.act(&json!({ "follow": link })).await
    }

    /// Waits until the address begins so.
    ///
    /// # Errors
    /// When that takes too long.
    pub async fn until(&mut self, start: &str) -> Result<Sight, Fault> {
        self.act(&json!({ "until": start })).await
    }

    /// Has the page looked at by axe, which knows what keeps whom from using it.
    ///
    /// # Errors
    /// When axe fails.
    pub async fn audit(&mut self) -> Result<Sight, Fault> {
        self.act(&json!({ "audit": true })).await
    }

    async fn act(&mut self, what: &Value) -> Result<Sight, Fault> {
        self.input.write_all(format!("{what}\n").as_bytes()).await?;
        let line = timeout(PATIENCE, self.lines.next_line()).await;
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
        // The browser ends when it loses the one who drives it, and may write until then: some of it may stay.
        let _ = fs::remove_dir_all(&self.0);
    }
}

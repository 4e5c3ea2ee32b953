//! The MCP Inspector, which logs in by itself and stores its tokens.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use tokio::process::Command;
use tokio::time::{sleep, timeout};

use super::{Era, POLL_INTERVAL, Person, Process, TestError, folder, free_port, npm};

/// Run timeout; interpreters start slowly on a busy machine.
const WAIT_TIMEOUT: Duration = Duration::from_mins(1);

/// Output before the login page's URL.
const ASKS: &str = "Please navigate to: ";

/// An Inspector with the URL of a server and its own token storage.
#[derive(Debug)]
pub struct Inspector {
    url: String,
    era: Era,
    home: PathBuf,
    /// Redirect URI of its logins.
    callback: String,
    person: Person,
    /// Number of logins that it asked for.
    logins: u32,
}

impl Inspector {
    /// Creates an Inspector for this person, with empty token storage.
    ///
    /// # Errors
    /// Returns an error if the directory or the port cannot be allocated.
    pub async fn new(url: &str, era: Era, person: Person) -> Result<Self, TestError> {
        let home = folder("inspector")?;
        // The Inspector logs in if it can open a browser: the test acts as the browser.
        for name in ["xdg-open", "open"] {
            fs::write(home.join(name), "#!/bin/sh\n")?;
            fs::set_permissions(home.join(name), Permissions::from_mode(0o755))?;
        }
        let callback = format!("http://127.0.0.1:{}/oauth/callback", free_port().await?);
        Ok(Self { url: url.to_owned(), era, home, callback, person, logins: 0 })
    }

    /// Returns the number of logins that it asked for.
    #[must_use]
    pub fn logins(&self) -> u32 {
        self.logins
    }

    /// Runs a method with further arguments and returns the output. The person completes a login if one is asked for.
    ///
    /// # Errors
    /// Returns an error with the Inspector's output if it fails.
    pub async fn ask(&mut self, arguments: &[&str]) -> Result<Value, TestError> {
        let npm = npm().await?;
        let mut command = Command::new(npm.node24());
        let path = std::env::var("PATH").unwrap_or_default();
        command
            .arg(npm.module("@modelcontextprotocol/inspector/clients/launcher/build/index.js"))
            .args(["--cli", &self.url, "--transport", "http", "--protocol-era", self.era.name()])
            .args(["--callback-url", &self.callback, "--method"])
            .args(arguments)
            .env("HOME", &self.home)
            .env("MCP_STORAGE_DIR", self.home.join("storage"))
            .env("MCP_INSPECTOR_SECRET_STORE", "file")
            .env("MCP_AUTO_OPEN_ENABLED", "true")
            .env("PATH", format!("{}:{path}", self.home.display()));
        let mut process = Process::start("inspector", command, true)?;
        let printed = timeout(WAIT_TIMEOUT, self.hears(&mut process)).await;
        let printed =
            printed.map_err(|_| format!("the Inspector does not end:\n{}", process.log()))??;
        let end = process.end().await?;
        if !end.success() {
            let said = process.log();
            return Err(format!("the Inspector ended with {end}:\n{printed}\n{said}").into());
        }
        serde_json::from_str(&printed).map_err(|error| format!("{error} in {printed}").into())
    }

    /// Returns the complete output. The person completes logins meanwhile.
    async fn hears(&mut self, process: &mut Process) -> Result<String, TestError> {
        let (mut lines, _input) = process.lines()?;
        let (mut printed, mut asked) = (String::new(), false);
        loop {
            tokio::select! {
                line = lines.next_line() => match line? {
                    Some(line) => printed += &(line + "\n"),
                    None => return Ok(printed),
                },
                () = sleep(POLL_INTERVAL), if !asked => {
                    let log = process.log();
                    let Some((_, page)) = log.split_once(ASKS) else { continue };
                    let Some((page, _)) = page.split_once('\n') else { continue };
                    asked = true;
                    self.logins += 1;
                    let back = self.person.walks(page.trim(), &self.callback).await?;
                    self.person.opens(&back).await?;
                }
            }
        }
    }
}

impl Drop for Inspector {
    fn drop(&mut self) {
        // The directory contains tokens.
        let _ = fs::remove_dir_all(&self.home);
    }
}

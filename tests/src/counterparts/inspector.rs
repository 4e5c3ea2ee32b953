//! The MCP Inspector, that logs in by itself and keeps its tokens.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use tokio::process::Command;
use tokio::time::{sleep, timeout};

use super::{Era, Fault, GLANCE, Person, Process, folder, free_port, npm};

/// Until it has done what it was told; interpreters start slowly on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// What it says before the page that somebody is to open.
const ASKS: &str = "Please navigate to: ";

/// An Inspector that knows the URL of a server alone, and what it stored before.
#[derive(Debug)]
pub struct Inspector {
    url: String,
    era: Era,
    home: PathBuf,
    /// Where a browser comes back to it.
    callback: String,
    person: Person,
    /// How often it asked for somebody.
    logins: u32,
}

impl Inspector {
    /// One that has stored nothing yet, of this person.
    ///
    /// # Errors
    /// When there is no room or no port.
    pub async fn new(url: &str, era: Era, person: Person) -> Result<Self, Fault> {
        let home = folder("inspector")?;
        // It logs in where it can open a browser: here the test is the browser.
        for name in ["xdg-open", "open"] {
            fs::write(home.join(name), "#!/bin/sh\n")?;
            fs::set_permissions(home.join(name), Permissions::from_mode(0o755))?;
        }
        let callback = format!("http://127.0.0.1:{}/oauth/callback", free_port().await?);
        Ok(Self { url: url.to_owned(), era, home, callback, person, logins: 0 })
    }

    /// How often it asked for somebody to log in.
    #[must_use]
    pub fn logins(&self) -> u32 {
        self.logins
    }

    /// What it prints for a method and further arguments, after the person did in the browser what it asked for.
    ///
    /// # Errors
    /// When it fails; the message has what it said.
    pub async fn ask(&mut self, arguments: &[&str]) -> Result<Value, Fault> {
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
        let printed = timeout(PATIENCE, self.hears(&mut process)).await;
        let printed =
            printed.map_err(|_| format!("the Inspector does not end:\n{}", process.log()))??;
        let end = process.end().await?;
        if !end.success() {
            let said = process.log();
            return Err(format!("the Inspector ended with {end}:\n{printed}\n{said}").into());
        }
        serde_json::from_str(&printed).map_err(|error| format!("{error} in {printed}").into())
    }

    /// All that it prints. The person does what it asks for meanwhile.
    async fn hears(&mut self, process: &mut Process) -> Result<String, Fault> {
        let (mut lines, _input) = process.lines()?;
        let (mut printed, mut asked) = (String::new(), false);
        loop {
            tokio::select! {
                line = lines.next_line() => match line? {
                    Some(line) => printed += &(line + "\n"),
                    None => return Ok(printed),
                },
                () = sleep(GLANCE), if !asked => {
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
        // It has tokens in it.
        let _ = fs::remove_dir_all(&self.home);
    }
}

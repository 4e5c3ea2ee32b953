//! Runs of the MCP conformance suite, and comparison of two runs.

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Deserialize;
use tokio::process::Command;

use super::process::output;
use super::{TestError, npm, scratch_dir};

const PACKAGE: &str = "@modelcontextprotocol/conformance";

/// `-2026-11-21T09-41-10-549Z`, which the suite appends to the folder of each scenario.
const STAMP: usize = 25;

/// The scenarios of the tasks extension, which no revision requires.
const TASKS_SCENARIOS: [&str; 10] = [
    "tasks-lifecycle",
    "tasks-capability-negotiation",
    "tasks-wire-fields",
    "tasks-request-state-removal",
    "tasks-mrtr-input",
    "tasks-request-headers",
    "tasks-dispatch-and-envelope",
    "tasks-required-task-error",
    "tasks-mrtr-composition",
    "tasks-status-notifications",
];

static RUNS: AtomicU64 = AtomicU64::new(0);

/// A revision of MCP that the suite covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Revision {
    /// The last revision with sessions.
    V2025_11_25,
    /// The first revision without sessions.
    V2026_07_28,
}

/// Result of a check, ordered from best to worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Status {
    /// The requirement holds.
    Success,
    /// Nothing was checked, the suite left a note.
    Info,
    /// The requirement does not apply.
    Skipped,
    /// A recommendation does not hold.
    Warning,
    /// The requirement does not hold.
    Failure,
}

/// A requirement as checked by one scenario.
#[derive(Debug, Clone)]
pub struct Check {
    /// Scenario of the check.
    pub scenario: String,
    /// The suite's id of the requirement.
    pub id: String,
    /// Result; for several checks in one scenario, the worst.
    pub status: Status,
    /// The suite's message.
    pub error: Option<String>,
}

/// Result of one run of the suite, limited to the checks that the revision scores.
#[derive(Debug, Clone)]
pub struct Report {
    /// The checks, ordered by scenario and id.
    pub checks: Vec<Check>,
}

/// A check that holds in one run and not in another.
#[derive(Debug, Clone)]
pub struct Lost {
    /// The check in the worse run; `None` if it was not made.
    pub now: Option<Check>,
    /// The check in the better run.
    pub before: Check,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Written {
    id: String,
    status: Status,
    error_message: Option<String>,
}

impl Revision {
    /// Returns the date of the revision.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::V2025_11_25 => "2025-11-25",
            Self::V2026_07_28 => "2026-07-28",
        }
    }
}

impl Report {
    /// Returns the number of checks that hold.
    #[must_use]
    pub fn passed(&self) -> usize {
        self.checks.iter().filter(|check| check.status == Status::Success).count()
    }

    /// Returns the number of checks made.
    #[must_use]
    pub fn made(&self) -> usize {
        self.checks
            .iter()
            .filter(|check| !matches!(check.status, Status::Info | Status::Skipped))
            .count()
    }

    /// Returns the requirements that do not hold.
    pub fn unmet(&self) -> impl Iterator<Item = &Check> {
        self.checks.iter().filter(|check| check.status >= Status::Warning)
    }

    /// Returns the checks that hold in `before` but not here.
    #[must_use]
    pub fn lost(&self, before: &Self) -> Vec<Lost> {
        let key = |check: &Check| (check.scenario.clone(), check.id.clone());
        let now: BTreeMap<_, _> = self.checks.iter().map(|check| (key(check), check)).collect();
        let held = before.checks.iter().filter(|check| check.status == Status::Success);
        held.filter_map(|before| {
            let now = now.get(&key(before)).copied();
            let lost = now.is_none_or(|now| now.status != Status::Success);
            lost.then(|| Lost { now: now.cloned(), before: before.clone() })
        })
        .collect()
    }

    /// Formats the lost checks as lines, each with the suite's message.
    #[must_use]
    pub fn diff(&self, before: &Self) -> String {
        let lost = self.lost(before);
        let mut lines = format!("{self}, {} lost against {before}\n", lost.len());
        for lost in lost {
            // Writing to a string cannot fail.
            let _ = writeln!(lines, "  {lost}");
        }
        lines
    }

    fn read(dir: &Path, scored: &[String]) -> Result<Self, TestError> {
        let mut worst: BTreeMap<(String, String), Check> = BTreeMap::new();
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            let folder = entry.file_name().to_string_lossy().into_owned();
            let scenario = folder
                .strip_prefix("server-")
                .and_then(|rest| rest.get(..rest.len().checked_sub(STAMP)?));
            let Some(scenario) = scenario.filter(|scenario| scored.iter().any(|it| it == scenario))
            else {
                continue;
            };
            let checks = fs::read(entry.path().join("checks.json"))?;
            for Written { id, status, error_message } in
                serde_json::from_slice::<Vec<Written>>(&checks)?
            {
                let check = Check {
                    scenario: scenario.to_owned(),
                    id: id.clone(),
                    status,
                    error: error_message,
                };
                let entry = worst.entry((scenario.to_owned(), id)).or_insert_with(|| check.clone());
                if check.status > entry.status {
                    *entry = check;
                }
            }
        }
        Ok(Self { checks: worst.into_values().collect() })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} checks", self.passed(), self.made())
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scenario, id, status, error } = self;
        let reason = error.as_deref().unwrap_or("no reason given");
        let reason: String = reason.replace('\n', " ").chars().take(600).collect();
        write!(f, "{scenario} / {id}: {status:?}: {reason}")
    }
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.now {
            Some(now) => now.fmt(f),
            None => write!(f, "{} / {}: not made", self.before.scenario, self.before.id),
        }
    }
}

/// Runs the suite's server requirements against an MCP endpoint.
///
/// # Errors
/// Returns an error if the suite cannot be installed or does not finish. Unmet requirements are not errors.
pub async fn run_suite(url: &str, revision: Revision) -> Result<Report, TestError> {
    run_required(url, revision, None).await
}

/// As [`run_suite`], against an endpoint that requires this token.
///
/// # Errors
/// As [`run_suite`].
pub async fn run_suite_as(url: &str, revision: Revision, token: &str) -> Result<Report, TestError> {
    run_required(url, revision, Some(token)).await
}

/// Runs the suite's scenarios of the tasks extension against an MCP endpoint.
///
/// # Errors
/// As [`run_suite`].
pub async fn run_tasks_suite(url: &str) -> Result<Report, TestError> {
    let scored = TASKS_SCENARIOS.map(str::to_owned);
    run(url, ["--suite", "pending"], &scored, None).await
}

/// Returns the suite's scenarios, each with its part of the suite.
///
/// # Errors
/// Returns an error if the suite cannot be installed, or its output does not parse.
pub async fn scenarios() -> Result<Vec<(String, String)>, TestError> {
    let npm = npm().await?;
    let mut command = Command::new(npm.node24());
    command.arg(npm.module(PACKAGE).join("dist/index.js")).arg("list");
    let listed = listed(&output("the conformance suite", command).await?);
    if listed.is_empty() { Err("the conformance suite lists nothing".into()) } else { Ok(listed) }
}

async fn run_required(
    url: &str,
    revision: Revision,
    token: Option<&str>,
) -> Result<Report, TestError> {
    let requirements =
        npm().await?.module(PACKAGE).join("requirements").join(format!("{}.yaml", revision.name()));
    let scored = scored(&fs::read_to_string(requirements)?);
    run(url, ["--requirements", revision.name()], &scored, token).await
}

/// Runs a selection of the suite and counts only these scenarios.
async fn run(
    url: &str,
    selection: [&str; 2],
    scored: &[String],
    token: Option<&str>,
) -> Result<Report, TestError> {
    let npm = npm().await?;
    let number = RUNS.fetch_add(1, Ordering::Relaxed);
    let dir = scratch_dir()?.join("runs").join(format!("{}-{number}", std::process::id()));
    let mut command = Command::new(npm.node24());
    if let Some(token) = token {
        let origin = url.trim_end_matches("/mcp");
        command.arg("--import").arg(npm.script("bearer.mjs"));
        command.env("BEARER", token).env("ORIGIN", origin);
    }
    command
        .arg(npm.module(PACKAGE).join("dist/index.js"))
        .args(["server", "--url", url])
        .args(selection)
        .args(["--timeout", "15000", "-o"])
        .arg(&dir);
    // The exit code covers unscored scenarios too, so it is ignored.
    let said = output("the conformance suite", command).await;
    let report = Report::read(&dir, scored).map_err(|fault| match said {
        Ok(_) => fault,
        Err(said) => said,
    })?;
    fs::remove_dir_all(dir)?;
    if report.checks.is_empty() {
        return Err("the conformance suite made no check".into());
    }
    Ok(report)
}

/// Parses the scenarios that `list` prints as `  - NAME [REVISIONS]` below the title of a part.
fn listed(printed: &str) -> Vec<(String, String)> {
    let (mut part, mut all) = (String::new(), Vec::new());
    for line in printed.lines() {
        match line.strip_prefix("  - ") {
            Some(row) => {
                let name = row.split_whitespace().next().unwrap_or_default();
                all.push((part.clone(), name.to_owned()));
            }
            None => line.split(" scenarios").next().unwrap_or_default().clone_into(&mut part),
        }
    }
    all
}

/// Parses the scenarios below `server:` in the suite's list of requirements.
fn scored(requirements: &str) -> Vec<String> {
    let section = requirements.lines().skip_while(|line| *line != "server:").skip(1);
    let names = section.map_while(|line| line.trim_start().strip_prefix("- "));
    names.map(|name| name.trim().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(id: &str, status: Status) -> Check {
        Check { scenario: "scenario".to_owned(), id: id.to_owned(), status, error: None }
    }

    #[test]
    fn scored_scenarios_end_where_the_next_section_begins() {
        let requirements =
            "# server:\n\nserver:\n  - ping\n  - tools-list\n\nclient:\n  - initialize\n";
        assert_eq!(scored(requirements), ["ping", "tools-list"]);
    }

    #[test]
    fn listed_scenarios_belong_to_the_part_above_them() {
        let printed =
            "Server scenarios (x):\n  - ping [1,2]\n\nClient scenarios (y):\n  - auth/a [1]\n";
        let pair = |part: &str, name: &str| (part.to_owned(), name.to_owned());
        assert_eq!(listed(printed), [pair("Server", "ping"), pair("Client", "auth/a")]);
    }

    #[test]
    fn missing_check_counts_as_lost() {
        let before = Report { checks: vec![check("a", Status::Success), check("b", Status::Info)] };
        let now = Report { checks: vec![] };
        let lost = now.lost(&before);
        assert_eq!(lost.len(), 1);
        assert_eq!(lost[0].to_string(), "scenario / a: not made");
    }

    #[test]
    fn notes_do_not_count() {
        let checks = [Status::Success, Status::Info, Status::Skipped, Status::Warning]
            .map(|it| check("a", it));
        let report = Report { checks: checks.into() };
        assert_eq!((report.passed(), report.made(), report.unmet().count()), (1, 2, 1));
    }
}

//! CPU time and memory of a process, read from `/proc`.

use std::fs;
use std::time::Duration;

use crate::BoxError;

/// One tick of the counters in `/proc/PID/stat`: `USER_HZ` is 100 on every Linux.
const TICK: Duration = Duration::from_millis(10);

/// Counters of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// CPU time of all threads, past ones included, in whole ticks.
    coarse: Duration,
    /// CPU time of the current threads in nanoseconds.
    fine: Duration,
    /// Resident memory in KiB.
    pub resident_kib: u64,
}

impl Usage {
    /// Reads the counters of a running process.
    ///
    /// # Errors
    /// Returns an error if the process does not exist, or `/proc` is missing.
    pub fn of(pid: u32) -> Result<Self, BoxError> {
        let read = |name: &str| {
            fs::read_to_string(format!("/proc/{pid}/{name}"))
                .map_err(|error| format!("process {pid}: {error}"))
        };
        let coarse = ticks(&read("stat")?).ok_or("/proc/PID/stat has another form")?;
        let resident_kib = resident(&read("status")?).ok_or("/proc/PID/status has no VmRSS")?;
        let mut fine = Duration::ZERO;
        for task in fs::read_dir(format!("/proc/{pid}/task"))? {
            // A thread may end while the directory is read.
            let text = fs::read_to_string(task?.path().join("schedstat")).unwrap_or_default();
            fine += on_processor(&text).unwrap_or_default();
        }
        Ok(Self { coarse, fine, resident_kib })
    }

    /// Returns the CPU time since `before`.
    ///
    /// The fine counter omits threads that have ended; a larger difference of the coarse counter takes precedence.
    #[must_use]
    pub fn since(&self, before: &Self) -> Duration {
        let fine = self.fine.saturating_sub(before.fine);
        let coarse = self.coarse.saturating_sub(before.coarse);
        fine.max(coarse.saturating_sub(TICK * 2))
    }
}

/// Parses user and system time from the text of `stat`.
fn ticks(stat: &str) -> Option<Duration> {
    // The program's name may contain any character; it ends at the last parenthesis.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace().skip(11);
    let user: u32 = fields.next()?.parse().ok()?;
    let system: u32 = fields.next()?.parse().ok()?;
    Some(TICK * (user + system))
}

/// Parses the first number of `schedstat`.
fn on_processor(schedstat: &str) -> Option<Duration> {
    let nanos = schedstat.split_ascii_whitespace().next()?.parse().ok()?;
    Some(Duration::from_nanos(nanos))
}

/// Parses `VmRSS` from the text of `status`, in KiB.
fn resident(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_times_after_name_with_spaces_and_parentheses() {
        let stat = "42 (a) b (c) S 1 42 42 0 -1 4194560 900 0 0 0 150 25 0 0 20 0 3 0 100 1 1";
        assert_eq!(ticks(stat), Some(Duration::from_millis(1750)));
        assert_eq!(ticks("42 (cut off) S 1 2"), None);
    }

    #[test]
    fn reads_memory_and_nanoseconds() {
        assert_eq!(resident("Name:\tx\nVmHWM:\t 9 kB\nVmRSS:\t    4321 kB\n"), Some(4321));
        assert_eq!(resident("Name:\tx\n"), None);
        assert_eq!(on_processor("128240 921720 2\n"), Some(Duration::from_nanos(128_240)));
        assert_eq!(on_processor(""), None);
    }

    #[test]
    fn usage_includes_ended_threads() {
        let at = |coarse, fine| Usage {
            coarse: Duration::from_millis(coarse),
            fine: Duration::from_millis(fine),
            resident_kib: 0,
        };
        assert_eq!(at(110, 107).since(&at(100, 100)), Duration::from_millis(7));
        assert_eq!(at(600, 90).since(&at(100, 100)), Duration::from_millis(480));
    }

    #[test]
    fn measures_usage_of_current_process() {
        let usage = Usage::of(std::process::id()).unwrap();
        assert!(usage.resident_kib > 100);
        assert!(usage.fine > Duration::ZERO);
    }
}

//! Memory limit of the process's control group.

use std::fs;
use std::path::{Component, Path};

/// Divisor of the memory limit that yields the budget of messages.
const PART: usize = 4;

/// Budget of messages without a memory limit.
const DEFAULT: usize = 128 << 20;

/// Values from here on mean no limit, which cgroup v1 expresses as a large number.
const UNLIMITED: u64 = 1 << 60;

/// Returns the default budget of buffered message bytes: a quarter of the memory limit, and at least so much that one
/// message of `largest` bytes fits into the half that one caller may take.
#[must_use]
pub fn default_budget(largest: usize) -> usize {
    budget(limit_below(Path::new("/")), largest)
}

fn budget(limit: Option<u64>, largest: usize) -> usize {
    let quarter = |limit: u64| usize::try_from(limit).unwrap_or(usize::MAX) / PART;
    limit.map_or(DEFAULT, quarter).max(2 * largest)
}

/// Returns the lowest limit among the process's control groups and their ancestors, for cgroup v1 and v2.
fn limit_below(root: &Path) -> Option<u64> {
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    let mounts = root.join("sys/fs/cgroup");
    // Each line is `hierarchy:controllers:path`.
    let limits = groups.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        if controllers.is_empty() {
            // On hybrid systems, cgroup v2 is mounted below v1.
            let both = ["", "unified"].map(|mount| mounts.join(mount));
            return both.iter().filter_map(|mount| smallest(mount, path, "memory.max")).min();
        }
        let is_memory = controllers.split(',').any(|controller| controller == "memory");
        is_memory.then(|| smallest(&mounts.join("memory"), path, "memory.limit_in_bytes")).flatten()
    });
    limits.min()
}

/// The smallest limit on the way from a group up to where the hierarchy is mounted. In a container that may be the group
/// itself, while the path is the host's: what is not there has no limit.
fn smallest(mount: &Path, group: &str, file: &str) -> Option<u64> {
    let names = Path::new(group).components().filter_map(|part| match part {
        Component::Normal(name) => Some(name),
        Component::Prefix(_) | Component::RootDir | Component::CurDir | Component::ParentDir => {
            None
        }
    });
    let mut folder = mount.to_owned();
    let mut folders = vec![folder.clone()];
    for name in names {
        folder.push(name);
        folders.push(folder.clone());
    }
    let limit = |folder: &std::path::PathBuf| {
        let text = fs::read_to_string(folder.join(file)).ok()?;
        text.trim().parse().ok().filter(|limit| *limit < UNLIMITED)
    };
    folders.iter().filter_map(limit).min()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    /// A file system with these files; it is removed with this.
    struct Root(PathBuf);

    impl Root {
        fn new(files: &[(&str, &str)]) -> Self {
            static NUMBER: AtomicU32 = AtomicU32::new(0);
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let name = format!("vmcp-cgroup-{}-{number}", std::process::id());
            let root = std::env::temp_dir().join(name);
            for (name, text) in files {
                let path = root.join(name);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
            Self(root)
        }
    }

    impl Drop for Root {
        fn drop(&mut self) {
            _ = fs::remove_dir_all(&self.0);
        }
    }

    fn limit(files: &[(&str, &str)]) -> Option<u64> {
        limit_below(&Root::new(files).0)
    }

    #[test]
    fn smallest_limit_of_nested_groups_counts() {
        let groups = ("proc/self/cgroup", "0::/a/b/c\n");
        let outer = ("sys/fs/cgroup/a/memory.max", "1000000\n");
        let inner = ("sys/fs/cgroup/a/b/c/memory.max", "2000000\n");
        let none = ("sys/fs/cgroup/a/b/memory.max", "max\n");
        assert_eq!(limit(&[groups, outer, none, inner]), Some(1_000_000));
        assert_eq!(limit(&[groups, none, inner]), Some(2_000_000));
        assert_eq!(limit(&[groups, none]), None);
    }

    #[test]
    fn reads_container_limit_at_mount() {
        let mounted = ("sys/fs/cgroup/memory.max", "3000000");
        for path in ["0::/\n", "0::/docker/0123\n", "0::/../../0123\n"] {
            assert_eq!(limit(&[("proc/self/cgroup", path), mounted]), Some(3_000_000), "{path}");
        }
    }

    #[test]
    fn reads_limits_of_cgroup_version_1_and_2() {
        let groups = "5:cpu,cpuacct:/x\n4:memory:/docker/0123\n1:name=systemd:/y\n0::/docker\n";
        let groups = ("proc/self/cgroup", groups);
        let unlimited = ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
        let own = ("sys/fs/cgroup/memory/docker/0123/memory.limit_in_bytes", "4000000\n");
        let second = ("sys/fs/cgroup/unified/docker/memory.max", "5000000\n");
        assert_eq!(limit(&[groups, unlimited]), None);
        assert_eq!(limit(&[groups, unlimited, second]), Some(5_000_000));
        assert_eq!(limit(&[groups, unlimited, second, own]), Some(4_000_000));
    }

    #[test]
    fn budget_is_quarter_of_memory_or_one_message() {
        assert_eq!(limit(&[]), None);
        assert_eq!(budget(None, 8 << 20), 128 << 20);
        assert_eq!(budget(Some(1 << 30), 8 << 20), 256 << 20);
        assert_eq!(budget(Some(16 << 20), 8 << 20), 16 << 20);
    }
}

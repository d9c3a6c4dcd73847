//! Limits of this process's control group: memory and processor time, versions 1 and 2.
//!
//! A group is also bound by those above it, so the least limit on the way up counts.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::read;
use super::section::bytes;

/// Where groups are mounted.
const ROOT: &str = "/sys/fs/cgroup";

/// Maximum groups above one another that are looked at.
const DEPTH_MAX: usize = 32;

/// Version 1 tells a number near this where there is no limit.
const UNLIMITED: u64 = 1 << 60;

/// What the groups allow; `None` where they set no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Limits {
    memory: Option<u64>,
    memory_used: Option<u64>,
    /// In thousandths of a processor.
    processors: Option<u64>,
}

/// The limits of this process.
pub(super) fn limits() -> Limits {
    let groups = read("/proc/self/cgroup").unwrap_or_default();
    limits_at(Path::new(ROOT), &groups)
}

fn limits_at(root: &Path, groups: &str) -> Limits {
    let mut limits = Limits::default();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':');
        let (_, Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else {
            continue;
        };
        let has = |one| controllers.split(',').any(|name| name == one);
        if controllers.is_empty() {
            limits.take(&above(root, path), "memory.max", "memory.current", unified_processors);
        } else if has("memory") || has("cpu") {
            let name = if has("memory") { "memory" } else { "cpu" };
            let (memory, used) = ("memory.limit_in_bytes", "memory.usage_in_bytes");
            limits.take(&above(&root.join(name), path), memory, used, quota_processors);
        }
    }
    limits
}

/// The folder of a group and of all groups above it; in a container the mount may begin at the group itself.
fn above(mount: &Path, path: &str) -> Vec<PathBuf> {
    let own = mount.join(path.trim_start_matches('/'));
    own.ancestors()
        .take(DEPTH_MAX)
        .take_while(|folder| folder.starts_with(mount))
        .map(Path::to_path_buf)
        .collect()
}

impl Limits {
    fn take(
        &mut self,
        folders: &[PathBuf],
        memory: &str,
        used: &str,
        processors: fn(&Path) -> Option<u64>,
    ) {
        let number = |folder: &PathBuf, name: &str| read(folder.join(name))?.trim().parse().ok();
        let bound = folders.iter().filter_map(|folder| number(folder, memory));
        let least = bound.filter(|limit| *limit < UNLIMITED).min();
        self.memory = self.memory.into_iter().chain(least).min();
        let mut all = folders.iter();
        self.memory_used = self.memory_used.or_else(|| all.find_map(|it| number(it, used)));
        let shares = folders.iter().filter_map(|folder| processors(folder));
        self.processors = self.processors.into_iter().chain(shares.min()).min();
    }

    /// For people.
    pub(super) fn text(&self) -> String {
        let memory = self
            .memory
            .map_or("no limit on memory".to_owned(), |limit| format!("memory {}", bytes(limit)));
        let used = self.memory_used.map_or(String::new(), |used| format!(", {} used", bytes(used)));
        let processors = self.processors.map_or("no limit on processors".to_owned(), |limit| {
            format!("{}.{:03} processors", limit / 1_000, limit % 1_000)
        });
        format!("{memory}{used}; {processors}")
    }

    /// For programs.
    pub(super) fn view(&self) -> Value {
        json!({
            "memory_bytes": self.memory,
            "memory_used_bytes": self.memory_used,
            "processors_permille": self.processors,
        })
    }
}

/// Version 2: `max 100000`, or microseconds in each period.
fn unified_processors(folder: &Path) -> Option<u64> {
    let text = read(folder.join("cpu.max"))?;
    let (quota, period) = text.trim().split_once(' ')?;
    share(quota.parse().ok()?, period.parse().ok()?)
}

/// Version 1: -1, or microseconds in each period.
fn quota_processors(folder: &Path) -> Option<u64> {
    let number = |name| read(folder.join(name))?.trim().parse().ok();
    share(number("cpu.cfs_quota_us")?, number("cpu.cfs_period_us")?)
}

fn share(quota: u64, period: u64) -> Option<u64> {
    quota.checked_mul(1_000)?.checked_div(period)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, name: &str, text: &str) {
        let path = root.join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("it is made");
        std::fs::write(path, text).expect("it is written");
    }

    #[test]
    fn the_least_limit_on_the_way_up_counts() {
        let root = tempfile::tempdir().expect("a folder");
        let root = root.path();
        write(root, "kubepods/pod/memory.max", "4294967296\n");
        write(root, "kubepods/pod/cpu.max", "250000 100000\n");
        write(root, "kubepods/pod/gateway/memory.max", "max\n");
        write(root, "kubepods/pod/gateway/memory.current", "1048576\n");
        write(root, "kubepods/pod/gateway/cpu.max", "max 100000\n");
        let limits = limits_at(root, "0::/kubepods/pod/gateway\n");
        assert_eq!(limits.text(), "memory 4.0 GiB, 1 MiB used; 2.500 processors");
        assert_eq!(limits_at(root, "0::/elsewhere\n"), Limits::default());
    }

    #[test]
    fn the_first_version_is_read_too() {
        let root = tempfile::tempdir().expect("a folder");
        let root = root.path();
        write(root, "memory/docker/memory.limit_in_bytes", "1073741824");
        write(root, "memory/memory.limit_in_bytes", "9223372036854771712");
        write(root, "cpu/docker/cpu.cfs_quota_us", "-1");
        write(root, "cpu/docker/cpu.cfs_period_us", "100000");
        let limits = limits_at(root, "4:memory:/docker\n3:cpu,cpuacct:/docker\n1:name=systemd:/\n");
        assert_eq!(limits, Limits { memory: Some(1 << 30), ..Limits::default() });
        assert_eq!(limits.text(), "memory 1.0 GiB; no limit on processors");
    }
}

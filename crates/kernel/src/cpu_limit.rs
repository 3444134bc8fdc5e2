//! Limits on the CPU time of control groups, of both versions: the scheduler's bandwidth control (sched-bwc.rst and cgroup-v2.rst of the kernel).
//!
//! A group with a limit may use its quota of CPU time in each period. When it has used that up, all its threads are held up until the next period begins.

use std::fs::read_to_string;
use std::path::{Component, Path, PathBuf};
use wire::Nanos;

/// The limit of a control group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuLimit {
    folder: PathBuf,
    quota: Nanos,
    period: Nanos,
}

impl CpuLimit {
    /// The narrowest limit of a process: that of its group, or of one that holds it. `None` without any, and where it cannot be seen from here.
    #[must_use]
    pub fn of(pid: u32) -> Option<Self> {
        let groups = read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
        let (folder, top) = folder(&groups, &read_to_string("/proc/self/mountinfo").ok()?)?;
        Self::narrowest(&folder, &top)
    }

    fn narrowest(folder: &Path, top: &Path) -> Option<Self> {
        let around = folder.ancestors().take_while(|folder| folder.starts_with(top));
        around.filter_map(Self::read).min_by(|one, other| one.cpus().total_cmp(&other.cpus()))
    }

    /// That of the group whose folder this is.
    #[must_use]
    pub fn read(folder: &Path) -> Option<Self> {
        let text = |name| read_to_string(folder.join(name));
        let first = || Some(text("cpu.cfs_quota_us").ok()? + &text("cpu.cfs_period_us").ok()?);
        let text = text("cpu.max").ok().or_else(first)?;
        // Without a limit the quota is `max`, or −1.
        let mut numbers = text.split_whitespace().map(|number| number.parse::<u64>().ok());
        let [quota, period] = [numbers.next()??, numbers.next()??].map(|micros| Nanos(micros * 1000));
        (quota.0 > 0 && period.0 > 0).then(|| Self { folder: folder.to_owned(), quota, period })
    }

    /// How many CPUs the group may use at most, in the mean.
    #[must_use]
    pub fn cpus(&self) -> f64 {
        self.quota.0 as f64 / self.period.0 as f64
    }

    /// How threads were held up so far because the quota was used up. `None` if the group has gone.
    #[must_use]
    pub fn throttled(&self) -> Option<Throttled> {
        let text = read_to_string(self.folder.join("cpu.stat")).ok()?;
        let number =
            |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok());
        // The first version counts in nanoseconds.
        let held_up =
            number("throttled_usec ").map_or_else(|| number("throttled_time "), |time| Some(time * 1000))?;
        Some(Throttled { periods: Nanos(number("nr_throttled ")? * self.period.0), cpus: Nanos(held_up) })
    }
}

/// How threads of a group were held up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Throttled {
    /// The length of the periods in which the quota was used up.
    pub periods: Nanos,
    /// For how long that held CPUs up, summed over CPUs.
    pub cpus: Nanos,
}

/// The folder of a process's group, and that of the outermost group that can be seen, by its `/proc/PID/cgroup` and what is mounted.
fn folder(groups: &str, mounts: &str) -> Option<(PathBuf, PathBuf)> {
    let is_cpu = |controllers: &str| controllers.split(',').any(|controller| controller == "cpu");
    let of_first = |line: &'_ str| {
        let (controllers, group) = line.split_once(':')?.1.split_once(':')?;
        is_cpu(controllers).then(|| group.to_owned())
    };
    let first = groups.lines().find_map(of_first);
    let second = || Some(groups.lines().find_map(|line| line.strip_prefix("0::"))?.to_owned());
    let is_first = first.is_some();
    let group = first.or_else(second)?;
    mounts.lines().find_map(|line| {
        let (mount, of) = line.split_once(" - ")?;
        let mut of = of.split(' ');
        let is_it = match of.next()? {
            "cgroup" => is_first && is_cpu(of.nth(1)?),
            "cgroup2" => !is_first,
            _ => false,
        };
        let mut fields = mount.split(' ').skip(3);
        let (root, top) = (fields.next()?, Path::new(fields.next()?));
        let inside = Path::new(&group).strip_prefix(root).ok();
        // In a name space of its own a process is at the top of what is mounted.
        let inside = inside.or_else(|| (group == "/").then_some(Path::new("")));
        // What is above that cannot be seen.
        let inside = inside.filter(|path| !path.components().any(|part| part == Component::ParentDir));
        is_it.then_some((top.join(inside?), top.to_owned()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{create_dir_all, write};

    const MOUNTS: &str = "24 1 0:22 / /proc rw - proc proc rw
30 24 0:26 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:9 - cgroup cgroup rw,cpu,cpuacct
31 24 0:27 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset
32 24 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
";

    fn folders(groups: &str, mounts: &str) -> Option<(String, String)> {
        let text = |path: PathBuf| path.display().to_string();
        folder(groups, mounts).map(|(folder, top)| (text(folder), text(top)))
    }

    #[test]
    fn the_folder_of_a_group_is_found_in_both_versions() {
        let of = |folder: &str, top: &str| Some((folder.to_owned(), top.to_owned()));
        let first = "5:cpuset:/elsewhere\n4:cpu,cpuacct:/docker/abc\n0::/docker/abc\n";
        assert_eq!(
            folders(first, MOUNTS),
            of("/sys/fs/cgroup/cpu,cpuacct/docker/abc", "/sys/fs/cgroup/cpu,cpuacct")
        );
        let unified = "32 24 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n";
        assert_eq!(
            folders("0::/system.slice/shop.service\n", unified),
            of("/sys/fs/cgroup/system.slice/shop.service", "/sys/fs/cgroup")
        );
        // In a container: what is mounted is its own group.
        let inside = "32 24 0:28 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw\n";
        assert_eq!(folders("0::/docker/abc/job\n", inside), of("/sys/fs/cgroup/job", "/sys/fs/cgroup"));
        assert_eq!(folders("0::/\n", inside), of("/sys/fs/cgroup/", "/sys/fs/cgroup"));
        assert_eq!(folders("0::/../other\n", unified), None);
        assert_eq!(folders("0::/docker/other\n", inside), None, "another container");
        // Of another name space, whose mounts are looked at.
        let other = "32 24 0:28 /../other /sys/fs/cgroup ro - cgroup2 cgroup rw\n";
        assert_eq!(folders("0::/../other/job\n", other), of("/sys/fs/cgroup/job", "/sys/fs/cgroup"));
        assert_eq!(folders("0::/\n", ""), None);
    }

    #[test]
    fn the_narrowest_limit_counts() {
        let top = tempfile::tempdir().unwrap();
        let (outer, inner) = (top.path().join("outer"), top.path().join("outer/inner"));
        create_dir_all(&inner).unwrap();
        let set = |folder: &Path, limit: &str| write(folder.join("cpu.max"), limit).unwrap();
        let found = || CpuLimit::narrowest(&inner, top.path());
        assert_eq!(found(), None);
        set(&inner, "max 100000\n");
        assert_eq!(found(), None);
        set(&outer, "150000 100000\n");
        write(outer.join("cpu.stat"), "usage_usec 7\nnr_periods 9\nnr_throttled 4\nthrottled_usec 1\n")
            .unwrap();
        let limit = found().unwrap();
        let throttled = Throttled { periods: Nanos(400_000_000), cpus: Nanos(1000) };
        assert_eq!((limit.cpus(), limit.throttled()), (1.5, Some(throttled)));
        set(&inner, "20000 10000\n");
        assert_eq!(found(), Some(limit));
        // The first version.
        let set = |name: &str, number: &str| write(inner.join(name), number).unwrap();
        std::fs::remove_file(inner.join("cpu.max")).unwrap();
        set("cpu.cfs_quota_us", "-1\n");
        set("cpu.cfs_period_us", "10000\n");
        assert_eq!(found().unwrap().cpus(), 1.5);
        set("cpu.cfs_quota_us", "5000\n");
        assert_eq!((found().unwrap().cpus(), found().unwrap().throttled()), (0.5, None));
        set("cpu.stat", "nr_periods 9\nnr_throttled 2\nthrottled_time 7\n");
        assert_eq!(
            found().unwrap().throttled(),
            Some(Throttled { periods: Nanos(20_000_000), cpus: Nanos(7) })
        );
    }
}

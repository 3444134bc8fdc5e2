//! Cgroups: cgroups(7), proc_pid_cgroup(5).

/// Bytes of a path that are kept.
const LONGEST: usize = 1024;

/// The cgroup of a process, from its root, by its `/proc/PID/cgroup`: that of the second version, or else the longest of the first.
#[must_use]
pub fn cgroup_in(text: &str) -> String {
    let paths = || text.lines().filter_map(|line| line.splitn(3, ':').nth(2));
    let second = text.lines().find_map(|line| line.strip_prefix("0::"));
    let path = second.filter(|path| *path != "/").or_else(|| paths().max_by_key(|path| path.len()));
    let path = path.filter(|path| *path != "/").unwrap_or("");
    path[..path.floor_char_boundary(LONGEST)].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cgroups_of_both_versions() {
        for (text, path) in [
            ("0::/user.slice/session-1.scope\n", "/user.slice/session-1.scope"),
            ("0::/\n", ""),
            ("12:cpu,cpuacct:/docker/abc\n1:name=systemd:/docker/abc\n0::/\n", "/docker/abc"),
            ("", ""),
        ] {
            assert_eq!(cgroup_in(text), path, "{text}");
        }
    }
}

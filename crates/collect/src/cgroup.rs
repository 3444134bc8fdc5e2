//! Cgroups of processes.

/// The cgroup of a process, from its root.
pub fn cgroup(pid: u32) -> Option<String> {
    Some(archive::cgroup_in(&std::fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?))
}

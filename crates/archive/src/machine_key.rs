//! What tells a machine from all others.

/// Of the machine of that name: `/etc/machine-id` if it is this one, or else the name.
#[must_use]
pub fn machine_key(host: &str) -> String {
    let read = |path: &str| std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
    let is_here = read("/proc/sys/kernel/hostname").as_deref() == Some(host);
    let id = read("/etc/machine-id").filter(|id| is_here && !id.is_empty());
    id.unwrap_or_else(|| host.to_owned())
}

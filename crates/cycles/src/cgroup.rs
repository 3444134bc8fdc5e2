//! What the path of a cgroup says: systemd's unit and slice, whose session it is, the container and the pod.
//!
//! Nothing of it is stored: it is found in the path when it is asked for. systemd.slice(5), systemd.scope(5); container runtimes put the number of
//! a container, 64 hexadecimal digits, into the last part, each with a prefix of its own.

/// So many digits of a container's number are shown, as container tools do.
const SHOWN: usize = 12;
/// How many digits it has.
const DIGITS: usize = 64;
/// What systemd calls its units that processes are in.
const UNITS: [&str; 5] = [".service", ".scope", ".socket", ".mount", ".swap"];

/// The innermost unit: `nginx.service`, `session-1.scope`.
pub fn unit(path: &str) -> &str {
    last_part(path, |part| UNITS.iter().any(|kind| part.ends_with(kind) && part.len() > kind.len()))
}

/// The innermost slice: `system.slice`, `user-1000.slice`.
pub fn slice(path: &str) -> &str {
    last_part(path, |part| part.ends_with(".slice") && part.len() > ".slice".len())
}

/// The number of the user that a session or a user's service belongs to.
pub fn user(path: &str) -> &str {
    let number = |part: &'static str, end: &'static str| {
        move |of: &str| -> Option<usize> {
            let digits = of.strip_prefix(part)?.strip_suffix(end)?;
            (!digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())).then_some(digits.len())
        }
    };
    for part in path.split('/') {
        for (begin, end) in [("user-", ".slice"), ("user@", ".service")] {
            if let Some(length) = number(begin, end)(part) {
                return &part[begin.len()..begin.len() + length];
            }
        }
    }
    ""
}

/// The whole number of the container, or its name where it has one (LXC, systemd-nspawn). The innermost, if they are nested.
pub fn container(path: &str) -> &str {
    path.rsplit('/').find_map(container_of).unwrap_or("")
}

/// As container tools show it: the first digits of its number, or its name.
pub fn short_container(path: &str) -> &str {
    let whole = container(path);
    if is_number(whole) { &whole[..SHOWN] } else { whole }
}

/// The pod of Kubernetes, by its UID; or of Podman, by its number.
pub fn pod(path: &str) -> String {
    path.rsplit('/').find_map(pod_of).unwrap_or_default()
}

fn last_part(path: &str, is: impl Fn(&str) -> bool) -> &str {
    path.rsplit('/').find(|part| is(part)).unwrap_or("")
}

fn is_number(text: &str) -> bool {
    text.len() == DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn container_of(part: &str) -> Option<&str> {
    let part = part.strip_suffix(".scope").unwrap_or(part);
    // CRI-O's and Podman's monitors, and Podman's pods, have such numbers as well.
    if part.contains("conmon") || part.contains("libpod_pod_") {
        return None;
    }
    let end = part.rsplit(['-', ':']).next().unwrap_or(part);
    if is_number(end) {
        return Some(end);
    }
    ["lxc.payload.", "systemd-nspawn@"]
        .iter()
        .find_map(|prefix| part.strip_prefix(prefix))
        .map(|name| name.strip_suffix(".service").unwrap_or(name))
        .filter(|name| !name.is_empty())
}

fn pod_of(part: &str) -> Option<String> {
    let part = part.strip_suffix(".slice").unwrap_or(part);
    if let Some((_, number)) = part.split_once("libpod_pod_") {
        return is_number(number).then(|| number[..SHOWN].to_owned());
    }
    // With systemd's cgroups dashes are underscores, for dashes are between slices.
    let uid = part.strip_prefix("pod").or_else(|| part.rsplit_once("-pod").map(|(_, uid)| uid))?;
    let uid = uid.replace('_', "-");
    let is_uid = match uid.len() {
        36 => uid.split('-').map(str::len).eq([8, 4, 4, 4, 12]),
        // Of pods that a node starts by itself.
        32 => !uid.contains('-'),
        _ => false,
    };
    (is_uid && uid.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')).then_some(uid)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "3f4e5d6c7b8a99887766554433221100ffeeddccbbaa00112233445566778899";
    const UID: &str = "2c48913c-b29f-11e7-9350-020968147796";

    #[test]
    fn paths_say_unit_slice_user_container_and_pod() {
        let low = UID.replace('-', "_");
        let short = &ID[..12];
        for (path, [of_unit, of_slice, of_user, of_container, of_pod]) in [
            ("", ["", "", "", "", ""]),
            ("/", ["", "", "", "", ""]),
            ("/system.slice/nginx.service", ["nginx.service", "system.slice", "", "", ""]),
            ("/system.slice/nginx.service/worker", ["nginx.service", "system.slice", "", "", ""]),
            (
                "/user.slice/user-1000.slice/session-3.scope",
                ["session-3.scope", "user-1000.slice", "1000", "", ""],
            ),
            (
                "/user.slice/user-1000.slice/user@1000.service/app.slice/foo.service",
                ["foo.service", "app.slice", "1000", "", ""],
            ),
            ("/user@7.service", ["user@7.service", "", "7", "", ""]),
            ("/user.slice/user-x.slice", ["", "user-x.slice", "", "", ""]),
            (&format!("/docker/{ID}"), ["", "", "", short, ""]),
            (
                &format!("/system.slice/docker-{ID}.scope"),
                [&format!("docker-{ID}.scope"), "system.slice", "", short, ""],
            ),
            (&format!("/docker/{ID}/system.slice/x.service"), ["x.service", "system.slice", "", short, ""]),
            (&format!("/kubepods/burstable/pod{UID}/{ID}"), ["", "", "", short, UID]),
            (&format!("/kubepods/pod{UID}"), ["", "", "", "", UID]),
            (&format!("/kubepods/pod{}/{ID}", &ID[..32]), ["", "", "", short, &ID[..32]]),
            (
                &format!(
                    "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{low}.slice/cri-containerd-{ID}.scope"
                ),
                [
                    &format!("cri-containerd-{ID}.scope"),
                    &format!("kubepods-burstable-pod{low}.slice"),
                    "",
                    short,
                    UID,
                ],
            ),
            (&format!("/kubepods-besteffort-pod{low}.slice:cri-containerd:{ID}"), ["", "", "", short, ""]),
            (
                &format!("/kubepods.slice/kubepods-pod{low}.slice/crio-{ID}.scope"),
                [&format!("crio-{ID}.scope"), &format!("kubepods-pod{low}.slice"), "", short, UID],
            ),
            (
                &format!("/kubepods.slice/kubepods-pod{low}.slice/crio-conmon-{ID}.scope"),
                [&format!("crio-conmon-{ID}.scope"), &format!("kubepods-pod{low}.slice"), "", "", UID],
            ),
            (
                &format!("/machine.slice/libpod-{ID}.scope/container"),
                [&format!("libpod-{ID}.scope"), "machine.slice", "", short, ""],
            ),
            (
                &format!("/machine.slice/machine-libpod_pod_{ID}.slice/libpod-{ID}.scope"),
                [
                    &format!("libpod-{ID}.scope"),
                    &format!("machine-libpod_pod_{ID}.slice"),
                    "",
                    short,
                    &ID[..12],
                ],
            ),
            ("/lxc.payload.web/init.scope", ["init.scope", "", "", "web", ""]),
            (
                "/machine.slice/systemd-nspawn@web.service/payload",
                ["systemd-nspawn@web.service", "machine.slice", "", "web", ""],
            ),
            // Too short, and no digits.
            (&format!("/docker/{}", &ID[..63]), ["", "", "", "", ""]),
            ("/pod-a/podcast/kubepods-podx.slice", ["", "kubepods-podx.slice", "", "", ""]),
            ("/.service/.slice", ["", "", "", "", ""]),
            ("/ümläut/pod\u{202e}", ["", "", "", "", ""]),
        ] {
            assert_eq!(
                [unit(path), slice(path), user(path), short_container(path), &pod(path)],
                [of_unit, of_slice, of_user, of_container, of_pod],
                "{path}"
            );
        }
        assert_eq!(container(&format!("/docker/{ID}")), ID);
    }
}

//! By what samples can be chosen and told apart: what is stored of who ran, and what follows from it.

use super::cgroup;
use super::pattern::{is_in_cgroup, last};
use archive::{CollectorEpoch, Label, MachineInfo, is_label_name};
use globset::GlobMatcher;
use std::borrow::Cow;
use std::fmt;

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LabelKey {
    /// Name of the process.
    Process,
    /// Name of the thread.
    Thread,
    /// Number of the process, if it has lived long.
    Pid,
    /// Its command line, if the collector was told to keep these.
    Command,
    /// Path of its cgroup.
    Cgroup,
    /// systemd's unit.
    Unit,
    /// systemd's slice.
    Slice,
    /// Number of the user whose session or service it is.
    User,
    /// Container.
    Container,
    /// Pod.
    Pod,
    /// Machine, by name.
    Machine,
    /// A label that users have given to a process or a collector.
    Own(String),
}

/// All but the last, by name.
const NAMED: [(&str, LabelKey); 11] = [
    ("process", LabelKey::Process),
    ("thread", LabelKey::Thread),
    ("pid", LabelKey::Pid),
    ("command", LabelKey::Command),
    ("cgroup", LabelKey::Cgroup),
    ("unit", LabelKey::Unit),
    ("slice", LabelKey::Slice),
    ("user", LabelKey::User),
    ("container", LabelKey::Container),
    ("pod", LabelKey::Pod),
    ("machine", LabelKey::Machine),
];

/// What comes before the name of a user's label.
const OWN: &str = "label.";

/// All names, for messages.
pub const NAMES: &str =
    "process, thread, pid, command, cgroup, unit, slice, user, container, pod, machine, label.NAME";

impl LabelKey {
    /// The one with this name.
    pub fn named(name: &str) -> Option<Self> {
        if let Some(label) = name.strip_prefix(OWN) {
            return is_label_name(label).then(|| Self::Own(label.to_owned()));
        }
        NAMED.iter().find(|(known, _)| *known == name).map(|(_, key)| key.clone())
    }

    /// What it is of a process; nothing where it has none. Machines and what collectors are called are of the epoch.
    pub fn of<'a>(&self, label: &'a Label) -> Cow<'a, str> {
        let cgroup = &label.cgroup;
        Cow::Borrowed(match self {
            Self::Process => &label.process,
            Self::Thread => &label.thread,
            Self::Command => &label.command,
            Self::Cgroup => cgroup,
            Self::Unit => cgroup::unit(cgroup),
            Self::Slice => cgroup::slice(cgroup),
            Self::User => cgroup::user(cgroup),
            Self::Container => cgroup::short_container(cgroup),
            Self::Own(name) => label.user_labels.get(name).map_or("", String::as_str),
            Self::Machine => "",
            Self::Pid if label.pid == 0 => "",
            Self::Pid => return Cow::Owned(label.pid.to_string()),
            Self::Pod => return Cow::Owned(cgroup::pod(cgroup)),
        })
    }

    /// What it is of an epoch.
    pub fn of_epoch<'a>(&self, epoch: &'a CollectorEpoch, machine: Option<&'a MachineInfo>) -> &'a str {
        match self {
            Self::Machine => machine.map_or("", |machine| &machine.host),
            Self::Own(name) => epoch.setting.labels.get(name).map_or("", String::as_str),
            _ => "",
        }
    }

    /// Whether a process is meant by a pattern.
    pub fn matches(&self, glob: &GlobMatcher, label: &Label) -> bool {
        match self {
            Self::Cgroup => is_in_cgroup(glob, &label.cgroup),
            Self::Container => {
                let whole = cgroup::container(&label.cgroup);
                glob.is_match(whole) || glob.is_match(cgroup::short_container(&label.cgroup))
            }
            Self::Command => {
                let program = label.command.split(' ').next().unwrap_or("");
                glob.is_match(&label.command) || glob.is_match(last(program))
            }
            _ => glob.is_match(&*self.of(label)),
        }
    }
}

impl fmt::Display for LabelKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Own(name) => write!(f, "{OWN}{name}"),
            key => f.write_str(NAMED.iter().find(|(_, known)| known == key).map_or("", |(name, _)| name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pattern::glob;

    #[test]
    fn keys_have_names() {
        for (name, key) in NAMED {
            assert_eq!((LabelKey::named(name), key.to_string().as_str()), (Some(key.clone()), name));
            assert!(NAMES.contains(name));
        }
        let own = LabelKey::Own("a.b".to_owned());
        assert_eq!(own.to_string(), "label.a.b");
        assert_eq!(LabelKey::named("label.a.b"), Some(own));
        for name in ["", "label.", "label.A", "Process", "cmd"] {
            assert_eq!(LabelKey::named(name), None, "{name}");
        }
    }

    #[test]
    fn what_a_process_has_matches_patterns() {
        let label = Label {
            process: "nginx".into(),
            thread: "worker-3".into(),
            cgroup: "/system.slice/nginx.service".into(),
            pid: 77,
            command: "/usr/sbin/nginx -g daemon off;".into(),
            user_labels: [("shard".to_owned(), "3".to_owned())].into(),
        };
        for (key, pattern, expected) in [
            ("process", "ngin?", true),
            ("thread", "worker-*", true),
            ("thread", "worker", false),
            ("pid", "77", true),
            ("pid", "7", false),
            ("command", "nginx", true),
            ("command", "*daemon*", true),
            ("unit", "nginx*", true),
            ("slice", "system.slice", true),
            ("cgroup", "system.slice", true),
            ("container", "*", true),
            ("container", "?*", false),
            ("label.shard", "3", true),
            ("label.other", "", true),
        ] {
            let found = LabelKey::named(key).unwrap().matches(&glob(pattern).unwrap(), &label);
            assert_eq!(found, expected, "{key}={pattern}");
        }
    }
}

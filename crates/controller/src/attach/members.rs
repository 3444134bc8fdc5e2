//! Members: the processes that a session is about.
//!
//! **Does:** find those that the user means, by their numbers, names or control groups, and what they have started.
//!
//! **Does not:** know whether they can be attached to.

use crate::{Usage, arguments};
use anyhow::{Result, anyhow};
use globset::{GlobBuilder, GlobMatcher};
use kernel::cpu::ProcessStat;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use wire::Nanos;

/// Which processes the user means. All of these count.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// By their numbers.
    pub processes: Vec<u32>,
    /// Names of systemd units, globs.
    pub units: Vec<String>,
    /// Paths of control groups, globs.
    pub cgroups: Vec<String>,
    /// Names of programs, globs.
    pub names: Vec<String>,
}

impl Selection {
    /// Whether there is only what has a number.
    pub fn is_numbers(&self) -> bool {
        self.units.is_empty() && self.cgroups.is_empty() && self.names.is_empty()
    }

    /// As it was typed.
    pub fn shown(&self) -> String {
        let options = [("--unit", &self.units), ("--cgroup", &self.cgroups), ("--name", &self.names)];
        let typed = options.into_iter().flat_map(|(option, all)| all.iter().map(move |one| (option, one)));
        let typed = typed.map(|(option, one)| format!("{option} {one}"));
        self.processes.iter().map(u32::to_string).chain(typed).collect::<Vec<_>>().join(" ")
    }
}

/// How they are looked for.
#[derive(Debug)]
pub struct Wanted {
    processes: Vec<u32>,
    units: Vec<GlobMatcher>,
    cgroups: Vec<GlobMatcher>,
    names: Vec<GlobMatcher>,
    /// Whether what these have started is meant, too.
    descends: bool,
    /// What that has to be called.
    follows: Option<GlobMatcher>,
}

/// A process that runs.
#[derive(Debug)]
struct Process {
    parent: u32,
    started: Nanos,
}

/// A glob of the option `option`.
fn glob(option: &str, text: &str) -> Result<GlobMatcher> {
    let glob = GlobBuilder::new(text).literal_separator(option == "--cgroup").build();
    glob.map(|glob| glob.compile_matcher()).map_err(|_| {
        Usage::of(anyhow!("{option} {text}: not a glob; write a name or a part of it, e.g. 'shop*'"))
    })
}

impl Wanted {
    /// What was typed.
    ///
    /// # Errors
    /// It is no glob.
    pub fn new(selection: &Selection, args: &arguments::Run) -> Result<Self> {
        let globs = |option: &str, all: &[String]| -> Result<Vec<GlobMatcher>> {
            all.iter().map(|text| glob(option, text)).collect()
        };
        Ok(Self {
            processes: selection.processes.clone(),
            units: globs("--unit", &selection.units)?,
            cgroups: globs("--cgroup", &selection.cgroups)?,
            names: globs("--name", &selection.names)?,
            descends: !args.no_follow,
            follows: args.follow.as_ref().map(|text| glob("--follow", text)).transpose()?,
        })
    }

    /// Those that run now: first the one that has started the others, as far as one has, then by age.
    pub fn now(&self) -> Vec<u32> {
        self.without(std::process::id())
    }

    /// The same without a process, which is us, and what it has started: that looks after processes for us.
    fn without(&self, us: u32) -> Vec<u32> {
        let all = processes();
        let own = tree_of(us, &all);
        let mut found: BTreeSet<u32> = all
            .keys()
            .copied()
            .filter(|pid| self.processes.contains(pid) || !own.contains(pid) && self.is_in_group(*pid))
            .collect();
        let others = all.keys().copied().filter(|pid| !own.contains(pid));
        found.extend(of_one_user(others.filter(|pid| self.is_named(*pid)).collect()));
        if self.descends {
            let started: Vec<u32> = found.iter().flat_map(|pid| tree_of(*pid, &all)).collect();
            let is_meant = |pid: &u32| {
                !own.contains(pid)
                    && self
                        .follows
                        .as_ref()
                        .is_none_or(|follows| names(*pid).iter().any(|name| follows.is_match(name)))
            };
            found.extend(started.into_iter().filter(is_meant));
        }
        let mut found: Vec<u32> = found.into_iter().filter(|pid| is_program(*pid)).collect();
        let is_started = |pid: u32, found: &[u32]| found.contains(&all[&pid].parent);
        let typed = |pid: u32| self.processes.iter().position(|one| *one == pid).unwrap_or(usize::MAX);
        let order = found.clone();
        found.sort_by_key(|pid| (is_started(*pid, &order), typed(*pid), all[pid].started, *pid));
        found
    }

    fn is_named(&self, pid: u32) -> bool {
        let is_meant = |name: &String| self.names.iter().any(|glob| glob.is_match(name));
        !self.names.is_empty() && names(pid).iter().any(is_meant)
    }

    fn is_in_group(&self, pid: u32) -> bool {
        (!self.units.is_empty() || !self.cgroups.is_empty()) && self.is_in(&cgroup(pid))
    }

    /// Whether a control group is one of those that are meant, or within one.
    fn is_in(&self, group: &str) -> bool {
        let is_unit = |component: &str| {
            let short = component.strip_suffix(".service").unwrap_or(component);
            self.units.iter().any(|unit| unit.is_match(component) || unit.is_match(short))
        };
        let is_group = |path: &Path| {
            let relative = path.strip_prefix("/").unwrap_or(path);
            self.cgroups.iter().any(|glob| glob.is_match(path) || glob.is_match(relative))
        };
        group.split('/').any(|component| !component.is_empty() && is_unit(component))
            || Path::new(group).ancestors().any(is_group)
    }
}

/// Those of the user with the lowest number: any user can call a process like one of root's, and all of a session share their memory with each other.
fn of_one_user(found: Vec<u32>) -> impl Iterator<Item = u32> {
    let found: Vec<(u32, u32)> =
        found.into_iter().filter_map(|pid| Some((kernel::cpu::user(pid)?, pid))).collect();
    let user = found.iter().map(|(user, _)| *user).min();
    found.into_iter().filter(move |(other, _)| Some(*other) == user).map(|(_, pid)| pid)
}

/// All processes.
fn processes() -> BTreeMap<u32, Process> {
    let folder = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = folder.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let look = |pid: u32| {
        let stat = ProcessStat::of(pid).ok().filter(|stat| !is_over(stat))?;
        Some((pid, Process { parent: stat.parent, started: stat.started }))
    };
    numbers.filter_map(look).collect()
}

/// What a process, or what it has started, has started.
pub fn started_by(pid: u32) -> BTreeSet<u32> {
    let mut found = tree_of(pid, &processes());
    found.remove(&pid);
    found
}

/// Whether a process has ended.
pub fn has_ended(pid: u32) -> bool {
    ProcessStat::of(pid).map_or_else(|_| !is_program(pid), |stat| is_over(&stat))
}

fn is_over(stat: &ProcessStat) -> bool {
    matches!(stat.state, 'Z' | 'X')
}

/// Whether one of these has started a process, or what has.
pub fn has_ancestor(pid: u32, among: &HashSet<u32>) -> bool {
    let parent = |pid: u32| ProcessStat::of(pid).map_or(0, |stat| stat.parent);
    std::iter::successors(Some(parent(pid)), |pid| Some(parent(*pid)))
        .take_while(|pid| *pid > 1)
        .any(|pid| among.contains(&pid))
}

/// A process and all that it, or what it has started, has started.
fn tree_of(root: u32, all: &BTreeMap<u32, Process>) -> BTreeSet<u32> {
    let mut found = BTreeSet::from([root]);
    loop {
        let before = found.len();
        let started: Vec<u32> =
            all.iter().filter(|(_, process)| found.contains(&process.parent)).map(|(pid, _)| *pid).collect();
        found.extend(started);
        if found.len() == before {
            return found;
        }
    }
}

/// Whether a process runs a program, and is none of the kernel's.
fn is_program(pid: u32) -> bool {
    std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| !line.is_empty())
}

/// What a process is called: the name of its program, of what it was started as, and its own.
fn names(pid: u32) -> Vec<String> {
    let shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let program = std::fs::read_link(format!("/proc/{pid}/exe")).ok();
    let program = program.as_deref().and_then(Path::file_name).map(|name| shown(name.as_bytes()));
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let started =
        line.split(|byte| *byte == 0).next().and_then(|word| word.rsplit(|byte| *byte == b'/').next());
    let own = std::fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
    let own = shown(own.trim_ascii_end());
    program.into_iter().chain(started.map(shown)).chain([own]).filter(|name| !name.is_empty()).collect()
}

/// The control group of a process: that of version 2, or the one that systemd has made in version 1.
fn cgroup(pid: u32) -> String {
    let text = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    let path = |prefix: &str| {
        text.lines().find_map(|line| line.split_once(':')?.1.strip_prefix(prefix).map(str::to_owned))
    };
    // `0::/PATH`, or `1:name=systemd:/PATH`.
    path(":").or_else(|| path("name=systemd:")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command};

    fn wanted(selection: &Selection) -> Wanted {
        Wanted {
            processes: selection.processes.clone(),
            units: selection.units.iter().map(|text| glob("--unit", text).unwrap()).collect(),
            cgroups: selection.cgroups.iter().map(|text| glob("--cgroup", text).unwrap()).collect(),
            names: selection.names.iter().map(|text| glob("--name", text).unwrap()).collect(),
            descends: true,
            follows: None,
        }
    }

    #[test]
    fn a_control_group_is_meant_with_all_that_is_within() {
        let of = |units: &[&str], cgroups: &[&str]| {
            let owned = |all: &[&str]| all.iter().map(|one| (*one).to_owned()).collect();
            wanted(&Selection { units: owned(units), cgroups: owned(cgroups), ..Selection::default() })
        };
        let shop = "/system.slice/shop.service";
        for unit in ["shop", "shop.service", "sh*"] {
            assert!(of(&[unit], &[]).is_in(shop), "{unit}");
        }
        assert!(!of(&["hop", "system"], &[]).is_in(shop));
        assert!(of(&["system.slice"], &[]).is_in(shop));
        for group in ["/system.slice/shop.service", "system.slice/*", "/system.slice"] {
            assert!(of(&[], &[group]).is_in(shop), "{group}");
        }
        assert!(!of(&[], &["shop*", "/shop.service", "/*/other"]).is_in(shop));
        assert!(glob("--unit", "a[").is_err());
    }

    /// What has started others is first, whatever its number.
    #[test]
    fn those_that_a_process_has_started_are_members() {
        struct Ended(Child);
        impl Drop for Ended {
            fn drop(&mut self) {
                let _ = self.0.kill();
                let _ = self.0.wait();
            }
        }
        // It starts the other one, and is no shell: other tests look for those.
        let first = Ended(Command::new("timeout").args(["1000", "sleep", "1000"]).spawn().unwrap());
        let all = wanted(&Selection { processes: vec![first.0.id()], ..Selection::default() });
        // These have been started by us.
        let members = || all.without(u32::MAX);
        let is_started = |members: &[u32]| {
            members.get(1).is_some_and(|second| names(*second).iter().any(|name| name == "sleep"))
        };
        let begin = std::time::Instant::now();
        while !is_started(&members()) && begin.elapsed().as_secs() < 60 {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let members = members();
        assert!(is_started(&members) && members.len() == 2 && members[0] == first.0.id(), "{members:?}");
        let only = Wanted {
            descends: false,
            ..wanted(&Selection { processes: vec![first.0.id()], ..Selection::default() })
        };
        assert_eq!(only.without(u32::MAX), [first.0.id()]);
        assert_eq!(all.now(), [first.0.id()]);
        for pid in &members[1..] {
            let pid = rustix::process::Pid::from_raw(pid.cast_signed()).unwrap();
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        }
    }
}

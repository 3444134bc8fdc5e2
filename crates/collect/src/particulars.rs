//! What is looked up about processes that have lived for a while: their cgroups and users' labels after a second, their numbers and
//! command lines after ten. Short ones are in the cgroup of their parents, have the labels of these, and no number.
//!
//! Each number, and each set of labels, is one more thing to keep in the database. So of every user (and of all together) only so many
//! are taken at once, and then so many for each time that passes.

use crate::cgroup::cgroup;
use crate::command_line::command_line;
use crate::environment::environment;
use crate::errands::Errands;
use archive::Label;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::io::ErrorKind;

/// How many processes are looked at between two calls.
const LOOKUPS: usize = 256;
/// After so many calls (about a second each) a process has lived long.
const LONG: u64 = 10;
/// Sets of labels of one user that are remembered, so that they count once.
const MOST_SETS: usize = 256;
/// Processes whose environments are tried again, of those that could not be read.
const MOST_UNLABELLED: usize = 4096;

type UserLabels = BTreeMap<String, String>;

/// See the module.
#[derive(Debug)]
pub struct Particulars {
    /// Have not been looked at since they were started or executed something.
    fresh: HashSet<u32>,
    /// Have, and at which call they have lived long; of those that are there several times the last counts.
    young: VecDeque<(u64, u32)>,
    last: HashMap<u32, u64>,
    /// Whose environments could not be read when they had lived for a second, each with its user, and the call at which it is tried again.
    unlabelled: HashMap<u32, (u32, u64)>,
    calls: u64,
    /// Whether command lines are asked for.
    pub with_commands: bool,
    errands: Errands,
    numbers: Allowance,
    sets: Allowance,
    /// By user.
    known_sets: HashMap<u32, HashSet<UserLabels>>,
    lapses: Lapses,
}

/// What was left out of labels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lapses {
    /// Names of threads that were taken together, because their processes have many.
    pub folded_names: u64,
    /// Processes that have lived long and were not kept apart, because their users have many.
    pub unnumbered: u64,
    /// Labels of users that were refused: they cannot be typed, or are too many or too long.
    pub refused_labels: u64,
    /// How often the environment of a process could not be read in time; it is tried again.
    pub unread: u64,
}

impl std::ops::AddAssign for Lapses {
    fn add_assign(&mut self, other: Self) {
        self.folded_names += other.folded_names;
        self.unnumbered += other.unnumbered;
        self.refused_labels += other.refused_labels;
        self.unread += other.unread;
    }
}

/// What was found out about a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    cgroup: Option<String>,
    user_labels: Option<UserLabels>,
    number: Option<u32>,
    command: Option<String>,
}

impl Found {
    /// What samples of a process are labelled with from now on, if that is something else.
    pub fn change(self, label: &Label) -> Option<Label> {
        let Self { cgroup, user_labels, number, command } = self;
        let new = Label {
            cgroup: cgroup.unwrap_or_else(|| label.cgroup.clone()),
            user_labels: user_labels.unwrap_or_else(|| label.user_labels.clone()),
            pid: number.unwrap_or(label.pid),
            command: command.unwrap_or_else(|| label.command.clone()),
            ..label.clone()
        };
        (new != *label).then_some(new)
    }
}

impl Default for Particulars {
    fn default() -> Self {
        Self {
            fresh: HashSet::new(),
            young: VecDeque::new(),
            last: HashMap::new(),
            unlabelled: HashMap::new(),
            calls: 0,
            with_commands: false,
            errands: Errands::frugal(),
            numbers: Allowance::new((512, 2), (2048, 1)),
            sets: Allowance::new((64, 60), (1024, 4)),
            known_sets: HashMap::new(),
            lapses: Lapses::default(),
        }
    }
}

impl Particulars {
    /// A process has started, or executes something.
    pub fn begins(&mut self, pid: u32) {
        self.fresh.insert(pid);
    }

    /// What was left out since the last call.
    pub fn take_lapses(&mut self) -> Lapses {
        std::mem::take(&mut self.lapses)
    }

    /// Names of threads were taken together.
    pub fn folded(&mut self, names: u64) {
        self.lapses.folded_names += names;
    }

    /// To be called about once a second: the processes that there is something to look up of now. `lives` says of which a process still is.
    pub fn due(&mut self, lives: impl Fn(u32) -> bool) -> Vec<Due> {
        self.calls += 1;
        self.fresh.retain(|pid| lives(*pid));
        // In a storm the others have to wait.
        let chosen: Vec<u32> = self.fresh.iter().copied().take(LOOKUPS).collect();
        let mut due = Vec::with_capacity(chosen.len());
        for pid in chosen {
            self.fresh.remove(&pid);
            self.wait(pid);
            due.push(Due::Young(pid));
        }
        while due.len() < 2 * LOOKUPS
            && let Some((call, pid)) = self.young.pop_front_if(|(call, _)| *call <= self.calls)
        {
            // It may have executed something else meanwhile.
            if self.last.get(&pid) == Some(&call) {
                self.last.remove(&pid);
                if lives(pid) && !self.fresh.contains(&pid) {
                    due.push(Due::Old(pid));
                }
            }
        }
        due
    }

    /// Later is early enough: it has done nothing yet.
    pub fn wait(&mut self, pid: u32) {
        let call = self.calls + LONG;
        self.young.push_back((call, pid));
        self.last.insert(pid, call);
    }

    /// Looks into processes, each with the user that it runs as. Those that have gone are left out.
    pub fn look(&mut self, due: &[(Due, u32)]) -> Vec<(u32, Found)> {
        let mut found = Vec::with_capacity(due.len());
        let (mut young, mut old) = (Vec::new(), Vec::new());
        for &(due, user) in due {
            match due {
                Due::Young(pid) => young.push((pid, user)),
                Due::Old(pid) if self.numbers.take(user, self.calls) => old.push((pid, user)),
                Due::Old(_) => self.lapses.unnumbered += 1,
            }
        }
        let is_young: HashSet<u32> = young.iter().map(|(pid, _)| *pid).collect();
        let is_due = |(pid, (_, call)): &(&u32, &(u32, u64))| *call <= self.calls && !is_young.contains(pid);
        let again = self.unlabelled.iter().filter(is_due).take(LOOKUPS).map(|(pid, (user, _))| (*pid, *user));
        young.extend(again.collect::<Vec<_>>());
        let mut labels = self.labels_of(&young);
        for (pid, user) in young {
            self.unlabelled.remove(&pid);
            let Some(cgroup) = cgroup(pid) else { continue };
            let user_labels = labels.remove(&pid);
            if user_labels.is_none() && self.unlabelled.len() < MOST_UNLABELLED {
                self.unlabelled.insert(pid, (user, self.calls + LONG));
            }
            found.push((pid, Found { cgroup: Some(cgroup), user_labels, ..Found::default() }));
        }
        let mut commands = if self.with_commands { self.read(&old, command_line) } else { HashMap::new() };
        for (pid, _) in old {
            let command = commands.remove(&pid);
            found.push((pid, Found { number: Some(pid), command, ..Found::default() }));
        }
        found
    }

    /// The labels that users have given to these, as far as they can be read now.
    fn labels_of(&mut self, processes: &[(u32, u32)]) -> HashMap<u32, UserLabels> {
        let mut environments = self.read(processes, environment);
        let labels = processes.iter().filter_map(|&(pid, user)| {
            let environment = environments.remove(&pid)?;
            self.lapses.refused_labels += environment.refused;
            Some((pid, self.allowed(user, environment.labels)))
        });
        labels.collect()
    }

    /// What `of` says of each of these. All of one user are handed over together: on a busy machine each handing over takes its time.
    fn read<T: Send + 'static>(
        &mut self,
        processes: &[(u32, u32)],
        of: fn(u32) -> std::io::Result<T>,
    ) -> HashMap<u32, T> {
        let mut by_user: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        processes.iter().for_each(|(pid, user)| by_user.entry(*user).or_default().push(*pid));
        let mut all = HashMap::new();
        for (user, pids) in by_user {
            let count = pids.len() as u64;
            let work = move || pids.into_iter().map(|pid| (pid, of(pid))).collect::<Vec<_>>();
            let Some(found) = self.errands.run(user, work) else {
                self.lapses.unread += count;
                continue;
            };
            for (pid, found) in found {
                match found {
                    Ok(found) => drop(all.insert(pid, found)),
                    Err(error) if error.kind() == ErrorKind::PermissionDenied => self.lapses.unread += 1,
                    // It has gone, or is a thread of the kernel.
                    Err(_) => {}
                }
            }
        }
        all
    }

    /// Labels that may be kept.
    fn allowed(&mut self, user: u32, labels: UserLabels) -> UserLabels {
        if labels.is_empty() {
            return labels;
        }
        let known = self.known_sets.entry(user).or_default();
        if !known.contains(&labels) {
            if !self.sets.take(user, self.calls) {
                self.lapses.refused_labels += labels.len() as u64;
                return UserLabels::new();
            }
            if known.len() >= MOST_SETS {
                known.clear();
            }
            known.insert(labels.clone());
        }
        labels
    }
}

/// A process, and what is to be looked up of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// It has lived for a second.
    Young(u32),
    /// It has lived long.
    Old(u32),
}

impl Due {
    /// Which process.
    pub fn pid(self) -> u32 {
        match self {
            Self::Young(pid) | Self::Old(pid) => pid,
        }
    }
}

/// How much each user may have: so much at once, and one more whenever so many calls have passed.
#[derive(Debug)]
struct Allowance {
    /// Of one user: how many at once, and after how many calls one more.
    one: (u32, u64),
    /// Of all users together.
    all: (u32, u64),
    /// By user: what is left, in calls, and when that was.
    left: HashMap<u32, (u64, u64)>,
}

/// Whose allowance that of all together is.
const ALL: u32 = u32::MAX;

impl Allowance {
    fn new(one: (u32, u64), all: (u32, u64)) -> Self {
        Self { one, all, left: HashMap::new() }
    }

    /// Takes one, if there is one left.
    fn take(&mut self, user: u32, call: u64) -> bool {
        let rules = [(user, self.one), (ALL, self.all)];
        let lefts = rules.map(|(who, (at_once, each))| {
            let most = u64::from(at_once) * each;
            let (left, when) = self.left.get(&who).copied().unwrap_or((most, call));
            (left + (call - when)).min(most)
        });
        if rules.iter().zip(lefts).any(|((_, (_, each)), left)| left < *each) {
            return false;
        }
        if self.left.len() > 4096 {
            // Who has all of it again need not be remembered.
            let most = u64::from(self.one.0) * self.one.1;
            self.left.retain(|who, (left, when)| *who == ALL || *left + (call - *when) < most);
        }
        for ((who, (_, each)), left) in rules.into_iter().zip(lefts) {
            self.left.insert(who, (left - each, call));
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::Nanos;

    fn set(number: u32) -> UserLabels {
        [("n".to_owned(), number.to_string())].into()
    }

    #[test]
    fn processes_are_looked_at_when_they_have_lived_for_a_second_and_when_they_have_lived_long() {
        let mut particulars = Particulars::default();
        (1..=3).for_each(|pid| particulars.begins(pid));
        let mut due = particulars.due(|pid| pid != 2);
        due.sort_by_key(|due| due.pid());
        assert_eq!(due, [Due::Young(1), Due::Young(3)]);
        // One of them executes something in the meantime: it begins again.
        particulars.begins(3);
        assert_eq!(particulars.due(|_| true), [Due::Young(3)]);
        let mut old = Vec::new();
        for call in 3..30 {
            old.extend(particulars.due(|_| true).into_iter().map(|due| (call, due)));
        }
        assert_eq!(old, [(11, Due::Old(1)), (12, Due::Old(3))]);
        assert!(particulars.young.is_empty() && particulars.last.is_empty());
    }

    #[test]
    fn so_many_processes_are_looked_at_at_a_time() {
        let mut particulars = Particulars::default();
        (0..4 * LOOKUPS as u32).for_each(|pid| particulars.begins(pid));
        let mut seen = HashSet::new();
        for _ in 0..40 {
            let due = particulars.due(|_| true);
            assert!(due.len() <= 2 * LOOKUPS);
            seen.extend(due.into_iter().filter(|due| matches!(due, Due::Old(_))).map(Due::pid));
        }
        assert_eq!(seen.len(), 4 * LOOKUPS);
    }

    #[test]
    fn an_allowance_is_for_each_user_and_comes_back() {
        let mut allowance = Allowance::new((3, 10), (5, 1));
        let mut taken = |user, call, times| (0..times).filter(|_| allowance.take(user, call)).count();
        assert_eq!(taken(1000, 0, 10), 3);
        assert_eq!(taken(1001, 0, 10), 2, "all users together");
        assert_eq!(taken(1001, 5, 10), 1);
        assert_eq!(taken(1000, 9, 10), 0);
        assert_eq!(taken(1000, 10, 10), 1);
        assert_eq!(taken(1000, 1000, 10), 3);
    }

    #[test]
    fn a_user_with_thousands_of_values_keeps_some_and_others_keep_theirs() {
        let mut particulars = Particulars::default();
        let kept = (0..5000).filter(|number| !particulars.allowed(66, set(*number)).is_empty()).count();
        assert_eq!(kept, 64);
        assert_eq!(particulars.take_lapses().refused_labels, 5000 - 64);
        // Those that it has had do not count again.
        assert_eq!(particulars.allowed(66, set(0)), set(0));
        assert_eq!(particulars.allowed(1000, set(7)), set(7));
        assert_eq!(particulars.take_lapses(), Lapses::default());
        // After years of it the memory is bounded, too.
        for number in 0..100_000 {
            particulars.calls += 60;
            particulars.allowed(66, set(number));
        }
        assert!(particulars.known_sets[&66].len() <= MOST_SETS);
    }

    #[test]
    fn what_was_found_changes_the_label() {
        let mut particulars = Particulars::default();
        let we = std::process::id();
        let label = Label { process: "we".into(), user_labels: set(1), ..Label::default() };
        let mut look = |with_commands, due| {
            particulars.with_commands = with_commands;
            particulars.look(&[(due, 0)]).pop()
        };
        let (pid, young) = look(false, Due::Young(we)).unwrap();
        let young = young.change(&label).unwrap();
        assert_eq!((pid, young.pid, &young.user_labels), (we, 0, &UserLabels::new()), "we have none");
        assert_eq!(young.cgroup, cgroup(we).unwrap());
        let old = look(false, Due::Old(we)).unwrap().1.change(&young).unwrap();
        assert_eq!(old, Label { pid: we, ..young.clone() });
        let old = look(true, Due::Old(we)).unwrap().1.change(&young).unwrap();
        assert!(!old.command.is_empty());
        assert_eq!(look(true, Due::Old(we)).unwrap().1.change(&old), None);
        assert_eq!(look(false, Due::Young(u32::MAX)), None);
        assert_eq!(particulars.take_lapses(), Lapses::default());
    }

    #[test]
    fn an_environment_that_could_not_be_read_is_tried_again() {
        let mut particulars = Particulars::default();
        let we = std::process::id();
        particulars.errands.charge(0, Nanos(1_000_000_000));
        let (_, young) = particulars.look(&[(Due::Young(we), 0)]).pop().unwrap();
        assert_eq!((young.user_labels, particulars.take_lapses().unread), (None, 1));
        particulars.calls += LONG - 1;
        assert_eq!(particulars.look(&[]), []);
        particulars.calls += 1;
        let (_, again) = particulars.look(&[]).pop().unwrap();
        assert_eq!((again.user_labels, particulars.take_lapses().unread), (None, 1));
        particulars.calls += LONG;
        particulars.errands = Errands::frugal();
        let (_, last) = particulars.look(&[]).pop().unwrap();
        assert_eq!((last.user_labels, particulars.take_lapses().unread), (Some(UserLabels::new()), 0));
        assert!(particulars.unlabelled.is_empty());
    }
}

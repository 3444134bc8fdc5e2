//! Code that the processes of the experiment make while they run: the first program's at its own addresses, that of programs that were executed where
//! [`wire::made`] puts it, each process's by what that process itself has written ([`Jit`]).
//!
//! The files of all executed programs together take no more memory, and no more of the time, than those of the first one.

use crate::embedded::is_runtime_at;
use crate::jit::{Jit, MOST_BYTES};
use kernel::cpu::ProcessStat;
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::{Duration, Instant, SystemTime};
use symbols::{Segment, Svma};
use wire::made::{self, Maker, SPACE};
use wire::{Address, SharedMemory};

/// Executed programs that have names at one time: each takes two descriptors.
const MOST_PROCESSES: usize = 256;
/// After this time the others wait for the next turn.
const TURN: Duration = Duration::from_millis(5);
/// Looking at all of them never takes more than this part of the time, as a divisor.
const MOST_SHARE: u32 = 20;
/// Memory that a list of mappings may take, in bytes.
const MOST_MAPPINGS: usize = 4 << 20;
/// Ancestors whose code a forked process may have inherited.
const MOST_ANCESTORS: usize = 8;

/// See the module.
#[derive(Debug)]
pub struct Made {
    memory: &'static SharedMemory,
    first: Jit,
    /// Processes of executed programs, by their numbers.
    executed: BTreeMap<u32, Process>,
    /// Numbers below this have been looked at, but for those of `unwritten`.
    seen: u32,
    unwritten: Vec<u32>,
    /// Where code is that has gone with its process.
    gone: Vec<Range<u64>>,
    /// When executed programs had their turn, and how long that took.
    turn: Option<(Instant, Duration)>,
    /// Whether there were more than may have names.
    is_full: bool,
}

/// One that an executed program runs in.
#[derive(Debug)]
struct Process {
    jit: Jit,
    maker: Maker,
    /// It has ended; there may be samples of it that were not taken yet.
    has_ended: bool,
    /// There are none any more when all samples have been taken once more.
    may_go: bool,
}

impl Made {
    /// With `pid` as the first program.
    pub fn new(pid: u32, memory: &'static SharedMemory) -> Self {
        let (executed, seen, unwritten, gone) = (BTreeMap::new(), 0, Vec::new(), Vec::new());
        Self { memory, first: Jit::new(pid), executed, seen, unwritten, gone, turn: None, is_full: false }
    }

    /// A forked process stands for the first one from now on.
    pub fn go_on_with(&mut self, pid: u32) {
        self.first = Jit::new(pid);
    }

    /// Takes the first program's list of mappings.
    pub fn map(&mut self, mappings: &[kernel::Mapping]) {
        self.first.map(mappings);
    }

    /// Looks now and then for what the programs have made since. To be called when all samples that have come in were taken.
    pub fn keep_up(&mut self) {
        self.first.keep_up();
        self.drop_ended();
        self.look();
    }

    /// Looks at executed programs, if that is due.
    fn look(&mut self) {
        if self.may_have_turn() {
            let begin = Instant::now();
            self.adopt();
            self.refresh(begin);
            self.turn = Some((begin, begin.elapsed()));
        }
    }

    fn may_have_turn(&self) -> bool {
        let is_any = self.memory.made.count() > self.seen as usize || !self.executed.is_empty();
        is_any && self.turn.is_none_or(|(begin, took)| begin.elapsed() > took * MOST_SHARE)
    }

    /// Takes up the processes that have come.
    fn adopt(&mut self) {
        let count = self.memory.made.count() as u32;
        let mut numbers = std::mem::take(&mut self.unwritten);
        numbers.extend(self.seen..count);
        self.seen = count;
        for number in numbers {
            match self.memory.made.get(number) {
                Some(maker) => self.take_up(number, maker),
                // It is being written, or its process has ended while it was.
                None => self.unwritten.push(number),
            }
        }
    }

    fn take_up(&mut self, number: u32, maker: Maker) {
        // Its number may be another process's by now, or here.
        if !is_ours(maker.process) {
            return;
        }
        // It has executed another program.
        let is_same = |process: &&mut Process| process.maker.process == maker.process;
        self.executed.values_mut().filter(is_same).for_each(|before| before.has_ended = true);
        if self.executed.len() >= MOST_PROCESSES {
            self.is_full = true;
            return;
        }
        let ago = Duration::from_nanos(kernel::clock::monotonic().saturating_sub(maker.since).0);
        let since = SystemTime::now().checked_sub(ago).unwrap_or(SystemTime::UNIX_EPOCH);
        let jit = Jit::of_program(maker.process, since, 0..SPACE);
        self.executed.insert(number, Process { jit, maker, has_ended: false, may_go: false });
    }

    /// Looks at what executed programs have written, for as long as a turn may take: those first that have waited longest.
    fn refresh(&mut self, begin: Instant) {
        let mut order: Vec<u32> = self.executed.keys().copied().collect();
        order.sort_by_key(|number| self.executed[number].jit.looked_at());
        let mut bytes: usize = self.executed.values().map(|process| process.jit.bytes()).sum();
        for number in order {
            let Some(process) = self.executed.get_mut(&number) else { continue };
            if begin.elapsed() >= TURN {
                return;
            }
            if process.has_ended || !process.jit.is_due() {
                continue;
            }
            let before = process.jit.bytes();
            process.jit.limit(MOST_BYTES.saturating_sub(bytes));
            process.refresh();
            bytes = bytes + process.jit.bytes() - before.min(bytes);
        }
    }

    /// Forgets the processes that had ended before the last samples were taken, unless others have inherited their code.
    fn drop_ended(&mut self) {
        let parents: Vec<u32> = self.executed.values().filter_map(|process| process.maker.parent).collect();
        let ended = |(number, process): (&u32, &Process)| {
            (process.may_go && !parents.contains(number)).then_some(*number)
        };
        let gone: Vec<u32> = self.executed.iter().filter_map(ended).collect();
        for number in gone {
            self.executed.remove(&number);
            let (Address(start), Address(end)) = made::places(number);
            self.gone.push(start..end);
        }
        self.executed.values_mut().for_each(|process| process.may_go = process.has_ended);
    }

    /// Where there is something new since this was asked last, or nothing any more: it may be in the place of something else.
    pub fn remade(&mut self) -> Vec<Range<u64>> {
        let mut remade = self.first.remade();
        remade.append(&mut self.gone);
        // A forked process has what its parent makes there, as far as it is known to make nothing itself.
        let new: Vec<(u32, Range<u64>)> = self
            .executed
            .iter_mut()
            .flat_map(|(number, process)| process.jit.remade().into_iter().map(|range| (*number, range)))
            .collect();
        for (number, range) in new {
            let heirs = self.executed.keys().filter(|heir| self.ancestors(**heir).any(|of| of == number));
            remade.extend(heirs.filter_map(|heir| placed(*heir, &range)));
        }
        remade
    }

    /// A process, and those that it may have inherited code from: the nearest first.
    fn ancestors(&self, number: u32) -> impl Iterator<Item = u32> {
        let parent = |number: &u32| self.executed.get(number)?.maker.parent;
        std::iter::successors(Some(number), parent).take(MOST_ANCESTORS)
    }

    /// The function at an address, in pieces.
    pub fn find(&mut self, address: u64) -> Option<Vec<Segment>> {
        let Some((number, own)) = made::origin(Address(address)) else { return self.first.find(address) };
        let known = self.known(number, own);
        if known.is_some() {
            return known;
        }
        let is_due = self.executed.get(&number).is_none_or(|process| process.jit.is_due());
        if is_due {
            self.look();
        }
        self.known(number, own)
    }

    /// What is known of an address of an executed program.
    fn known(&self, number: u32, address: u64) -> Option<Vec<Segment>> {
        let known = |of| self.executed.get(&of)?.jit.known(address);
        let found: Vec<Segment> = self.ancestors(number).find_map(known)?;
        let here = |Segment { range, frames }: Segment| {
            let range = placed(number, &(range.start.0..range.end.0))?;
            Some(Segment { range: Svma(range.start)..Svma(range.end), frames })
        };
        Some(found.into_iter().filter_map(here).collect())
    }

    /// Whether programs have made more functions than are kept: the later ones have no names.
    pub fn is_full(&self) -> bool {
        let in_executed = self.executed.values().any(|process| process.jit.is_full());
        self.first.is_full() || in_executed || self.is_full || self.memory.made.is_full()
    }

    /// The memory that such code is in, as far as anything is known of it, in the order of addresses.
    pub fn ranges(&self) -> Vec<Range<u64>> {
        let mut ranges = self.first.ranges().to_vec();
        let has_names = |number: &u32| {
            self.ancestors(*number).any(|of| self.executed.get(&of).is_some_and(|it| it.jit.has_names()))
        };
        for number in self.executed.keys().filter(|number| has_names(number)) {
            let (Address(start), Address(end)) = made::places(*number);
            match ranges.last_mut().filter(|last| last.end == start) {
                Some(last) => last.end = end,
                None => ranges.push(start..end),
            }
        }
        ranges
    }
}

impl Process {
    fn refresh(&mut self) {
        let pid = self.maker.process;
        self.has_ended = ProcessStat::of(pid).map_or(true, |stat| matches!(stat.state, 'Z' | 'X'));
        if self.jit.waits_for_dump()
            && let Ok(Some(mappings)) = kernel::maps::code(pid, MOST_MAPPINGS)
        {
            self.jit.look_for_dump(&mappings);
        }
        // What it has written is still right when it has ended.
        self.jit.refresh();
    }
}

/// A range of addresses of a process where all processes' are.
fn placed(number: u32, range: &Range<u64>) -> Option<Range<u64>> {
    let Address(start) = made::place(number, range.start)?;
    let length = range.end.min(SPACE).checked_sub(range.start)?;
    Some(start..start + length)
}

/// Whether a process has our runtime.
fn is_ours(pid: u32) -> bool {
    let mappings = kernel::maps::code(pid, MOST_MAPPINGS).ok().flatten().unwrap_or_default();
    mappings.iter().filter_map(|mapping| mapping.path.as_deref()).any(is_runtime_at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::Nanos;

    /// This process as one that executed programs run in: it has no runtime.
    fn with(processes: &[(u32, Option<u32>, &[&str])]) -> Made {
        let memory = kernel::SharedMapping::create().unwrap().memory();
        let mut made = Made::new(std::process::id(), memory);
        for (number, parent, lines) in processes {
            let maker = Maker { process: std::process::id(), parent: *parent, since: Nanos(1) };
            let mut jit = Jit::of_program(maker.process, SystemTime::UNIX_EPOCH, 0..SPACE);
            jit.append_for_test(&lines.concat());
            made.executed.insert(*number, Process { jit, maker, has_ended: false, may_go: false });
        }
        made
    }

    fn name(made: &mut Made, number: u32, address: u64) -> Option<String> {
        let Address(place) = made::place(number, address)?;
        let segments = made.find(place)?;
        let segment = segments.into_iter().find(|segment| segment.range.contains(&Svma(place)))?;
        Some(segment.frames.first()?.function.to_string())
    }

    #[test]
    fn each_process_has_its_own_names_and_those_that_it_has_inherited() {
        let made = &mut with(&[
            (0, None, &["1000 100 one\n", "2000 100 old\n"]),
            (1, None, &["1000 100 two\n"]),
            (2, Some(0), &["1000 10 new\n"]),
        ]);
        assert_eq!(name(made, 0, 0x1000).as_deref(), Some("one"));
        assert_eq!(name(made, 1, 0x1000).as_deref(), Some("two"));
        assert_eq!((name(made, 1, 0x2000), name(made, 3, 0x1000)), (None, None));
        assert_eq!(name(made, 2, 0x1000).as_deref(), Some("new"));
        assert_eq!(name(made, 2, 0x2000).as_deref(), Some("old"));
        assert_eq!(made.ranges().len(), 1, "side by side");
        let remade = made.remade();
        let of = |number| placed(number, &(0x2000..0x2100)).unwrap();
        assert!(remade.contains(&of(0)) && remade.contains(&of(2)) && !remade.contains(&of(1)), "{remade:?}");
        // The parent's names stay as long as the child does.
        for number in [0, 1] {
            made.executed.get_mut(&number).unwrap().has_ended = true;
        }
        made.keep_up();
        assert_eq!(made.executed.len(), 3, "there may be samples");
        made.keep_up();
        assert_eq!(made.executed.keys().copied().collect::<Vec<_>>(), [0, 2]);
        assert!(made.remade().contains(&{
            let (Address(start), Address(end)) = made::places(1);
            start..end
        }));
    }

    #[test]
    fn what_a_list_says_of_other_processes_does_not_count() {
        let made = &mut with(&[(0, None, &["0 ffffffffffffffff all\n"]), (1, None, &["1000 10 own\n"])]);
        assert_eq!(name(made, 0, SPACE - 1).as_deref(), Some("all"));
        let Address(place) = made::place(0, 5).unwrap();
        let (Address(start), Address(end)) = made::places(0);
        assert_eq!(made.find(place).unwrap()[0].range, Svma(start)..Svma(end));
        assert_eq!(name(made, 1, 0x1008).as_deref(), Some("own"));
        assert_eq!(name(made, 1, 0x1010), None);
    }

    #[test]
    fn a_process_that_is_not_ours_is_not_looked_at() {
        let mut made = with(&[]);
        let maker = Maker { process: std::process::id(), parent: None, since: Nanos(1) };
        assert_eq!(made.memory.made.take(maker), Some(0));
        made.keep_up();
        assert!(made.executed.is_empty() && made.seen == 1);
    }
}

//! Which processes' stacks are copied, how much of them, and the callchains that come of it.
//!
//! The kernel follows frame pointers by itself. Where a program keeps them, as its samples show, nothing is copied: only the frames outside of `main`, which
//! belong to libraries without, are put behind what the kernel found, as they were when both were compared. A minute later they are compared again.

use crate::callchain::{self, Cut};
use crate::hash::Mixed;
use crate::images::ImageIndex;
use crate::python_merge::{Merged, Native};
use crate::walk::{Code, End, walk};
use kernel::stream::{MOST_COPIED, Sample, USUALLY_COPIED, UserStack};
use std::collections::{HashMap, HashSet};
use std::ops::AddAssign;
use wire::Nanos;

/// Samples after which it is decided what is copied of a process from then on.
const WINDOW: u32 = 64;
/// Samples among them that the kernel's callchain may be different in, if frame pointers are kept.
const FEW: u32 = 2;
/// Least that is copied, in bytes.
const LEAST: u32 = 1 << 10;
/// Frame pointers are trusted for this long.
const TRUST: Nanos = Nanos(60_000_000_000);
/// Samples that must have shown the same outermost frames.
const ENOUGH: u32 = 3;
/// Frames outside of those with frame pointers: what calls `main`, or a thread's first function.
const MOST_OUTSIDE: usize = 4;
/// Places at which a process's outermost frames begin.
const MOST_ENDS: usize = 32;
/// Processes whose habits are remembered.
const MOST: usize = 1 << 13;

/// See the module.
#[derive(Debug)]
pub struct Unwinding {
    habits: HashMap<u32, Habits, Mixed>,
    /// By CPU: what was found of the stack of the sample that it takes next.
    found: Vec<Option<Found>>,
    /// Other sizes than before, and processes of which nothing is known any more.
    pub wanted: Vec<(u32, Option<u32>)>,
    /// Samples since the last [`take`](Self::take), by how their stacks ended.
    tally: Unwound,
    /// Whether stacks are copied at all.
    pub is_on: bool,
    /// Frames that the kernel takes of a stack.
    deepest: usize,
    /// Processes whose frame pointers will not do, whatever they are: it must be known where on the stack the frames are.
    copied: HashSet<u32>,
}

/// How the stacks of samples ended, of processes that have no frame pointers or are not known to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unwound {
    /// Where the thread begins.
    pub whole: u64,
    /// By frame pointers.
    pub by_frame_pointers: u64,
    /// The copy was too short.
    pub short: u64,
    /// Nothing says who has called the code.
    pub unknown: u64,
    /// Too many frames.
    pub deep: u64,
}

impl AddAssign for Unwound {
    fn add_assign(&mut self, other: Self) {
        self.whole += other.whole;
        self.by_frame_pointers += other.by_frame_pointers;
        self.short += other.short;
        self.unknown += other.unknown;
        self.deep += other.deep;
    }
}

#[derive(Clone, Debug, Default)]
struct Found {
    tid: u32,
    callchain: Vec<u64>,
    /// Where on the stack each frame ends, as far as it is known.
    ends: Vec<u64>,
    stack_pointer: u64,
    /// The same callchain with an interpreter's frames in it, and what came of putting them there.
    merged: Vec<u64>,
    how: Merged,
    /// In which image each address is.
    images: Vec<ImageIndex>,
    end: End,
    took: u32,
}

impl Found {
    /// Whether all frames from this one on are in one image, but for the last, which starts the program or the thread: they are the
    /// C library's own, and nothing else can be there.
    fn is_of_one_library(&self, from: usize) -> bool {
        let Some(images) = self.images.get(from..) else { return false };
        let Some((_, inside)) = images.split_last() else { return false };
        inside.iter().all(|image| *image == images[0])
    }
}

/// What the samples of a process have shown.
#[derive(Clone, Debug)]
struct Habits {
    bytes: u32,
    /// Frame pointers are followed until then.
    trusted: Option<Nanos>,
    window: Window,
    /// What is outside of where the kernel's callchain ended.
    ends: HashMap<u64, Outermost, Mixed>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Window {
    samples: u32,
    /// In which the kernel had followed frame pointers to the end.
    alike: u32,
    short: u32,
    /// Most that was used of a copy, in bytes.
    most: u32,
}

#[derive(Clone, Debug)]
struct Outermost {
    frames: Vec<u64>,
    seen: u32,
    /// It was something else in another sample.
    varies: bool,
}

impl Default for Habits {
    fn default() -> Self {
        Self { bytes: USUALLY_COPIED, trusted: None, window: Window::default(), ends: HashMap::default() }
    }
}

impl Habits {
    /// How much of the stack is copied, where it is not as much as usual.
    fn wanted(&self) -> Option<u32> {
        let bytes = if self.trusted.is_some() { 0 } else { self.bytes };
        Some(bytes).filter(|bytes| *bytes != USUALLY_COPIED)
    }
}

impl Unwinding {
    /// Of samples that this many CPUs take.
    pub fn new(cpus: usize) -> Self {
        let (habits, wanted) = (HashMap::default(), Vec::new());
        let (tally, deepest) = (Unwound::default(), callchain::deepest());
        let (found, copied) = (vec![None; cpus], HashSet::new());
        Self { habits, found, wanted, tally, is_on: false, deepest, copied }
    }

    /// Whether frame pointers will do for a process.
    pub fn trusts(&mut self, pid: u32, now: Nanos) -> bool {
        let Some(habits) = self.habits.get_mut(&pid) else { return false };
        match habits.trusted {
            Some(until) if now < until => true,
            Some(_) => {
                *habits = Habits::default();
                self.wanted.push((pid, None));
                false
            }
            None => false,
        }
    }

    /// The stack of the sample that `cpu` takes next, of this thread.
    pub fn stack(
        &mut self,
        cpu: usize,
        tid: u32,
        stack: &UserStack<'_>,
        mut code: impl FnMut(u64) -> (ImageIndex, Code),
    ) {
        let Some(place) = self.found.get_mut(cpu) else { return };
        let mut found = place.take().unwrap_or_default();
        let Found { callchain, ends, images, .. } = &mut found;
        images.clear();
        let look = |address| {
            let (image, code) = code(address);
            images.push(image);
            code
        };
        let (end, took) = walk(stack, look, callchain, ends);
        *place = Some(Found { tid, end, took, stack_pointer: stack.stack_pointer, how: Merged::No, ..found });
    }

    /// Puts an interpreter's frames into the stack that `cpu` has found last. `merge` gets that and the images that it is in.
    pub fn merge(
        &mut self,
        cpu: usize,
        merge: impl FnOnce(&Native<'_>, &[ImageIndex], &mut Vec<u64>) -> Merged,
    ) {
        let Some(found) = self.found.get_mut(cpu).and_then(Option::as_mut) else { return };
        let Found { callchain, ends, stack_pointer, end, images, merged, .. } = found;
        let (stack_pointer, is_cut) = (*stack_pointer, *end != End::Root);
        let native = Native { addresses: callchain, ends, stack_pointer, is_cut };
        found.how = merge(&native, images, merged);
    }

    /// Copies the stacks of a process, even if it keeps frame pointers.
    pub fn copy(&mut self, pid: u32) {
        self.copied.insert(pid);
        if let Some(habits) = self.habits.get_mut(&pid).filter(|habits| habits.trusted.is_some()) {
            *habits = Habits::default();
            self.wanted.push((pid, None));
        }
    }

    /// The stack of the sample that `cpu` takes next is not looked at.
    pub fn no_stack(&mut self, cpu: usize) {
        if let Some(found) = self.found.get_mut(cpu).and_then(Option::as_mut) {
            found.tid = u32::MAX;
        }
    }

    /// Puts the callchain of a sample into `addresses`, with all callers that are known.
    pub fn callchain(&mut self, cpu: usize, time: Nanos, sample: &Sample<'_>, addresses: &mut Vec<u64>) {
        addresses.clear();
        addresses.extend_from_slice(sample.callchain);
        let found = self.found.get_mut(cpu).and_then(Option::take);
        // Kernel threads have no stack of their own.
        let Some(own) = sample.callchain.iter().position(|word| *word == Sample::USER) else { return };
        let by_frame_pointers = &sample.callchain[own + 1..];
        // Where there was no room for a sample, its stack may be there without it.
        let is_its =
            |found: &Found| found.tid == sample.tid && found.callchain.first() == by_frame_pointers.first();
        let Some(found) = found.filter(is_its) else {
            return self.by_frame_pointers(time, sample, by_frame_pointers.last(), addresses);
        };
        self.look(sample.pid, time, by_frame_pointers, &found);
        // A guess is not better than the kernel's.
        if found.how != Merged::No {
            addresses.truncate(own + 1);
            addresses.extend_from_slice(&found.merged);
        } else if found.end == End::Root || found.callchain.len() >= by_frame_pointers.len() {
            addresses.truncate(own + 1);
            addresses.extend_from_slice(&found.callchain);
        }
        let end = if found.how == Merged::Cut { End::Deep } else { found.end };
        let (count, cut) = match end {
            End::Root => (&mut self.tally.whole, None),
            End::Short => (&mut self.tally.short, Some(Cut::Short)),
            End::Unknown => (&mut self.tally.unknown, Some(Cut::Unknown)),
            End::Deep => (&mut self.tally.deep, Some(Cut::Deep)),
        };
        *count += 1;
        addresses.extend(cut.map(Cut::mark));
        // Its memory is for the next one.
        if let Some(place) = self.found.get_mut(cpu) {
            *place = Some(Found { tid: u32::MAX, ..found });
        }
    }

    /// The same of a sample without a copy; `last` is where the kernel's callchain ends.
    fn by_frame_pointers(
        &mut self,
        time: Nanos,
        sample: &Sample<'_>,
        last: Option<&u64>,
        addresses: &mut Vec<u64>,
    ) {
        let is_trusted = self.trusts(sample.pid, time);
        let ends = self.habits.get(&sample.pid).map(|habits| &habits.ends);
        match ends.zip(last).and_then(|(ends, last)| ends.get(last)) {
            _ if callchain::frames_of(sample) >= self.deepest => {
                self.tally.deep += 1;
                addresses.push(Cut::Deep.mark());
            }
            Some(Outermost { frames, seen: ENOUGH.., varies: false }) if is_trusted => {
                self.tally.by_frame_pointers += 1;
                addresses.extend_from_slice(frames);
            }
            // Nothing was copied, and what is outside is not known.
            _ if self.is_on => {
                self.tally.unknown += 1;
                addresses.push(Cut::Unknown.mark());
            }
            _ => {}
        }
    }

    /// Compares what was found with what the kernel found.
    fn look(&mut self, pid: u32, now: Nanos, by_frame_pointers: &[u64], found: &Found) {
        if self.habits.len() >= MOST && !self.habits.contains_key(&pid) {
            self.wanted.extend(self.habits.drain().map(|(pid, _)| (pid, None)));
        }
        let habits = self.habits.entry(pid).or_default();
        let window = &mut habits.window;
        window.samples += 1;
        window.short += u32::from(found.end == End::Short);
        window.most = window.most.max(found.took);
        let last = by_frame_pointers.last().copied().unwrap_or(0);
        if found.end == End::Root
            && let Some(outside) = found.callchain.strip_prefix(by_frame_pointers)
            // Some caller was found by a frame pointer.
            && by_frame_pointers.len() > 1
            && outside.len() <= MOST_OUTSIDE
            && found.is_of_one_library(by_frame_pointers.len() - 1)
            && (habits.ends.len() < MOST_ENDS || habits.ends.contains_key(&last))
        {
            let outermost = habits.ends.entry(last).or_insert_with(|| Outermost {
                frames: outside.to_vec(),
                seen: 0,
                varies: false,
            });
            outermost.seen += 1;
            outermost.varies |= outermost.frames != outside;
            window.alike += u32::from(!outermost.varies);
        }
        if window.samples < WINDOW && window.short <= FEW {
            return;
        }
        let Window { alike, short, most, .. } = std::mem::take(window);
        let bytes = habits.bytes;
        if alike + FEW >= WINDOW && !self.copied.contains(&pid) {
            habits.trusted = Some(now + TRUST);
            self.wanted.push((pid, Some(0)));
            return;
        }
        habits.bytes = match most.saturating_add(most / 2).next_power_of_two().max(LEAST) {
            _ if short > FEW => (2 * bytes).min(MOST_COPIED),
            // With room for more.
            enough if short == 0 && enough < bytes => enough,
            _ => bytes,
        };
        if habits.bytes != bytes {
            self.wanted.push((pid, Some(habits.bytes)));
        }
    }

    /// A process was forked from another one, whose habits it has.
    pub fn fork(&mut self, pid: u32, parent: u32) {
        self.forget(pid);
        let Some(habits) = self.habits.get(&parent).filter(|_| self.habits.len() < MOST).cloned() else {
            return;
        };
        self.wanted.extend(habits.wanted().map(|bytes| (pid, Some(bytes))));
        self.habits.insert(pid, habits);
    }

    /// A process has ended, or executes another program.
    pub fn forget(&mut self, pid: u32) {
        self.copied.remove(&pid);
        if self.habits.remove(&pid).is_some_and(|habits| habits.wanted().is_some()) {
            self.wanted.push((pid, None));
        }
    }

    /// How stacks have ended since the last call.
    pub fn take(&mut self) -> Unwound {
        std::mem::take(&mut self.tally)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::Address;

    const INSIDE: [u64; 3] = [0x1010, 0x1020, 0x1030];
    const OUTSIDE: [u64; 2] = [0x9010, 0x9020];
    const MINUTE: u64 = 60_000_000_000;

    fn sample(callchain: &[u64]) -> Sample<'_> {
        Sample { id: 0, address: Address(0x1010), pid: 7, tid: 8, callchain, stack: None }
    }

    fn found(callchain: &[u64], end: End, took: u32) -> Option<Found> {
        // The program, and what is outside of it.
        let image = |address: &u64| ImageIndex(if *address < 0x1030 { 10 } else { 11 });
        let images = callchain.iter().map(image).collect();
        Some(Found { tid: 8, callchain: callchain.to_vec(), images, end, took, ..Found::default() })
    }

    /// The callchain of a sample for which the kernel found `kernel`, and the walk over its stack the rest.
    fn seen(unwinding: &mut Unwinding, now: u64, kernel: &[u64], found: Option<Found>) -> Vec<u64> {
        unwinding.found[0] = found;
        let kernel = [&[Sample::USER], kernel].concat();
        let mut addresses = Vec::new();
        unwinding.callchain(0, Nanos(now), &sample(&kernel), &mut addresses);
        addresses[1..].to_vec()
    }

    #[test]
    fn programs_with_frame_pointers_are_not_copied_until_they_are_looked_at_again() {
        let mut unwinding = Unwinding { is_on: true, ..Unwinding::new(1) };
        let whole = [&INSIDE[..], &OUTSIDE].concat();
        for _ in 0..WINDOW {
            assert_eq!(seen(&mut unwinding, 1, &INSIDE, found(&whole, End::Root, 300)), whole);
        }
        assert_eq!(std::mem::take(&mut unwinding.wanted), [(7, Some(0))]);
        assert!(unwinding.trusts(7, Nanos(2)));
        assert_eq!(seen(&mut unwinding, 2, &INSIDE, None), whole, "with the outermost frames");
        let cut = Cut::Unknown.mark();
        assert_eq!(
            seen(&mut unwinding, 2, &[0x1010], None),
            [0x1010, cut],
            "it is not known what is outside"
        );
        // A worker of it.
        unwinding.fork(9, 7);
        assert_eq!(std::mem::take(&mut unwinding.wanted), [(9, Some(0))]);
        unwinding.forget(9);
        assert_eq!(std::mem::take(&mut unwinding.wanted), [(9, None)]);
        assert!(!unwinding.trusts(7, Nanos(2 + MINUTE)));
        assert_eq!(std::mem::take(&mut unwinding.wanted), [(7, None)]);
        let expected =
            Unwound { whole: WINDOW.into(), by_frame_pointers: 1, unknown: 1, ..Unwound::default() };
        assert_eq!((unwinding.take(), unwinding.take()), (expected, Unwound::default()));
    }

    #[test]
    fn what_may_be_called_from_elsewhere_is_not_outermost() {
        let mut unwinding = Unwinding { is_on: true, ..Unwinding::new(1) };
        // A library's function that uses the frame pointer for something else, and two frames of the program outside of it.
        let whole = [0x9000, 0x9010, 0x1010, 0x1020, 0x9020];
        for _ in 0..WINDOW {
            seen(&mut unwinding, 1, &whole[..2], found(&whole, End::Root, 300));
        }
        assert!(!unwinding.trusts(7, Nanos(2)));
    }

    #[test]
    fn outermost_frames_that_differ_are_not_put_behind_others() {
        let mut unwinding = Unwinding { is_on: true, ..Unwinding::new(1) };
        let end = |nth: u64| [&INSIDE[..], &[0x9010 + nth % 2]].concat();
        for nth in 0..u64::from(WINDOW) {
            seen(&mut unwinding, 1, &INSIDE, found(&end(nth), End::Root, 300));
        }
        assert!(!unwinding.trusts(7, Nanos(2)));
    }

    #[test]
    fn as_much_is_copied_as_is_needed() {
        let mut unwinding = Unwinding { is_on: true, ..Unwinding::new(1) };
        let mut window = |end, took| {
            // At once where copies are too short.
            for _ in 0..if end == End::Short { FEW + 1 } else { WINDOW } {
                seen(&mut unwinding, 1, &[0x1010], found(&INSIDE, end, took));
            }
            std::mem::take(&mut unwinding.wanted)
        };
        assert_eq!(window(End::Short, 8000), [(7, Some(16 << 10))]);
        assert_eq!(window(End::Short, 16000), [(7, Some(32 << 10))]);
        assert_eq!(window(End::Short, 32000), [(7, Some(MOST_COPIED))]);
        assert_eq!(window(End::Short, 50000), [], "that is all");
        assert_eq!(window(End::Root, 700), [(7, Some(2 << 10))]);
        assert_eq!(window(End::Root, 100), [(7, Some(LEAST))]);
        assert_eq!(window(End::Root, 600), []);
    }

    #[test]
    fn stacks_that_are_cut_have_a_mark() {
        let mut unwinding = Unwinding { is_on: true, ..Unwinding::new(1) };
        for (end, cut) in [(End::Short, Cut::Short), (End::Unknown, Cut::Unknown), (End::Deep, Cut::Deep)] {
            let expected = [&INSIDE[..], &[cut.mark()]].concat();
            assert_eq!(seen(&mut unwinding, 1, &[0x1010], found(&INSIDE, end, 100)), expected);
        }
        // What the kernel found is more.
        let more = [0x1010, 0x2020, 0x3030, 0x4040];
        let expected = [&more[..], &[Cut::Unknown.mark()]].concat();
        assert_eq!(seen(&mut unwinding, 1, &more, found(&INSIDE, End::Unknown, 100)), expected);
        // Another thread's stack is not this one's.
        let other = Some(Found { tid: 99, ..found(&INSIDE, End::Root, 100).unwrap() });
        let cut = Cut::Unknown.mark();
        assert_eq!(seen(&mut unwinding, 1, &[0x1010], other), [0x1010, cut]);
        // Nor is that of another sample of it, or one that is not looked at.
        assert_eq!(seen(&mut unwinding, 1, &[0x1018], found(&INSIDE, End::Root, 100)), [0x1018, cut]);
        unwinding.found[0] = found(&INSIDE, End::Root, 100);
        unwinding.no_stack(0);
        let of_unread = std::mem::take(&mut unwinding.found[0]);
        assert_eq!(seen(&mut unwinding, 1, &[0x1010], of_unread), [0x1010, cut]);
        // Without copies there is nothing to expect.
        unwinding.is_on = false;
        assert_eq!(seen(&mut unwinding, 1, &[0x1010], None), [0x1010]);
        let full = vec![0x1010; 127];
        assert_eq!(seen(&mut unwinding, 1, &full, None).last(), Some(&Cut::Deep.mark()));
    }
}

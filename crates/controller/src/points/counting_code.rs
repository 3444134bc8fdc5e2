//! Visits that the program counts itself: functions that begin with a jump to code which adds one to a word in shared memory.
//!
//! A breakpoint costs microseconds a visit, this costs nanoseconds. It is done from outside, in the program's memory alone: the file stays as it is, and children that it
//! forks count as well. The program waits for us before its first instruction, or all its threads are stopped for a moment, none of which is in the midst of what is
//! replaced. The code is put behind the function's own segment, into the rest of its last page, which nothing else uses.
//!
//! Only where nothing can go wrong: among the first instructions of a function, and if that can go unnoticed ([`beginning`]). `r11` is put back, and what is below the stack
//! pointer is left alone.

use super::beginning::{self, Beginning, JUMP, Leaves, PAGE, Why, is_branch, leaves};
use iced_x86::{Decoder, DecoderOptions};
use kernel::cpu::threads_alive;
use kernel::process_memory::TraceeMemory;
use kernel::tracee::{Late, Tracee, Trouble, release_if_stopped};
use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use symbols::{Image, Svma};
use wire::{Nanos, SharedMemory};

const NOP: u8 = 0x90;
/// Counting code takes no more bytes.
const MOST_CODE: u64 = 96;
/// What a visit costs: an addition that no other CPU does at the same time, and a jump forth and back. Measured by `bench -- points`.
pub const COST: Nanos = Nanos(5);
/// The same where other CPUs count there as well: the word goes from one to the other.
pub const SHARED_COST: Nanos = Nanos(50);

/// A function of a process, and where code can be put for it: addresses of the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    start: u64,
    beginning: Beginning,
    room: Range<u64>,
}

impl Function {
    /// The one that starts at a stated address of an image, which the process has `bias` further up.
    ///
    /// # Errors
    /// Why it must stay as it is.
    pub fn of(image: &Image, start: Svma, bias: u64) -> Result<Self, Why> {
        let beginning = beginning::of(image, start)?;
        let room = room(image, start, &beginning).ok_or(Why::NoRoom)?;
        let there = |svma: u64| Svma(svma).to_process(bias);
        Ok(Self { start: there(start.0), beginning, room: there(room.start)..there(room.end) })
    }

    /// Its address in the process.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// The instructions that give way for the jump.
    fn first(&self) -> &[u8] {
        &self.beginning.code[self.beginning.first.taken.clone()]
    }

    /// Where these are.
    pub fn taken(&self) -> Range<u64> {
        let Range { start, end } = self.beginning.first.taken;
        self.start + start as u64..self.start + end as u64
    }
}

/// Where there is room for counting code: in the rest of the last page of the function's segment, as the image states it.
fn room(image: &Image, start: Svma, beginning: &Beginning) -> Option<Range<u64>> {
    let end = start.0.checked_add(beginning.code.len() as u64)?;
    let holds = |load: &&symbols::Load| {
        let in_file = load.address.0.saturating_add(load.file_size.min(load.memory_size));
        load.executable && load.address.0 <= start.0 && end <= in_file
    };
    let load = image.loads().iter().find(holds)?;
    let room = load.address.0.checked_add(load.memory_size)?;
    let room = room..room.checked_next_multiple_of(PAGE)?;
    let pages = |load: &symbols::Load| {
        let end = load.address.0.saturating_add(load.memory_size);
        load.address.0 / PAGE * PAGE..end.checked_next_multiple_of(PAGE).unwrap_or(u64::MAX)
    };
    let is_shared = |other: &symbols::Load| {
        let pages = pages(other);
        other != load && pages.start < room.end && room.start < pages.end
    };
    let is_used =
        image.loads().iter().any(is_shared) || image.has_label(&(Svma(room.start + 1)..Svma(room.end)));
    (!is_used && room.end - room.start >= MOST_CODE).then_some(room)
}

/// Whether the program may be in the midst of what is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runs {
    /// It waits for us before its first instruction.
    NotYet,
    /// Its threads are stopped.
    Already,
}

/// Puts counting code into one process.
#[derive(Debug)]
pub struct Patcher {
    pid: u32,
    /// Of the program that it is: not of one that it executes later, nor of another process that gets its number.
    process: TraceeMemory,
    runs: Runs,
    /// Threads that were to stop, and have not yet.
    late: Mutex<Vec<u32>>,
    /// Where the shared memory is in the process.
    shared: u64,
    /// Instructions that are watched otherwise, too, or twice: nothing can be put in the place of these.
    watched: HashSet<u64>,
    twice: HashSet<u64>,
    /// Whether the CPU may keep the addresses that its calls return to.
    has_shadow_stack: bool,
    changed: Mutex<Vec<Changed>>,
}

/// A function that leads to counting code.
#[derive(Debug)]
struct Changed {
    function: Function,
    /// What is in the place of what gave way.
    entry: Vec<u8>,
    /// What is counted in.
    word: u64,
}

/// Where counting code is. Of all patchers, and in all processes: several change the same process one after the other, children have the code of their parents, and a thread may be
/// in what led there before. So no place is used twice, but for the same code.
#[derive(Debug, Default)]
struct Rooms {
    /// The free part of each room, by its end.
    free: BTreeMap<u64, u64>,
    places: BTreeMap<Counting, u64>,
}

/// Counting code, wherever it is: the same does the same.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Counting {
    /// What gives way, and where.
    from: u64,
    first: Vec<u8>,
    /// Of what is counted in.
    word: u64,
    /// Its own bytes.
    length: usize,
    /// From and to where it may be.
    room: (u64, u64),
}

static ROOMS: Mutex<Rooms> = Mutex::new(Rooms { free: BTreeMap::new(), places: BTreeMap::new() });

impl Rooms {
    /// A place for counting code; `None` if there is no room left.
    fn place(&mut self, counting: Counting) -> Option<u64> {
        if let Some(place) = self.places.get(&counting) {
            return Some(*place);
        }
        let (start, end) = counting.room;
        let free = self.free.entry(end).or_default();
        // Other images may have been there.
        let place = start.max(*free);
        *free = place.checked_add(counting.length as u64).filter(|behind| *behind <= end)?;
        self.places.insert(counting, place);
        Some(place)
    }
}

/// A word that the program adds to.
#[derive(Clone, Debug)]
pub struct Word(&'static AtomicU64);

impl Word {
    pub fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Patcher {
    /// For a process that shares memory with us; `watched`: all instructions whose visits are to be counted.
    pub fn new(pid: u32, runs: Runs, watched: impl IntoIterator<Item = u64>) -> Option<Self> {
        let (mut once, mut twice) = (HashSet::new(), HashSet::new());
        for address in watched {
            if !once.insert(address) {
                twice.insert(address);
            }
        }
        let (process, shared) = (TraceeMemory::open(pid).ok()?, shared_memory_of(pid)?);
        let (late, changed) = (Mutex::default(), Mutex::default());
        let has_shadow_stack = may_have_shadow_stack(pid, runs);
        Some(Self { pid, process, runs, late, shared, watched: once, twice, has_shadow_stack, changed })
    }

    /// Whether it is for this process.
    pub fn is_of(&self, pid: u32) -> bool {
        self.pid == pid
    }

    /// Has functions count their visits, each in a word that is in `memory`. `None` where that is not safe, and nothing is changed.
    pub fn count(
        &self,
        wanted: &[(&Function, &'static AtomicU64)],
        memory: &SharedMemory,
    ) -> Vec<Option<Word>> {
        let taken: Vec<Range<u64>> = wanted.iter().map(|(function, _)| function.taken()).collect();
        let mappings = kernel::maps(self.pid).unwrap_or_default();
        let is_there =
            |(function, _): &(&Function, _)| self.is_there(function.start, &function.beginning.code);
        if !wanted.iter().any(|one| is_there(one) || self.is_changed(one.0)) {
            return vec![None; wanted.len()];
        }
        let Some(_stopped) = self.stop_outside(&taken) else { return vec![None; wanted.len()] };
        wanted.iter().map(|(function, word)| self.change(function, word, memory, &mappings)).collect()
    }

    /// Whether these bytes are there.
    fn is_there(&self, at: u64, bytes: &[u8]) -> bool {
        let mut now = vec![0; bytes.len()];
        self.process.read(at, &mut now).is_ok() && now == bytes
    }

    /// Whether what was changed still leads to counting code.
    fn is_still(&self, changed: &Changed) -> bool {
        self.is_there(changed.function.taken().start, &changed.entry)
    }

    /// Whether a function leads to counting code.
    fn is_changed(&self, function: &Function) -> bool {
        let changed = self.changed.lock().unwrap_or_else(PoisonError::into_inner);
        changed.iter().any(|one| one.function == *function && self.is_still(one))
    }

    fn change(
        &self,
        function: &Function,
        word: &'static AtomicU64,
        memory: &SharedMemory,
        mappings: &[kernel::Mapping],
    ) -> Option<Word> {
        let within = std::ptr::from_ref(word).addr().checked_sub(std::ptr::from_ref(memory).addr())?;
        let taken = function.taken();
        let is_watched = self.twice.contains(&function.start)
            || taken.clone().any(|address| address != function.start && self.watched.contains(&address));
        // Whatever becomes of us, the jump is there as a whole or not at all.
        let is_on_two_pages = taken.start / PAGE != (taken.end - 1) / PAGE;
        if within >= SharedMemory::SIZE
            || is_watched
            || is_on_two_pages
            || function.beginning.first.calls && self.has_shadow_stack
            || !is_one_mapping(function, mappings)
        {
            return None;
        }
        let is_changed = self.is_changed(function);
        let mut changed = self.changed.lock().unwrap_or_else(PoisonError::into_inner);
        let word_there = self.shared + within as u64;
        if is_changed {
            let is_it = |one: &Changed| one.function == *function && one.word == word_there;
            return changed.iter().any(is_it).then_some(Word(word));
        }
        changed.retain(|one| one.function != *function);
        let overlaps = |one: &Changed| {
            let other = one.function.taken();
            other.start < taken.end && taken.start < other.end
        };
        // A probe or a debugger has changed it, or we have.
        if !self.is_there(function.start, &function.beginning.code) || changed.iter().any(overlaps) {
            return None;
        }
        let first = function.first();
        let code =
            |at| counting_code(at, first, taken.start, word_there, function.beginning.first.keeps_flags);
        // As long everywhere.
        let length = code(function.room.start)?.len();
        let cell = {
            let mut rooms = ROOMS.lock().unwrap_or_else(PoisonError::into_inner);
            let room = (function.room.start, function.room.end);
            let (from, first, word) = (taken.start, first.to_vec(), word_there);
            rooms.place(Counting { from, first, word, length, room })?
        };
        let counting = code(cell)?;
        // Also where it has been before: its library may have been loaded again.
        write(&self.process, &counting, cell)?;
        let mut entry = jump(taken.start, cell)?;
        entry.resize(taken.end.saturating_sub(taken.start) as usize, NOP);
        if write(&self.process, &entry, taken.start).is_none() {
            // As it was.
            let _ = self.process.write(taken.start, first);
            return None;
        }
        changed.push(Changed { function: function.clone(), entry, word: word_there });
        Some(Word(word))
    }

    /// Has functions be what they were: these, or all. What counts stays, for threads that are in it.
    pub fn restore(&self, those: impl Fn(&Function) -> bool) {
        let mut changed = self.changed.lock().unwrap_or_else(PoisonError::into_inner);
        // Not after another program has been executed.
        changed.retain(|one| self.is_still(one));
        if !changed.iter().any(|one| those(&one.function)) {
            return;
        }
        // No thread is within the jump. What cannot be changed back goes on counting.
        let Some(_stopped) = self.stop_outside(&[]) else { return };
        let is_restored =
            |function: &Function| write(&self.process, function.first(), function.taken().start).is_some();
        changed.retain(|one| !those(&one.function) || !is_restored(&one.function));
    }

    /// Lets threads go that were to stop, and have only now; whether none is left.
    pub fn release_late(&self) -> bool {
        let mut late = self.late.lock().unwrap_or_else(PoisonError::into_inner);
        late.retain(|thread| release_if_stopped(*thread) == Late::Runs);
        late.is_empty()
    }

    /// Stops all its threads where none of them is in the midst of what is `taken`, nor returns there: they go on when what this returns is dropped. `None` where that cannot be
    /// had.
    fn stop_outside(&self, taken: &[Range<u64>]) -> Option<Vec<Tracee>> {
        const LONGEST: Duration = Duration::from_millis(500);
        const PATIENCE: Duration = Duration::from_millis(200);
        const PAUSE: Duration = Duration::from_millis(1);
        let alive = || threads_alive(self.pid);
        let numbers = || alive().into_iter().map(|(thread, _)| thread).collect::<Vec<_>>();
        if self.runs == Runs::NotYet {
            return (alive().len() == 1).then(Vec::new);
        }
        let is_midst = |address: u64| taken.iter().any(|taken| taken.start < address && address < taken.end);
        let begin = Instant::now();
        while begin.elapsed() < LONGEST {
            // One that waits for a device, or for a child that has its memory, would let the others wait.
            let is_ready = |(_, state): &(u32, char)| matches!(state, 'R' | 'S' | 'I');
            if !self.release_late() || !alive().iter().all(is_ready) {
                std::thread::sleep(PAUSE);
                continue;
            }
            match Tracee::stop_process(self.pid, numbers, PATIENCE) {
                Ok(stopped) if stopped.is_empty() => return None,
                Ok(stopped) => {
                    let is_in_midst = |tracee: &Tracee| {
                        is_midst(tracee.instruction_pointer())
                            || tracee.may_return_to(&self.process, is_midst)
                    };
                    if !stopped.iter().any(is_in_midst) {
                        return Some(stopped);
                    }
                }
                Err(troubles) => {
                    let is_stuck = |(_, trouble): &&(u32, Trouble)| matches!(trouble, Trouble::Stuck);
                    let stuck = troubles.iter().filter(is_stuck).map(|(thread, _)| *thread);
                    self.late.lock().unwrap_or_else(PoisonError::into_inner).extend(stuck);
                    // A thread that has just begun or is about to end may be refused.
                    if troubles.iter().any(|(thread, _)| *thread == self.pid) {
                        return None;
                    }
                }
            }
            std::thread::sleep(PAUSE);
        }
        None
    }

    /// The code that is changed.
    pub fn changed(&self) -> Vec<Range<u64>> {
        let changed = self.changed.lock().unwrap_or_else(PoisonError::into_inner);
        changed.iter().map(|one| one.function.taken()).collect()
    }
}

impl Drop for Patcher {
    /// A program that runs is what it was, and none of its threads waits for us. By the thread of ours that has stopped them.
    fn drop(&mut self) {
        const PAUSE: Duration = Duration::from_millis(5);
        if self.runs == Runs::NotYet {
            return;
        }
        self.restore(|_| true);
        while !self.release_late() {
            std::thread::sleep(PAUSE);
        }
    }
}

/// Whether the function and the room are mapped together, as code, and nothing else is.
fn is_one_mapping(function: &Function, mappings: &[kernel::Mapping]) -> bool {
    mappings.iter().any(|mapping| {
        mapping.executable && mapping.start.0 <= function.start && function.room.end <= mapping.end.0
    })
}

/// Writes it, and sees that it is there.
fn write(process: &TraceeMemory, bytes: &[u8], at: u64) -> Option<()> {
    let mut there = vec![0; bytes.len()];
    process.write(at, bytes).ok()?;
    process.read(at, &mut there).ok()?;
    (there == bytes).then_some(())
}

/// Instructions that are at `from`, for another place, up to one that leads elsewhere for good: what they find or lead to by its distance from themselves, they find from there,
/// and a call returns to where it returned. Also whether the code goes on behind the last of them.
fn moved(instructions: &[u8], from: u64, to: u64) -> Option<(Vec<u8>, bool)> {
    /// `jo rel32`, the first of the conditional jumps in the order of their conditions.
    const JO: [u8; 2] = [0x0f, 0x80];
    const JMP: u8 = 0xe9;
    let mut moved = Vec::new();
    let mut decoder = Decoder::with_ip(64, instructions, from, DecoderOptions::NONE);
    while decoder.can_decode() {
        let at = decoder.position();
        let instruction = decoder.decode();
        let distance = |target: u64, next: usize| -> Option<[u8; 4]> {
            let next = to.checked_add(next as u64)?;
            Some(i32::try_from(target.wrapping_sub(next) as i64).ok()?.to_le_bytes())
        };
        let leaves = leaves(&instruction);
        if leaves == Some(Leaves::Call) {
            moved.extend(returning_to(instruction.next_ip()));
        }
        let begin = moved.len();
        if is_branch(&instruction) {
            match leaves {
                Some(_) => moved.push(JMP),
                None => moved.extend([JO[0], JO[1] + condition(&instructions[at..])?]),
            }
            moved.extend(distance(instruction.near_branch_target(), moved.len() + 4)?);
        } else {
            moved.extend(instructions.get(at..at + instruction.len())?);
            if instruction.is_ip_rel_memory_operand() {
                let offsets = decoder.get_constant_offsets(&instruction);
                let distance = distance(instruction.ip_rel_memory_address(), begin + instruction.len())?;
                let place = begin + offsets.displacement_offset()..;
                let place = moved.get_mut(place)?.get_mut(..offsets.displacement_size())?;
                if place.len() != distance.len() {
                    return None;
                }
                place.copy_from_slice(&distance);
            }
            if leaves == Some(Leaves::Call) {
                jumps_instead(moved.get_mut(begin..)?)?;
            }
        }
        match leaves {
            None => {}
            Some(Leaves::ForGood | Leaves::Call) => return Some((moved, false)),
        }
    }
    Some((moved, true))
}

/// What a call does but for going where it leads: an address to return to, on the stack. And by a call, for the CPU counts calls to foresee where those return that are further out.
fn returning_to(address: u64) -> Vec<u8> {
    let (low, high) = (address as u32, (address >> 32) as u32);
    let call = [0xe8, 1, 0, 0, 0, 0xcc]; // call over the next byte; int3
    let low = [&[0xc7, 0x04, 0x24][..], &low.to_le_bytes()].concat(); // mov dword ptr [rsp], low
    let high = [&[0xc7, 0x44, 0x24, 4][..], &high.to_le_bytes()].concat(); // mov dword ptr [rsp + 4], high
    [&call[..], &low, &high].concat()
}

/// Makes a jump of a call through a register or a word: another number in the byte behind the operation.
fn jumps_instead(call: &mut [u8]) -> Option<()> {
    const CALL: u8 = 2 << 3;
    const JUMP: u8 = 4 << 3;
    const WHICH: u8 = 7 << 3;
    let operation = call.iter().position(|byte| *byte == 0xff)?;
    let is_prefix = |byte: &u8| matches!(byte, 0x3e | 0x40..=0x4f);
    let byte = call.get(operation + 1)?;
    if !call[..operation].iter().all(is_prefix) || byte & WHICH != CALL || call.len() > 6 {
        return None;
    }
    call[operation + 1] = byte & !WHICH | JUMP;
    Some(())
}

/// Which condition a conditional jump is about; `None` if it has a prefix.
fn condition(jump: &[u8]) -> Option<u8> {
    match *jump {
        [short @ 0x70..=0x7f, ..] => Some(short & 15),
        [0x0f, near @ 0x80..=0x8f, ..] => Some(near & 15),
        _ => None,
    }
}

/// Adds one to the word, does what the instructions do that gave way at `from`, and goes on behind these.
fn counting_code(at: u64, first: &[u8], from: u64, word: u64, keeps_flags: bool) -> Option<Vec<u8>> {
    let mut code = vec![0x48, 0x8d, 0x64, 0x24, 0x80]; // lea rsp, [rsp - 128]
    code.extend([0x41, 0x53]); // push r11
    code.extend(keeps_flags.then_some(0x9c)); // pushfq
    code.extend([0x49, 0xbb]); // mov r11, word
    code.extend(word.to_le_bytes());
    code.extend([0xf0, 0x49, 0xff, 0x03]); // lock inc qword ptr [r11]
    code.extend(keeps_flags.then_some(0x9d)); // popfq
    code.extend([0x41, 0x5b]); // pop r11
    code.extend([0x48, 0x8d, 0xa4, 0x24, 0x80, 0, 0, 0]); // lea rsp, [rsp + 128]
    let (moved, goes_on) = moved(first, from, at + code.len() as u64)?;
    code.extend(moved);
    if goes_on {
        code.extend(jump(at + code.len() as u64, from + first.len() as u64)?);
    }
    Some(code)
}

/// A jump at `from` that leads to `to`, if it is near.
fn jump(from: u64, to: u64) -> Option<Vec<u8>> {
    let distance = i32::try_from(to.wrapping_sub(from.wrapping_add(JUMP as u64)) as i64).ok()?;
    Some([&[0xe9][..], &distance.to_le_bytes()].concat())
}

/// Whether calls and returns of a process are compared by the CPU, or may be once it runs.
fn may_have_shadow_stack(pid: u32, runs: Runs) -> bool {
    let has_one = || {
        let is_it = |line: &str| {
            line.starts_with("x86_Thread_features") && line.split_whitespace().any(|word| word == "shstk")
        };
        std::fs::read_to_string(format!("/proc/{pid}/status")).is_ok_and(|text| text.lines().any(is_it))
    };
    kernel::cpu::has_flag("user_shstk") == Some(true) && (runs == Runs::NotYet || has_one())
}

/// Where the memory that we share with it is in a process.
fn shared_memory_of(pid: u32) -> Option<u64> {
    let is_shared = |mapping: &kernel::Mapping| {
        let name = mapping.path.as_deref().map(|path| path.to_string_lossy().into_owned());
        let length = mapping.end.0 - mapping.start.0;
        name.is_some_and(|name| name.starts_with("/memfd:whatif"))
            && mapping.offset.0 == 0
            && length >= SharedMemory::SIZE as u64
    };
    kernel::maps(pid).ok()?.into_iter().find(is_shared).map(|mapping| mapping.start.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::{Instruction, Mnemonic, Register};

    #[test]
    fn what_is_found_by_its_distance_is_found_from_elsewhere() {
        // push rbp; cmp dword ptr [rip + 16], 7; lea rax, [rip - 3]
        let code = [0x55, 0x83, 0x3d, 16, 0, 0, 0, 7, 0x48, 0x8d, 0x05, 0xfd, 0xff, 0xff, 0xff];
        let addresses = |code: &[u8], at| -> Vec<u64> {
            let decoded = Decoder::with_ip(64, code, at, DecoderOptions::NONE);
            decoded.into_iter().map(|one| one.ip_rel_memory_address()).collect()
        };
        let (there, _) = moved(&code, 0x1000, 0x9000).unwrap();
        assert_eq!(addresses(&there, 0x9000), addresses(&code, 0x1000));
        assert_eq!((there[0], there[7]), (0x55, 7), "and nothing else is changed");
        assert_eq!(moved(&code, 0x1000, 0x1_0000_0000_0000), None, "too far away");
    }

    #[test]
    fn conditional_jumps_lead_where_they_led() {
        // test esi, esi; jle 0x1014; jne 0x1234; nop
        let code = [0x85, 0xf6, 0x7e, 0x10, 0x0f, 0x85, 0x2a, 2, 0, 0, 0x90];
        let jumps = |code: &[u8], at| -> Vec<(String, u64)> {
            let decoded = Decoder::with_ip(64, code, at, DecoderOptions::NONE).into_iter();
            decoded.map(|one| (format!("{:?}", one.condition_code()), one.near_branch_target())).collect()
        };
        let (there, _) = moved(&code, 0x1000, 0x9000).unwrap();
        assert_eq!(jumps(&there, 0x9000), jumps(&code, 0x1000));
        assert_eq!(jumps(&code, 0x1000)[1], ("le".to_owned(), 0x1014));
        // With a prefix that predicts it: as it is, or not at all.
        assert_eq!(moved(&[0x3e, 0x7e, 0x10], 0x1000, 0x9000), None);
    }

    #[test]
    fn calls_lead_where_they_led_and_return_to_where_they_returned() {
        let (from, to) = (0x5555_0000_1000, 0x5555_0000_9000);
        // What is done, and where it leads.
        let decoded = |code: &[u8]| -> Vec<Instruction> {
            let (code, goes_on) = moved(code, from, to).unwrap();
            assert!(!goes_on);
            Decoder::with_ip(64, &code, to, DecoderOptions::NONE).iter().collect()
        };
        // push rbx; call
        let all = decoded(&[0x53, 0xe8, 0x10, 2, 0, 0]);
        let kinds: Vec<Mnemonic> = all.iter().map(Instruction::mnemonic).collect();
        use Mnemonic::{Call, Int3, Jmp, Mov, Push};
        assert_eq!(kinds, [Push, Call, Int3, Mov, Mov, Jmp]);
        assert_eq!(all[1].near_branch_target(), all[3].ip());
        assert_eq!((all[3].immediate32(), all[4].immediate32()), (0x1006, 0x5555));
        assert_eq!((all[3].memory_displacement64(), all[4].memory_displacement64()), (0, 4));
        assert_eq!(all[5].near_branch_target(), from + 0x216);
        // nop; call [rip + 16]
        let all = decoded(&[0x66, 0x90, 0xff, 0x15, 16, 0, 0, 0]);
        assert_eq!(
            (all[5].mnemonic(), all[5].ip_rel_memory_address(), all[3].immediate32()),
            (Jmp, from + 0x18, 0x1008)
        );
        // nop; call r12
        let all = decoded(&[0x66, 0x90, 0x41, 0xff, 0xd4]);
        assert_eq!(
            (all[5].mnemonic(), all[5].op0_register(), all[3].immediate32()),
            (Jmp, Register::R12, 0x1005)
        );
    }

    #[test]
    fn no_place_is_used_twice_but_for_the_same_code() {
        let mut rooms = Rooms::default();
        let counting = |from, word, length| {
            let (first, room) = (vec![0x55], (0x1f00, 0x2000));
            Counting { from, first, word, length, room }
        };
        let mut place = |from, word, length| rooms.place(counting(from, word, length));
        assert_eq!((place(0x1000, 8, 60), place(0x1010, 8, 60)), (Some(0x1f00), Some(0x1f3c)));
        assert_eq!((place(0x1000, 8, 60), place(0x1000, 16, 60)), (Some(0x1f00), Some(0x1f78)));
        assert_eq!((place(0x1020, 8, 77), place(0x1020, 8, 76)), (None, Some(0x1fb4)), "up to its end");
        assert_eq!(place(0x1030, 8, 1), None);
        // Of another image that ends on the same page, and has more code.
        let mut rooms = Rooms::default();
        assert_eq!(rooms.place(counting(0x1000, 8, 60)), Some(0x1f00));
        let mut other = counting(0x1000, 8, 60);
        other.room.0 = 0x1f80;
        assert_eq!(rooms.place(other), Some(0x1f80));
    }

    #[test]
    fn nothing_follows_what_leaves_for_good() {
        // xor eax, eax; jmp 0x1017; and ret with what fills the room behind it
        let code = counting_code(0x9000, &[0x31, 0xc0, 0xe9, 0x10, 0, 0, 0], 0x1000, 0x8000, false).unwrap();
        let last = Decoder::with_ip(64, &code, 0x9000, DecoderOptions::NONE).iter().last().unwrap();
        assert_eq!((last.mnemonic(), last.near_branch_target()), (Mnemonic::Jmp, 0x1017));
        let code = counting_code(0x9000, &[0xc3, 0xcc, 0xcc, 0xcc, 0xcc], 0x1000, 0x8000, false).unwrap();
        assert_eq!(code.last(), Some(&0xc3));
    }

    #[test]
    fn the_code_adds_one_and_goes_on_where_it_came_from() {
        let first = [0x55, 0x48, 0x89, 0xe5, 0x53];
        let code = counting_code(0x9000, &first, 0x1000, 0x7f00_1234_5678, true).unwrap();
        let decoded: Vec<Instruction> =
            Decoder::with_ip(64, &code, 0x9000, DecoderOptions::NONE).iter().collect();
        let kinds: Vec<String> = decoded.iter().map(|one| format!("{:?}", one.mnemonic())).collect();
        assert_eq!(
            kinds,
            ["Lea", "Push", "Pushfq", "Mov", "Inc", "Popfq", "Pop", "Lea", "Push", "Mov", "Push", "Jmp"]
        );
        assert_eq!(decoded[3].immediate64(), 0x7f00_1234_5678);
        assert!(decoded[4].has_lock_prefix());
        assert_eq!(decoded[11].near_branch_target(), 0x1005);
        assert_eq!(jump(0x1000, 0x1_0000_0000_0000), None);
    }
}

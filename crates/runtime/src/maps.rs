//! Where this process has the code of files, in the addresses that all processes of the experiment share ([`wire::files`]).
//!
//! The first program, and what it forks, has its code where the shared addresses say. A program that was executed later reads what it has mapped from
//! `/proc/self/maps` with its first sample, and again when code is not known, and now and then (a library may be where another one was). Its
//! callchains are translated before anything is looked up in them. A forked child of the first program reads the list now and then, and translates as soon as it has
//! code that it did not inherit (a worker that loads a plugin).
//!
//! Code that an executed program makes while it runs (JIT compilers) is at addresses of its process's own ([`wire::made`]). A process takes a number for
//! that when it is first seen to have such memory; its forked children take numbers of their own.
//!
//! There are two tables, which take turns: threads look up in the one while one of them, in its signal handler, writes the other. A reader
//! needs microseconds, and nothing is written more often than every tenth of a second.

use crate::memory::shared;
use crate::sys;
use core::cell::UnsafeCell;
use core::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use wire::files::{NOWHERE, Stretch};
use wire::made::{self, Maker};
use wire::slot::Origin;
use wire::{Address, Nanos};

/// Pieces of code that are known of a process; those of higher addresses are nowhere.
const MOST: usize = 1024;
/// Pieces of memory for made code that are told apart; what is between further ones, and belongs to no file, counts as such memory as well.
const MOST_MADE: usize = MOST / 4;
/// After this time the list is read again when an address is unknown.
const REFRESH: Nanos = Nanos(100_000_000);
/// After this time the list is read again in any case.
const STALE: Nanos = Nanos(250_000_000);
/// Reading never takes more than this part of the time, as a divisor.
const MOST_SHARE: u64 = 200;

/// A piece of code.
struct Piece {
    start: AtomicU64,
    end: AtomicU64,
    /// Where it is by the shared addresses.
    place: AtomicU64,
}

impl Piece {
    const fn new() -> Self {
        Self { start: AtomicU64::new(0), end: AtomicU64::new(0), place: AtomicU64::new(0) }
    }
}

struct Table {
    count: AtomicU32,
    pieces: [Piece; MOST],
}

impl Table {
    const fn new() -> Self {
        Self { count: AtomicU32::new(0), pieces: [const { Piece::new() }; MOST] }
    }

    fn is_empty(&self) -> bool {
        self.count.load(Relaxed) == 0
    }

    /// Whether a piece that begins there has this for its place.
    fn has(&self, start: u64, place: u64) -> bool {
        let pieces = &self.pieces[..(self.count.load(Relaxed) as usize).min(MOST)];
        let nth = pieces.partition_point(|piece| piece.start.load(Relaxed) < start);
        pieces
            .get(nth)
            .is_some_and(|piece| (piece.start.load(Relaxed), piece.place.load(Relaxed)) == (start, place))
    }

    /// Adds a piece as the `nth`; whether there is room.
    fn write(&self, nth: usize, start: u64, length: u64, place: u64) -> bool {
        let Some(piece) = self.pieces.get(nth) else { return false };
        piece.start.store(start, Relaxed);
        piece.end.store(start + length, Relaxed);
        piece.place.store(place, Relaxed);
        true
    }

    /// Has the `nth` piece reach to another end.
    fn extend(&self, nth: usize, end: u64) {
        if let Some(piece) = self.pieces.get(nth) {
            piece.end.store(end, Relaxed);
        }
    }

    /// The pieces come in the order of their addresses.
    fn find(&self, address: u64) -> Option<Address> {
        let pieces = &self.pieces[..(self.count.load(Relaxed) as usize).min(MOST)];
        let after = pieces.partition_point(|piece| piece.start.load(Relaxed) <= address);
        let piece = pieces.get(after.checked_sub(1)?)?;
        let inside = address < piece.end.load(Relaxed);
        inside.then(|| Address(piece.place.load(Relaxed) + (address - piece.start.load(Relaxed))))
    }
}

static TABLES: [Table; 2] = [const { Table::new() }; 2];
/// Which of them is in use: Release when it has been written, Acquire before it is read. Zero: none, addresses are what they are.
static IN_USE: AtomicU32 = AtomicU32::new(0);
/// What the first program had mapped at a fork, or not long before; `place` is the fingerprint of the stretch.
static INHERITED: Table = Table::new();
/// When that was.
static INHERITED_AT: AtomicU64 = AtomicU64::new(0);
/// When the list was read, and how long that took.
static READ_AT: AtomicU64 = AtomicU64::new(0);
static TOOK: AtomicU64 = AtomicU64::new(0);
/// Whether a thread reads it now.
static READING: AtomicBool = AtomicBool::new(false);

/// Where a part of the list is read to; signal handlers may have small stacks.
struct Buffer(UnsafeCell<[u8; 8192]>);

// SAFETY: only the thread that has set `READING` uses it.
unsafe impl Sync for Buffer {}

static BUFFER: Buffer = Buffer(UnsafeCell::new([0; 8192]));

/// One more than the number of this process among those that make code; zero until it has one.
static MAKER: AtomicU32 = AtomicU32::new(0);
/// The same of the process that it was forked from.
static PARENT: AtomicU32 = AtomicU32::new(0);
/// When the program was executed, or the process was forked.
static SINCE: AtomicU64 = AtomicU64::new(0);

/// Whether this process was forked from one that is profiled.
static FORKED: AtomicBool = AtomicBool::new(false);

/// Where this process comes from.
pub fn origin() -> Origin {
    match (generation(), FORKED.load(Relaxed)) {
        (0, _) => Origin::First,
        (_, false) => Origin::Executed,
        (_, true) => Origin::ForkedFromExecuted,
    }
}

/// The first program says where it has its code.
pub fn tell() {
    forget();
    GENERATION.store(0, Relaxed);
    IN_USE.store(0, Release);
    let process = sys::getpid();
    let is_at = |start, code, name: &[u8]| {
        if let Code::Of(stretch) = code {
            shared().files.is_at(stretch, Address(start), process, name);
        }
    };
    exclusively(|buffer| each_code(buffer, is_at));
}

/// Nothing is known of another session, which a program that was attached to may have been in.
fn forget() {
    [&MAKER, &PARENT].iter().for_each(|number| number.store(0, Relaxed));
    FORKED.store(false, Relaxed);
    INHERITED.count.store(0, Relaxed);
    INHERITED_AT.store(0, Relaxed);
    READ_AT.store(0, Relaxed);
    TABLES.iter().for_each(|table| table.count.store(0, Relaxed));
}

/// This process has a copy of what another one's threads were in the midst of.
pub fn in_copy() {
    READING.store(false, Relaxed);
}

/// What tells a stretch from another one at the same address.
fn fingerprint(stretch: Stretch) -> u64 {
    let mix = |hash: u64, word: u64| (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    [stretch.device, stretch.inode, stretch.offset, stretch.length].into_iter().fold(0, mix)
}

/// The process is about to fork: what the child will have inherited is noted, if this is the first program or was forked from it.
pub fn before_fork() {
    const OLD: u64 = 1_000_000_000;
    if FORKED.load(Relaxed) {
        // What this one has loaded is translated from now on.
        if IN_USE.load(Relaxed) == 0 {
            read();
        }
        return;
    }
    let now = sys::now();
    let is_old = || now.0 >= INHERITED_AT.load(Relaxed).saturating_add(OLD);
    if IN_USE.load(Relaxed) != 0 || !INHERITED.is_empty() && !is_old() {
        return;
    }
    let mut count = 0;
    let note = |start, code, _: &[u8]| {
        if let Code::Of(stretch) = code {
            count += usize::from(INHERITED.write(count, start, stretch.length, fingerprint(stretch)));
        }
    };
    let work = |buffer: &mut [u8]| {
        // Another thread may fork meanwhile: its child finds none.
        INHERITED.count.store(0, Release);
        each_code(buffer, note)
    };
    if exclusively(work) {
        INHERITED.count.store(count as u32, Relaxed);
        INHERITED_AT.store(now.0, Relaxed);
    }
}

/// The number of the program among those that were executed.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// See [`GENERATION`]; zero in the first program.
pub fn generation() -> u32 {
    GENERATION.load(Relaxed)
}

/// Addresses of this process are translated from now on. The list is read with the first sample: many programs end before they have any.
pub fn begin(generation: u32) {
    forget();
    GENERATION.store(generation, Relaxed);
    SINCE.store(sys::now().0, Relaxed);
    IN_USE.store(1, Release);
}

/// A forked child has a copy of the tables. What another thread was doing with them is not done here.
pub fn in_child() {
    in_copy();
    FORKED.store(true, Relaxed);
    if IN_USE.load(Relaxed) == 0 {
        READ_AT.store(sys::now().0, Relaxed);
    }
    let parent = MAKER.swap(0, Relaxed);
    if parent != 0 {
        PARENT.store(parent, Relaxed);
        // The tables have the parent's places: they are made anew with the first sample.
        READ_AT.store(0, Relaxed);
    }
    SINCE.store(sys::now().0, Relaxed);
}

/// The number of this process among those that make code: a new one with the first call. Only one thread calls this at a time.
fn maker() -> Option<u32> {
    if MAKER.load(Relaxed) == 0 {
        let parent = PARENT.load(Relaxed).checked_sub(1);
        let since = Nanos(SINCE.load(Relaxed));
        let number = shared().made.take(Maker { process: sys::getpid(), parent, since })?;
        MAKER.store(number + 1, Relaxed);
    }
    MAKER.load(Relaxed).checked_sub(1)
}

/// Whether this is the first program, or was forked from it: what is not translated is where the shared addresses say.
fn is_of_first() -> bool {
    generation() == 0
}

fn untranslated(address: u64) -> Address {
    if is_of_first() { Address(address) } else { NOWHERE }
}

/// Reads the list again if that has been so long ago. Called from the signal handler, with the time.
pub fn keep_up(now: Nanos) {
    let may_have_others = FORKED.load(Relaxed) && !INHERITED.is_empty();
    if IN_USE.load(Relaxed) != 0 || may_have_others {
        read_after(now, STALE);
    }
}

/// An address of this process by the shared addresses. Called from the signal handler.
#[inline]
pub fn shared_address(address: usize) -> Address {
    match IN_USE.load(Acquire) {
        0 => Address(address as u64),
        in_use => translated(address as u64, in_use),
    }
}

/// The same as far as it is known, and not of code that the program makes: that may have gone since. Called from the signal handler.
pub fn known_address(address: usize) -> Address {
    match IN_USE.load(Acquire) {
        0 => Address(address as u64),
        in_use => {
            let found = TABLES[in_use as usize & 1].find(address as u64);
            let found = found.filter(|place| made::origin(*place).is_none());
            found.unwrap_or_else(|| untranslated(address as u64))
        }
    }
}

fn translated(address: u64, in_use: u32) -> Address {
    let find = |in_use: u32| TABLES[in_use as usize & 1].find(address);
    let found = find(in_use).or_else(|| {
        let is_new = read_after(sys::now(), REFRESH);
        is_new.then(|| find(IN_USE.load(Acquire))).flatten()
    });
    found.unwrap_or_else(|| untranslated(address))
}

/// Whether the list was read, because that was due.
fn read_after(now: Nanos, time: Nanos) -> bool {
    let wait = time.0.max(TOOK.load(Relaxed).saturating_mul(MOST_SHARE));
    now.0 >= READ_AT.load(Relaxed).saturating_add(wait) && read()
}

/// The made code of a process while its table is being written.
#[derive(Default)]
struct MadeCode {
    pieces: usize,
    /// Its last piece: which one of all, and its end.
    last: Option<(usize, u64)>,
}

impl MadeCode {
    /// Adds a piece, or has the one before it reach to its end.
    fn add(&mut self, table: &Table, count: &mut usize, start: u64, length: u64) {
        let before = self.last.filter(|(nth, _)| nth + 1 == *count);
        match before {
            Some((nth, end)) if end == start || self.pieces >= MOST_MADE => {
                table.extend(nth, start + length);
                self.last = Some((nth, start + length));
            }
            _ if self.pieces < MOST_MADE => {
                let place = maker().and_then(|maker| made::place(maker, start));
                if let Some(Address(place)) = place
                    && table.write(*count, start, length, place)
                {
                    self.last = Some((*count, start + length));
                    self.pieces += 1;
                    *count += 1;
                }
            }
            _ => {}
        }
    }
}

fn read() -> bool {
    if is_of_first() && INHERITED.is_empty() {
        return false;
    }
    exclusively(|buffer| {
        let begin = sys::now();
        let in_use = IN_USE.load(Relaxed);
        let next = in_use.wrapping_add(1).max(1);
        let (table, mut count) = (&TABLES[next as usize & 1], 0);
        let (process, of_first) = (sys::getpid(), is_of_first());
        let mut has_others = !of_first;
        let mut made = MadeCode::default();
        let has_read = each_code(buffer, |start, code, name| {
            let stretch = match code {
                Code::Of(stretch) => stretch,
                Code::Made(length) => {
                    // Of the first program, and what it forks, such code is where it is.
                    if !of_first {
                        made.add(table, &mut count, start, length);
                    }
                    return;
                }
            };
            let is_inherited = of_first && INHERITED.has(start, fingerprint(stretch));
            has_others |= !is_inherited;
            let place = if is_inherited {
                Some(Address(start))
            } else {
                shared().files.place(stretch, process, name)
            };
            if let Some(Address(place)) = place {
                count += usize::from(table.write(count, start, stretch.length, place));
            }
        });
        if has_read && (has_others || in_use != 0) {
            table.count.store(count as u32, Relaxed);
            IN_USE.store(next, Release);
        }
        let end = sys::now();
        READ_AT.store(end.0, Relaxed);
        TOOK.store(end.saturating_sub(begin).0, Relaxed);
        has_read
    })
}

/// Calls with the buffer, unless another thread has it, or this one in the code that was interrupted.
fn exclusively(work: impl FnOnce(&mut [u8]) -> bool) -> bool {
    if READING.swap(true, Acquire) {
        return false;
    }
    // SAFETY: `READING` says that nothing else uses it.
    let done = work(unsafe { &mut *BUFFER.0.get() });
    READING.store(false, Release);
    done
}

/// Code that is mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Code {
    /// Of a file, or what the kernel maps into every process.
    Of(Stretch),
    /// Memory of so many bytes that the program may make code in.
    Made(u64),
}

/// Calls with the beginning of all mapped code, what it is, and the name of its file, in the order of its addresses; false if the list cannot be read.
fn each_code(buffer: &mut [u8], call: impl FnMut(u64, Code, &[u8])) -> bool {
    sys::with_file(|| sys::open(c"/proc/self/maps"), |file| each_code_in(file, buffer, call))
}

fn each_code_in(file: i32, buffer: &mut [u8], mut call: impl FnMut(u64, Code, &[u8])) -> bool {
    let (mut filled, mut skips, mut any) = (0, false, false);
    loop {
        let length = sys::read(file, &mut buffer[filled..]);
        if length == 0 {
            break;
        }
        any = true;
        filled += length;
        let mut begin = 0;
        while let Some(end) = buffer[begin..filled].iter().position(|byte| *byte == b'\n') {
            let line = &buffer[begin..begin + end];
            begin += end + 1;
            if !core::mem::take(&mut skips)
                && let Some((start, code, name)) = parse(line)
            {
                call(start, code, name);
            }
        }
        buffer.copy_within(begin..filled, 0);
        filled -= begin;
        if filled == buffer.len() {
            // A line that is longer than any path: what is left of it is no line.
            (filled, skips) = (0, true);
        }
    }
    any
}

/// `start-end perms offset major:minor inode   name` (proc_pid_maps(5)), if it is code.
fn parse(line: &[u8]) -> Option<(u64, Code, &[u8])> {
    let mut rest = line;
    let mut field = |end: u8| {
        let length = rest.iter().position(|byte| *byte == end)?;
        let (field, after) = rest.split_at(length);
        rest = &after[1..];
        Some(field)
    };
    let (start, end) = (number(field(b'-')?, 16)?, number(field(b' ')?, 16)?);
    let permissions = field(b' ')?;
    let offset = number(field(b' ')?, 16)?;
    let (major, minor) = (number(field(b':')?, 16)?, number(field(b' ')?, 16)?);
    let inode = number(field(b' ')?, 10)?;
    let name = rest.trim_ascii_start();
    let is_code = permissions.get(2) == Some(&b'x') && start < end;
    let length = end.wrapping_sub(start);
    let code = if inode != 0 || name == b"[vdso]" {
        Code::Of(Stretch { device: major << 32 | minor, inode, offset, length })
    } else if name.starts_with(b"[v") {
        // What else the kernel maps: `[vsyscall]`.
        return None;
    } else {
        Code::Made(length)
    };
    is_code.then_some((start, code, name))
}

fn number(digits: &[u8], base: u32) -> Option<u64> {
    u64::from_str_radix(core::str::from_utf8(digits).ok()?, base).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_list() {
        let code = b"7f00-8f00 r-xp 00001000 fd:01 1234567    /usr/lib/a b.so";
        let stretch = Stretch { device: 0xfd << 32 | 1, inode: 1_234_567, offset: 0x1000, length: 0x1000 };
        assert_eq!(parse(code), Some((0x7f00, Code::Of(stretch), &b"/usr/lib/a b.so"[..])));
        for made in
            [&b"7f00-8f00 rwxp 00000000 00:00 0 "[..], b"7f00-8f00 r-xp 00000000 00:00 0    [anon:jit]"]
        {
            assert_eq!(parse(made).map(|(start, code, _)| (start, code)), Some((0x7f00, Code::Made(0x1000))));
        }
        for other in [
            &b"7f00-8f00 rw-p 00001000 fd:01 1234567    /usr/lib/a.so"[..],
            b"7f00-8f00 rw-p 00000000 00:00 0 ",
            b"7f00-8f00 --xp 00000000 00:00 0    [vsyscall]",
            b"7f00 r-xp",
            b"",
        ] {
            assert_eq!(parse(other), None, "{other:?}");
        }
        assert!(parse(b"7f00-8f00 r-xp 00000000 00:00 0      [vdso]").is_some());
    }

    #[test]
    fn the_list_of_this_process_has_the_code_that_runs() {
        let mut buffer = [0; 4096];
        let here = lines_of_the_list as *const () as u64;
        let (mut before, mut found) = (0, false);
        assert!(each_code(&mut buffer, |start, code, _| {
            let (Code::Of(Stretch { length, .. }) | Code::Made(length)) = code;
            assert!(start >= before, "in order");
            before = start + length;
            found |= (start..before).contains(&here);
        }));
        assert!(found);
    }

    #[test]
    fn pieces_are_found_by_their_addresses() {
        let table = Table::new();
        for (nth, (start, length, place)) in [(10, 10, 100), (30, 10, 300)].into_iter().enumerate() {
            assert!(table.write(nth, start, length, place));
        }
        assert!(table.is_empty() && !table.write(MOST, 50, 10, 500));
        table.count.store(2, Relaxed);
        assert!(table.has(10, 100) && table.has(30, 300));
        assert!(!table.has(10, 300) && !table.has(11, 100) && !table.has(50, 0));
        for (address, place) in
            [(9, None), (10, Some(100)), (19, Some(109)), (20, None), (39, Some(309)), (40, None)]
        {
            assert_eq!(table.find(address), place.map(Address), "{address}");
        }
    }

    #[test]
    fn too_many_pieces_of_made_code_become_one() {
        let (table, mut count, mut made) = (Table::new(), 1, MadeCode { pieces: MOST_MADE - 1, last: None });
        assert!(table.write(0, 0, 10, 0));
        // As if the last one that may be told apart had been added.
        assert!(table.write(1, 20, 10, 120));
        (made.pieces, made.last, count) = (MOST_MADE, Some((1, 30)), count + 1);
        made.add(&table, &mut count, 40, 10);
        table.count.store(count as u32, Relaxed);
        assert_eq!((count, table.find(45)), (2, Some(Address(145))));
        assert!(table.write(2, 60, 10, 600));
        count += 1;
        made.add(&table, &mut count, 80, 10);
        table.count.store(count as u32, Relaxed);
        assert_eq!(
            (count, table.find(65), table.find(85)),
            (3, Some(Address(605)), None),
            "a file is between"
        );
    }
}

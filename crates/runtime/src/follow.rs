//! Follow: before a program executes another one it asks the controller ([`wire::follow`]) what becomes of that, and gives it what it has to know in its environment.
//!
//! One that only leads to the program that is meant (`taskset`, `env`, a shell with its script) is not profiled: nothing is mapped in
//! it, no thread has a slot, so every function does what the original does. From the one that is meant on all are profiled, and a new one begins with the account
//! of the thread that has executed it (rule 10).
//!
//! It asks in whatever has called: also in a `vfork`ed child, which has its parent's memory. The new environment lies in memory that the thread keeps
//! for the next time, or on the stack in a child of what is only followed, so nothing more is left behind each time. A controller that is gone refuses at once; one that is stopped is waited for, but not for ever.

use crate::memory::{attached, shared};
use crate::real;
use crate::sys;
use crate::tls;
use core::ffi::{CStr, c_char, c_void};
use core::sync::atomic::{AtomicU8, AtomicU32, AtomicUsize, Ordering::Relaxed};
use wire::follow::{
    ACCOUNT, FAILED, LONGEST_ANSWER, LONGEST_PART, LONGEST_VARIABLE, Request, TOKEN, Verdict,
    WORKING_DIRECTORY, Way,
};
use wire::slot::Slot;
use wire::{Nanos, SharedMemory};

type Ptr = *mut c_void;

/// How long the controller may take to say whether a program is the one: it looks for the progress points in it.
const PATIENCE: Nanos = Nanos(10_000_000_000);
const RLIMIT_AS: i64 = 9;
/// With less the library that is preloaded may find no room.
const LEAST_MEMORY: u64 = 64 << 20;
const PRELOAD: &[u8] = b"LD_PRELOAD";
const REGION: &[u8] = wire::REGION_VARIABLE.as_bytes();

/// The value of our variable, `@NAME:TOKEN`, and its length: zero if it does not ask.
static VARIABLE: [AtomicU8; LONGEST_VARIABLE] = [const { AtomicU8::new(0) }; LONGEST_VARIABLE];
static LENGTH: AtomicUsize = AtomicUsize::new(0);
/// The process that has begun to ask; its children have copies of this, or the same memory.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// From now on it is asked where this says: `@NAME:TOKEN`.
pub fn begin(value: &[u8]) {
    PROCESS.store(sys::getpid(), Relaxed);
    if value.len() <= LONGEST_VARIABLE {
        for (place, byte) in VARIABLE.iter().zip(value) {
            place.store(*byte, Relaxed);
        }
        LENGTH.store(value.len(), Relaxed);
    }
}

/// Ends it, because a filter of system calls might kill the program for asking.
pub fn end() {
    LENGTH.store(0, Relaxed);
}

#[inline]
fn is_on() -> bool {
    LENGTH.load(Relaxed) != 0
}

/// What is about to be executed.
#[derive(Clone, Copy)]
pub struct Program {
    pub way: Way,
    /// See [`Request::folder`].
    pub folder: i32,
    /// A C string, or null.
    pub path: Ptr,
}

impl Program {
    pub fn at(path: Ptr) -> Self {
        Self { way: Way::Executes, folder: WORKING_DIRECTORY, path }
    }

    pub fn named(file: Ptr) -> Self {
        Self { way: Way::Searches, ..Self::at(file) }
    }

    pub fn in_folder(folder: i32, path: Ptr) -> Self {
        Self { folder, ..Self::at(path) }
    }

    pub fn spawned(self) -> Self {
        let way = if self.way.searches() { Way::SpawnsFound } else { Way::Spawns };
        Self { way, ..self }
    }
}

/// The environment of this process, as the C library has it.
pub fn own_environment() -> Ptr {
    match real::first(c"__environ") {
        // SAFETY: libc's `environ` is a pointer to the environment.
        Some(variable) => unsafe { *core::ptr::with_exposed_provenance::<Ptr>(variable) },
        None => core::ptr::null_mut(),
    }
}

/// The environment of this process is another one from now on; returns what it was.
///
/// # Safety
/// No other thread may use it, and the new one must be an environment.
pub unsafe fn set_environment(environment: Ptr) -> Ptr {
    match real::first(c"__environ") {
        // SAFETY: libc's `environ` is a pointer to the environment; the caller vouches for the rest.
        Some(variable) => unsafe {
            core::ptr::with_exposed_provenance_mut::<Ptr>(variable).replace(environment)
        },
        None => environment,
    }
}

/// Counts the CPU time that the calling thread has used since `begin` for nothing but being profiled.
pub fn took(memory: &SharedMemory, begin: Nanos) {
    memory.header.joining.fetch_add(sys::cpu_time().saturating_sub(begin).0, Relaxed);
}

/// Around a call that executes a program with `environment`: it gets that one, or another. `failed` says of its result that it has not.
///
/// # Safety
/// `environment` must be null or a NULL-terminated array of C strings, the path null or a C string; as the program has passed them.
#[inline]
pub unsafe fn executing<T>(
    program: Program,
    environment: Ptr,
    failed: impl FnOnce(&T) -> bool,
    call: impl FnOnce(Ptr) -> T,
) -> T {
    if !is_on() || program.path.is_null() {
        return call(environment);
    }
    // SAFETY: handed on.
    unsafe { asking(program, environment, failed, call) }
}

/// What is put together for a question: on the stack of a thread that may have a small one there is no room for it.
struct Scratch {
    answer: [u8; LONGEST_ANSWER],
    preload: Text<{ LONGEST_ANSWER + LONGEST_PART + 16 }>,
    region: Text<{ LONGEST_VARIABLE + 64 }>,
    environment: [*const u8; Entries::MOST + 3],
}

impl Scratch {
    /// Bytes of memory that are mapped for one.
    const SIZE: usize = size_of::<Self>().next_multiple_of(4096);

    const fn new() -> Self {
        Self {
            answer: [0; LONGEST_ANSWER],
            preload: Text { bytes: [0; _], length: 0 },
            region: Text { bytes: [0; _], length: 0 },
            environment: [core::ptr::null(); Entries::MOST + 3],
        }
    }
}

/// Calls with a scratch: that of the thread, which keeps it for the next time; none if there is no memory.
fn with_scratch<T>(call: impl FnOnce(Option<&mut Scratch>) -> T) -> T {
    let slot = tls::slot();
    if slot.is_none() && sys::getpid() != PROCESS.load(Relaxed) {
        return on_stack(call);
    }
    let kept = slot.map_or(0, |slot| slot.scratch.swap(0, Relaxed));
    let start = if kept == 0 { sys::map_memory(Scratch::SIZE) } else { Some(kept) };
    let Some(start) = start else { return call(None) };
    let is_child = !sys::is_own();
    if is_child && let Some(slot) = slot {
        // A `vfork`ed child never comes back to say that it is free, and its parent waits until then.
        slot.scratch.store(start, Relaxed);
    }
    // SAFETY: fresh zeros, or what this thread has used before; a scratch may have any bytes. No other thread has it.
    let result = call(Some(unsafe { &mut *core::ptr::with_exposed_provenance_mut::<Scratch>(start) }));
    match slot {
        Some(slot) => slot.scratch.store(start, Relaxed),
        None => sys::unmap(start, Scratch::SIZE),
    }
    result
}

/// In a child of what is only followed, which is a shell as a rule. If it was made by `vfork`, what it maps stays in its parent.
#[inline(never)]
fn on_stack<T>(call: impl FnOnce(Option<&mut Scratch>) -> T) -> T {
    call(Some(&mut Scratch::new()))
}

/// The thread is over.
pub fn forget_scratch(slot: &Slot) {
    let start = slot.scratch.swap(0, Relaxed);
    if start != 0 {
        sys::unmap(start, Scratch::SIZE);
    }
}

/// # Safety
/// As for [`executing`], and the path is not null.
#[cold]
#[inline(never)]
unsafe fn asking<T>(
    program: Program,
    environment: Ptr,
    failed: impl FnOnce(&T) -> bool,
    call: impl FnOnce(Ptr) -> T,
) -> T {
    // Of what cannot be read the kernel knows what to say.
    let is_readable =
        sys::is_readable(program.path.addr(), 1) != Ok(false) && Entries::are_readable(environment);
    if !is_readable || sys::soft_limit(RLIMIT_AS) < LEAST_MEMORY {
        return call(environment);
    }
    // SAFETY: the caller vouches for it.
    let Some(entries) = (unsafe { Entries::of(environment) }) else { return call(environment) };
    with_scratch(|scratch| match scratch {
        // SAFETY: the caller vouches for it.
        Some(scratch) => unsafe { asking_with(program, &entries, scratch, failed, call) },
        None => call(environment),
    })
}

/// # Safety
/// As for [`asking`].
unsafe fn asking_with<T>(
    program: Program,
    entries: &Entries,
    scratch: &mut Scratch,
    failed: impl FnOnce(&T) -> bool,
    call: impl FnOnce(Ptr) -> T,
) -> T {
    let environment = entries.start.cast_mut().cast();
    let begin = sys::cpu_time();
    let Some(connection) = Connection::open() else { return call(environment) };
    // SAFETY: a C string, says the caller.
    let path = unsafe { CStr::from_ptr(program.path.cast()) }.to_bytes();
    let parts = [path, entries.preload, entries.search(program.way)];
    let Some((verdict, first, descriptor)) = connection.ask(program, parts, &mut scratch.answer) else {
        connection.close();
        return call(environment);
    };
    let descriptor = descriptor.map(sys::out_of_the_way);
    let (preload, region) = (&mut scratch.preload, &mut scratch.region);
    region.begin(REGION);
    match (verdict, descriptor) {
        (Verdict::Followed, _) => {}
        (Verdict::Joins, Some(descriptor)) => region.push_number(u64::from(descriptor.cast_unsigned())),
        (Verdict::JoinsToo, Some(descriptor)) => {
            region.push_number(u64::from(descriptor.cast_unsigned()));
            region.push(&[ACCOUNT]);
            // What the world starts has had none of the delay.
            region.push_number(tls::slot().map_or(0, |slot| slot.local.load().to_bits()));
            if let Some(slot) = tls::slot() {
                region.push(&[ACCOUNT]);
                region.push_number(u64::from(slot.number(&shared().slots)));
            }
        }
        _ => {
            descriptor.into_iter().for_each(sys::close);
            connection.close();
            return call(environment);
        }
    }
    region.push_own();
    preload.begin(PRELOAD);
    preload.push(first);
    // Also an empty one is there again when ours is taken out.
    if entries.preload_at.is_some() {
        preload.push(b":");
        preload.push(entries.preload);
    }
    if let Some(memory) = attached() {
        took(memory, begin);
    }
    let environment = entries.with([&preload.bytes, &region.bytes], &mut scratch.environment);
    // As late as that: other threads may execute programs, too.
    descriptor.into_iter().for_each(sys::keep_when_executing);
    let result = call(environment);
    if failed(&result) {
        connection.say_failed();
    }
    descriptor.into_iter().for_each(sys::close);
    connection.close();
    result
}

/// An environment.
struct Entries {
    start: *const *const c_char,
    count: usize,
    /// Which entry is that of `LD_PRELOAD`. Of several the loader takes the last.
    preload_at: Option<usize>,
    preload: &'static [u8],
}

impl Entries {
    /// More are not followed: they would need too much stack.
    const MOST: usize = 4000;

    /// # Safety
    /// `environment` must be null or a NULL-terminated array of C strings, which live as long as this.
    unsafe fn of(environment: Ptr) -> Option<Self> {
        let start: *const *const c_char = environment.cast_const().cast();
        let mut entries = Self { start, count: 0, preload_at: None, preload: &[] };
        if start.is_null() {
            return Some(entries);
        }
        // SAFETY: the array ends with a null pointer, and each entry with a NUL.
        unsafe {
            loop {
                let entry = *start.add(entries.count);
                if entry.is_null() {
                    break;
                }
                if let Some(value) = CStr::from_ptr(entry).to_bytes().strip_prefix(PRELOAD)
                    && let Some(value) = value.strip_prefix(b"=")
                {
                    entries.preload_at = Some(entries.count);
                    entries.preload = value;
                }
                entries.count += 1;
            }
        }
        (entries.count <= Self::MOST && entries.preload.len() <= LONGEST_PART).then_some(entries)
    }

    /// Whether all that is read of an environment can be, as far as that is known: the beginnings of its entries, and their array.
    fn are_readable(environment: Ptr) -> bool {
        const WORD: usize = size_of::<usize>();
        const WORDS: usize = 64;
        let mut at = environment.addr();
        loop {
            let mut words = [0_usize; WORDS];
            // The array may end close to the end of its memory.
            let Some(read) = sys::read_own(at, &mut words) else { return true };
            let read = &words[..read / WORD];
            let end = read.iter().position(|entry| *entry == 0);
            let entries = &read[..end.unwrap_or(read.len())];
            if read.is_empty() || !sys::begin_readably(entries) {
                return at == 0;
            }
            if end.is_some() {
                return true;
            }
            at += read.len() * WORD;
        }
    }

    /// `PATH` of this process, which is where the C library looks, if it does.
    fn search(&self, way: Way) -> &'static [u8] {
        let environment: *const *const c_char = own_environment().cast_const().cast();
        if !way.searches() || environment.is_null() {
            return &[];
        }
        let mut at = environment;
        // SAFETY: the process's own environment, a NULL-terminated array of C strings.
        unsafe {
            while !(*at).is_null() {
                if let Some(value) = CStr::from_ptr(*at).to_bytes().strip_prefix(b"PATH=") {
                    return value;
                }
                at = at.add(1);
            }
        }
        &[]
    }

    /// These entries and our two, which end with a NUL each.
    fn with(&self, [preload, region]: [&[u8]; 2], array: &mut [*const u8; Self::MOST + 3]) -> Ptr {
        let mut length = 0;
        let mut put = |entry: *const u8| {
            array[length] = entry;
            length += 1;
        };
        for index in 0..self.count {
            if Some(index) == self.preload_at {
                put(preload.as_ptr());
            } else {
                // SAFETY: one of the entries that were counted.
                put(unsafe { *self.start.add(index) }.cast());
            }
        }
        if self.preload_at.is_none() {
            put(preload.as_ptr());
        }
        put(region.as_ptr());
        put(core::ptr::null());
        array.as_mut_ptr().cast()
    }
}

/// A text that is put together; what does not fit is cut, and its last byte is always a NUL.
struct Text<const N: usize> {
    bytes: [u8; N],
    length: usize,
}

impl<const N: usize> Text<N> {
    /// `NAME=`.
    fn begin(&mut self, name: &[u8]) {
        (self.bytes, self.length) = ([0; N], 0);
        self.push(name);
        self.push(b"=");
    }

    fn push(&mut self, more: &[u8]) {
        for byte in more {
            if self.length + 1 < N {
                self.bytes[self.length] = *byte;
                self.length += 1;
            }
        }
    }

    /// The value of our variable.
    fn push_own(&mut self) {
        let (own, length) = own();
        self.push(own.get(..length).unwrap_or(&[]));
    }

    fn push_number(&mut self, number: u64) {
        if number >= 10 {
            self.push_number(number / 10);
        }
        self.push(&[b'0' + (number % 10) as u8]);
    }
}

/// The value of our variable, and its length.
fn own() -> ([u8; LONGEST_VARIABLE], usize) {
    let mut copy = [0; LONGEST_VARIABLE];
    for (place, byte) in copy.iter_mut().zip(&VARIABLE) {
        *place = byte.load(Relaxed);
    }
    (copy, LENGTH.load(Relaxed).min(LONGEST_VARIABLE))
}

/// A connection with the controller, which closes when a program is executed.
#[derive(Clone, Copy)]
struct Connection(i32);

impl Connection {
    fn open() -> Option<Self> {
        let (own, length) = own();
        let value = own.get(1..length)?;
        let name = value.get(..value.iter().position(|byte| *byte == b':')?)?;
        sys::connect_to(name, PATIENCE).map(Self)
    }

    /// The verdict, how `LD_PRELOAD` is to begin, and the descriptor that came with it.
    fn ask<'a>(
        self,
        program: Program,
        [path, preload, search]: [&[u8]; 3],
        buffer: &'a mut [u8; LONGEST_ANSWER],
    ) -> Option<(Verdict, &'a [u8], Option<i32>)> {
        let (own, length) = own();
        let token = own.get(..length)?.last_chunk::<TOKEN>()?;
        if path.len().max(search.len()) > LONGEST_PART {
            return None;
        }
        let request = Request {
            token: *token,
            way: program.way,
            folder: program.folder,
            path: path.len() as u32,
            preload: preload.len() as u32,
            search: search.len() as u32,
        };
        if !sys::send_all(self.0, [&request.bytes(), path, preload, search]) {
            return None;
        }
        let (length, descriptor) = sys::receive(self.0, buffer, sys::now() + PATIENCE)?;
        let parsed = Verdict::parse(buffer.get(..length)?);
        match parsed {
            Some((verdict, first)) => Some((verdict, first, descriptor)),
            None => {
                descriptor.into_iter().for_each(sys::close);
                None
            }
        }
    }

    fn say_failed(self) {
        sys::send_all(self.0, [&[FAILED], &[], &[], &[]]);
    }

    fn close(self) {
        sys::close(self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{ffi::CString, string::String, vec, vec::Vec};

    fn environment(entries: &[&str]) -> (Vec<CString>, Vec<*const c_char>) {
        let strings: Vec<_> = entries.iter().map(|entry| CString::new(*entry).unwrap()).collect();
        let pointers = strings.iter().map(|entry| entry.as_ptr()).chain([core::ptr::null()]).collect();
        (strings, pointers)
    }

    /// What a call would get.
    fn given(entries: &[&str]) -> Vec<String> {
        let (_strings, mut pointers) = environment(entries);
        // SAFETY: a NULL-terminated array of C strings.
        let entries = unsafe { Entries::of(pointers.as_mut_ptr().cast()) }.unwrap();
        let mut room = [core::ptr::null(); Entries::MOST + 3];
        let array = entries.with([b"LD_PRELOAD=rt\0", b"WHATIF_REGION=7\0"], &mut room);
        let (mut at, mut all) = (array.cast::<*const c_char>(), vec![]);
        // SAFETY: such an array again.
        unsafe {
            while !(*at).is_null() {
                all.push(CStr::from_ptr(*at).to_str().unwrap().into());
                at = at.add(1);
            }
        }
        all
    }

    #[test]
    fn the_environment_gets_our_two_entries_and_keeps_its_order() {
        assert_eq!(given(&["A=1", "B=2"]), ["A=1", "B=2", "LD_PRELOAD=rt", "WHATIF_REGION=7"]);
        assert_eq!(given(&["LD_PRELOAD=x", "B=2"]), ["LD_PRELOAD=rt", "B=2", "WHATIF_REGION=7"]);
        assert_eq!(given(&[]), ["LD_PRELOAD=rt", "WHATIF_REGION=7"]);
        for count in [60, 61, 250, 251, 1000, 1001, 4000] {
            let entries = vec!["LD_PRELOADED=no"; count];
            let got = given(&entries);
            assert_eq!((got.len(), got[count].as_str()), (count + 2, "LD_PRELOAD=rt"), "{count}");
        }
    }

    #[test]
    fn too_many_entries_are_not_followed_and_none_are() {
        let (_strings, mut pointers) = environment(&vec!["A=1"; Entries::MOST + 1]);
        // SAFETY: a NULL-terminated array of C strings.
        assert!(unsafe { Entries::of(pointers.as_mut_ptr().cast()) }.is_none());
        // SAFETY: null is allowed.
        assert_eq!(unsafe { Entries::of(core::ptr::null_mut()) }.unwrap().count, 0);
    }

    #[test]
    fn a_text_is_cut_and_always_ends() {
        let mut text = Text::<6> { bytes: [b'x'; 6], length: 6 };
        text.begin(b"n");
        text.push_number(1234);
        assert_eq!(&text.bytes, b"n=123\0");
        text.begin(b"n");
        text.push_number(0);
        assert_eq!(&text.bytes[..4], b"n=0\0");
    }
}

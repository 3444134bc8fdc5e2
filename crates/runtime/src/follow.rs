//! Follow: a program that only leads to the one that is meant (`taskset`, `env`, a shell with its script) is not profiled. Nothing is mapped in
//! it, no thread has a slot, so every function does what the original does; but before it executes a program it asks the controller
//! ([`wire::follow`]) whether that is followed as well, or is the one, and gives it what it has to know in its environment.
//!
//! It asks in whatever has called: also in a `vfork`ed child, which has its parent's memory, and so leaves nothing behind in it. The new
//! environment lies on the stack. A controller that is gone refuses at once; one that is stopped is waited for, but not for ever.

use crate::real;
use crate::sys;
use core::ffi::{CStr, c_char, c_void};
use core::sync::atomic::{AtomicU8, AtomicUsize, Ordering::Relaxed};
use wire::Nanos;
use wire::follow::{
    FAILED, LONGEST_ANSWER, LONGEST_PART, LONGEST_VARIABLE, MARK, Request, TOKEN, Verdict, WORKING_DIRECTORY,
    Way,
};

type Ptr = *mut c_void;

/// How long the controller may take to say whether a program is the one: it looks for the progress points in it.
const PATIENCE: Nanos = Nanos(10_000_000_000);
const PRELOAD: &[u8] = b"LD_PRELOAD";
const REGION: &[u8] = wire::REGION_VARIABLE.as_bytes();

/// The value of our variable, `@NAME:TOKEN`, and its length: zero if the program is not followed.
static VARIABLE: [AtomicU8; LONGEST_VARIABLE] = [const { AtomicU8::new(0) }; LONGEST_VARIABLE];
static LENGTH: AtomicUsize = AtomicUsize::new(0);

/// Begins to follow if the value of our variable says so; whether it does.
pub fn begin(value: &[u8]) -> bool {
    if value.first() != Some(&MARK) {
        return false;
    }
    if value.len() <= LONGEST_VARIABLE {
        for (place, byte) in VARIABLE.iter().zip(value) {
            place.store(*byte, Relaxed);
        }
        LENGTH.store(value.len(), Relaxed);
    }
    true
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
    // SAFETY: the caller vouches for it.
    let Some(entries) = (unsafe { Entries::of(environment) }) else { return call(environment) };
    let Some(connection) = Connection::open() else { return call(environment) };
    let mut buffer = [0_u8; LONGEST_ANSWER];
    // SAFETY: a C string, says the caller.
    let path = unsafe { CStr::from_ptr(program.path.cast()) }.to_bytes();
    let answer = connection.ask(program, [path, entries.preload, entries.search(program.way)], &mut buffer);
    let Some((verdict, first, descriptor)) = answer else {
        connection.close();
        return call(environment);
    };
    let mut region = Text::<{ LONGEST_VARIABLE + 16 }>::new();
    region.push(REGION);
    region.push(b"=");
    match (verdict, descriptor) {
        (Verdict::Followed, _) => region.push_own(),
        (Verdict::Joins, Some(descriptor)) => region.push_number(descriptor.cast_unsigned()),
        _ => {
            connection.close();
            return call(environment);
        }
    }
    let mut preload = Text::<{ LONGEST_ANSWER + LONGEST_PART + 16 }>::new();
    preload.push(PRELOAD);
    preload.push(b"=");
    preload.push(first);
    // Also an empty one is there again when ours is taken out.
    if entries.preload_at.is_some() {
        preload.push(b":");
        preload.push(entries.preload);
    }
    let result = entries.with([&preload.bytes, &region.bytes], call);
    if failed(&result) {
        connection.say_failed();
    }
    if let Some(descriptor) = descriptor {
        sys::close(descriptor);
    }
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

    /// Calls with these entries and our two, which end with a NUL each.
    fn with<T>(&self, ours: [&[u8]; 2], call: impl FnOnce(Ptr) -> T) -> T {
        match self.count {
            0..=60 => self.with_room::<64, T>(ours, call),
            61..=250 => self.with_room::<256, T>(ours, call),
            251..=1000 => self.with_room::<1024, T>(ours, call),
            _ => self.with_room::<4096, T>(ours, call),
        }
    }

    #[inline(never)]
    fn with_room<const N: usize, T>(&self, [preload, region]: [&[u8]; 2], call: impl FnOnce(Ptr) -> T) -> T {
        let mut array: [*const u8; N] = [core::ptr::null(); N];
        let mut length = 0;
        let mut put = |entry: *const u8| {
            // The last one stays null.
            if length + 1 < N {
                array[length] = entry;
                length += 1;
            }
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
        call(array.as_mut_ptr().cast())
    }
}

/// A text that is put together; what does not fit is cut, and its last byte is always a NUL.
struct Text<const N: usize> {
    bytes: [u8; N],
    length: usize,
}

impl<const N: usize> Text<N> {
    const fn new() -> Self {
        Self { bytes: [0; N], length: 0 }
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

    fn push_number(&mut self, number: u32) {
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
        entries.with([b"LD_PRELOAD=rt\0", b"WHATIF_REGION=7\0"], |array| {
            let (mut at, mut all) = (array.cast::<*const c_char>(), vec![]);
            // SAFETY: such an array again.
            unsafe {
                while !(*at).is_null() {
                    all.push(CStr::from_ptr(*at).to_str().unwrap().into());
                    at = at.add(1);
                }
            }
            all
        })
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
        let mut text = Text::<6>::new();
        text.push(b"n=");
        text.push_number(1234);
        assert_eq!(&text.bytes, b"n=123\0");
        let mut number = Text::<6>::new();
        number.push_number(0);
        assert_eq!(&number.bytes[..2], b"0\0");
    }
}

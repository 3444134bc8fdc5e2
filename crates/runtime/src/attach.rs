//! Finding the shared memory, and leaving no trace of ourselves for the program's children.
//!
//! The controller starts the program with this library in `LD_PRELOAD`, before the user's own and behind nothing but sanitizers, and with the number of an
//! open descriptor in [`wire::REGION_VARIABLE`], or with what [`follow`] needs, or with both; so does a program that is followed or profiled and executes
//! another one. Both variables are taken out of the environment here, in place, so that the program finds what it would have.

use crate::{beliefs, cpus, follow, fork, maps, memory, real, sampling, signals, sys, thread, ticks, tls};
use core::ffi::{CStr, c_char};
use core::sync::atomic::{AtomicU32, Ordering};
use wire::follow::{ACCOUNT, MARK};
use wire::layout::Hold;
use wire::{Account, Nanos, SharedMemory};

/// Ours; what the controller offers must be the same.
pub const BUILD_ID: u64 = wire::build_id(option_env!("WHATIF_BUILD_ID"));

/// glibc calls the entries of `.init_array` with the arguments of `main`.
#[cfg(whatif_cdylib)]
#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn(i32, *const *const c_char, *mut *mut c_char) = constructor;

#[cfg(whatif_cdylib)]
extern "C" fn constructor(_: i32, _: *const *const c_char, environment: *mut *mut c_char) {
    // SAFETY: the environment that the loader passes on.
    unsafe { attach(environment) };
}

/// Attaches from the constructor of another library that creates a thread before ours has run.
pub fn attach_early() {
    if ATTEMPTED.load(Ordering::Relaxed) != 0 {
        return;
    }
    if let Some(variable) = real::first(c"__environ") {
        // SAFETY: libc's `environ` is a pointer to the environment, set before any constructor runs.
        unsafe {
            let environment = *(variable as *const *mut *mut c_char);
            attach(environment);
        }
    }
}

/// Whether attaching was tried; it is tried once.
static ATTEMPTED: AtomicU32 = AtomicU32::new(0);

/// It is not tried any more: the program has run before we came.
pub fn is_late() {
    ATTEMPTED.store(1, Ordering::Release);
}

/// # Safety
/// `environment` must be null or the process's NULL-terminated environment, which nothing else changes now.
unsafe fn attach(environment: *mut *mut c_char) {
    if ATTEMPTED.swap(1, Ordering::AcqRel) != 0 {
        return;
    }
    if environment.is_null() {
        return real::find_all();
    }
    // SAFETY: the caller vouches for the environment, whose strings nothing else changes now.
    let value = unsafe { take_variable(environment) };
    let Some(told) = value.and_then(Told::parse) else { return real::find_all() };
    told.asks.into_iter().for_each(follow::begin);
    // What is only followed calls few of the functions, and finds those when it does.
    let Some(fd) = told.descriptor else { return };
    let begin = sys::cpu_time();
    real::find_all();
    // A program that is spawned may have got another descriptor of that number.
    if sys::file_size(fd) != SharedMemory::SIZE as i64 {
        return;
    }
    let mapped = sys::map_shared(fd, SharedMemory::SIZE);
    sys::close(fd);
    let Some(start) = mapped else { return };
    // SAFETY: a fresh mapping of the right size that is never undone.
    let shared = unsafe { SharedMemory::at(start) };
    let generation = match told.executed {
        None => shared.header.accept(sys::getpid(), BUILD_ID).then_some(0),
        Some(_) => shared.header.accept_executed(BUILD_ID),
    };
    let Some(generation) = generation else { return };
    memory::set(shared);
    if let Some(word) = sys::wiped_on_fork() {
        tls::keep_in(word);
    }
    sys::prepare_clock();
    ticks::begin();
    match told.executed {
        None => {
            cpus::prepare();
            maps::tell();
        }
        Some((_, slot)) => {
            slot.into_iter().for_each(thread::take_over);
            maps::begin(generation);
        }
    }
    thread::prepare();
    fork::prepare();
    let masked = signals::install(sampling::handler as *const () as usize, sampling::keeps);
    // The environment lies above everything that the main thread will ever push.
    let account = told.executed.map_or_else(Account::default, |(account, _)| account);
    thread::register_main(environment as usize, masked, account);
    if told.executed.is_some() {
        follow::took(shared, begin);
        shared.header.begun.fetch_add(1, Ordering::Relaxed);
        return wait_for_points(shared);
    }
    shared.header.traps.store(u32::from(beliefs::may_trap()), Ordering::Relaxed);
    shared.header.attached();
    wait_for_controller(shared);
}

/// Waits as long as the controller asks for, before the program's first instruction; not forever, because it may be
/// gone.
fn wait_for_controller(memory: &SharedMemory) {
    const PATIENCE: Nanos = Nanos(10_000_000_000);
    const MOMENT: Nanos = Nanos(50_000_000);
    const FREE: u32 = Hold::Free as u32;
    const WAITS: u32 = Hold::Waits as u32;
    let hold = &memory.header.hold;
    let controller = memory.header.controller.load(Ordering::Relaxed);
    let until = sys::now() + PATIENCE;
    loop {
        let (is, now) = (hold.load(Ordering::Acquire), sys::now());
        match is {
            FREE => return,
            WAITS if now < until && sys::exists(controller) => {
                sys::futex_wait_until(hold, WAITS, until.min(now + MOMENT));
            }
            WAITS => {
                let gone =
                    hold.compare_exchange(WAITS, Hold::Gone as u32, Ordering::AcqRel, Ordering::Acquire);
                if gone.is_ok() {
                    return;
                }
            }
            // Our code changes; not for ever, because the controller may be gone.
            _ if sys::exists(controller) => sys::futex_wait_until(hold, is, now + MOMENT),
            _ => return,
        }
    }
}

/// Waits until the controller has placed its points in this program, if there are any; not for long, and not if it is gone.
fn wait_for_points(memory: &SharedMemory) {
    const PATIENCE: Nanos = Nanos(1_000_000_000);
    const MOMENT: Nanos = Nanos(50_000_000);
    let header = &memory.header;
    let Some(slot) = tls::slot().filter(|_| header.placing.load(Ordering::Relaxed) != 0) else { return };
    let controller = header.controller.load(Ordering::Relaxed);
    let (mut now, until) = (sys::now(), sys::now() + PATIENCE);
    let is_waited_for =
        || slot.placed.load(Ordering::Acquire) == 0 && header.placing.load(Ordering::Relaxed) != 0;
    while is_waited_for() && now < until && sys::exists(controller) {
        sys::futex_wait_until(&slot.placed, 0, until.min(now + MOMENT));
        now = sys::now();
    }
}

/// Takes our two traces out of the environment and returns the value of our variable, which is a string that the process has been given.
///
/// # Safety
/// As for [`attach`].
unsafe fn take_variable<'a>(environment: *mut *mut c_char) -> Option<&'a [u8]> {
    let mut found = None;
    let (mut from, mut to) = (environment, environment);
    // SAFETY: a NULL-terminated array of NUL-terminated, writable strings (the process's own stack).
    unsafe {
        // Without our variable this is not a program that the controller started: leave it alone.
        let mut probe = environment;
        while !(*probe).is_null() && value_of(*probe, wire::REGION_VARIABLE.as_bytes()).is_none() {
            probe = probe.add(1);
        }
        if (*probe).is_null() {
            return None;
        }
        while !(*from).is_null() {
            let entry = *from;
            from = from.add(1);
            if let Some(value) = value_of(entry, wire::REGION_VARIABLE.as_bytes()) {
                found = Some(CStr::from_ptr(value).to_bytes());
                continue;
            }
            if let Some(value) = value_of(entry, b"LD_PRELOAD")
                && !drop_ours(value)
            {
                continue;
            }
            *to = entry;
            to = to.add(1);
        }
        *to = core::ptr::null_mut();
    }
    found
}

/// The part after `name=`, if the entry is of that name.
///
/// # Safety
/// `entry` must be a NUL-terminated string.
unsafe fn value_of(entry: *mut c_char, name: &[u8]) -> Option<*mut c_char> {
    // SAFETY: the comparison stops at the NUL, which no name contains.
    unsafe {
        for (i, byte) in name.iter().enumerate() {
            if *entry.add(i) as u8 != *byte {
                return None;
            }
        }
        (*entry.add(name.len()) as u8 == b'=').then(|| entry.add(name.len() + 1))
    }
}

/// Removes what the controller has put into a colon-separated list: all up to this library. False if nothing was there besides.
///
/// # Safety
/// `list` must be a NUL-terminated, writable string.
unsafe fn drop_ours(list: *mut c_char) -> bool {
    const OURS: &[u8] = b"libwhatif_rt";
    // SAFETY: all indices stay at or below that of the NUL.
    unsafe {
        let at = |index: usize| *list.add(index) as u8;
        let mut from = 0;
        loop {
            let (mut end, mut name) = (from, from);
            while !matches!(at(end), 0 | b':' | b' ') {
                if at(end) == b'/' {
                    name = end + 1;
                }
                end += 1;
            }
            let ours = end - name >= OURS.len() && (0..OURS.len()).all(|i| at(name + i) == OURS[i]);
            if at(end) == 0 {
                // Ours is the last, or not there at all.
                return !ours;
            }
            from = end + 1;
            if ours {
                break;
            }
        }
        let mut to = 0;
        loop {
            let byte = *list.add(from + to);
            *list.add(to) = byte;
            if byte == 0 {
                return true;
            }
            to += 1;
        }
    }
}

/// What our variable says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Told<'a> {
    /// The descriptor of the shared memory, if the program is profiled.
    descriptor: Option<i32>,
    /// The account that it begins with, and the slot of the thread that has executed it, if it is not the first.
    executed: Option<(Account, Option<u32>)>,
    /// What [`follow::begin`] takes.
    asks: Option<&'a [u8]>,
}

impl<'a> Told<'a> {
    fn parse(value: &'a [u8]) -> Option<Self> {
        let mark = value.iter().position(|byte| *byte == MARK);
        let (numbers, asks) = value.split_at(mark.unwrap_or(value.len()));
        let mut numbers = numbers.split(|byte| *byte == ACCOUNT);
        let descriptor = match numbers.next()? {
            [] => None,
            descriptor => Some(number(descriptor)?.try_into().ok()?),
        };
        let executed = match (numbers.next(), numbers.next()) {
            (None, _) => None,
            (Some(account), None) => Some((Account::from_bits(number(account)?), None)),
            (Some(account), Some(slot)) => {
                Some((Account::from_bits(number(account)?), Some(number(slot)?.try_into().ok()?)))
            }
        };
        let told = Self { descriptor, executed, asks: (!asks.is_empty()).then_some(asks) };
        (told.descriptor.is_some() || told.asks.is_some() && executed.is_none()).then_some(told)
    }
}

fn number(digits: &[u8]) -> Option<u64> {
    core::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{ffi::CString, string::String, vec::Vec};

    #[test]
    fn what_the_variable_says() {
        let account = |bits, slot| Some((Account::from_bits(bits), slot));
        for (value, told) in [
            (&b"7"[..], Some((Some(7), None, None))),
            (b"@name:token", Some((None, None, Some(&b"@name:token"[..])))),
            (b"7@name:token", Some((Some(7), None, Some(b"@name:token")))),
            (b"7,18446744073709551615@n", Some((Some(7), account(u64::MAX, None), Some(b"@n")))),
            (b"7,0,12", Some((Some(7), account(0, Some(12)), None))),
            (b"", None),
            (b"x", None),
            (b"7,", None),
            (b",7@n", None),
            (b"-1", None),
            (b"4294967296", None),
        ] {
            let told = told.map(|(descriptor, executed, asks)| Told { descriptor, executed, asks });
            assert_eq!(Told::parse(value), told, "{}", String::from_utf8_lossy(value));
        }
    }

    fn clean(entries: &[&str]) -> (Option<i32>, Vec<String>) {
        let strings: Vec<*mut c_char> =
            entries.iter().map(|entry| CString::new(*entry).unwrap().into_raw()).collect();
        let mut array = strings.clone();
        array.push(core::ptr::null_mut());
        // SAFETY: a NULL-terminated array of writable C strings.
        let fd = unsafe { take_variable(array.as_mut_ptr()) }
            .and_then(Told::parse)
            .and_then(|told| told.descriptor);
        let left = array
            .iter()
            .take_while(|entry| !entry.is_null())
            // SAFETY: the entries are still C strings.
            .map(|entry| unsafe { CStr::from_ptr(*entry) }.to_str().unwrap().into())
            .collect();
        for string in strings {
            // SAFETY: came from `into_raw`. (A shortened string frees as a shorter one, which the
            // allocator of the tests tolerates no better than any other: so leak it instead.)
            let _ = string;
        }
        (fd, left)
    }

    #[test]
    fn our_traces_are_removed_and_nothing_else() {
        for (before, fd, after) in [
            (
                &["A=1", "LD_PRELOAD=/x/libwhatif_rt-1.so", "WHATIF_REGION=7", "B=2"][..],
                Some(7),
                &["A=1", "B=2"][..],
            ),
            (
                &["LD_PRELOAD=libasan.so.8:/x/libwhatif_rt-1.so:/u/mine.so", "WHATIF_REGION=12"],
                Some(12),
                &["LD_PRELOAD=/u/mine.so"],
            ),
            (&["LD_PRELOAD=libtsan.so.2:/x/libwhatif_rt-1.so", "WHATIF_REGION=1"], Some(1), &[]),
            (&["LD_PRELOAD=/x/libwhatif_rt-1.so:", "WHATIF_REGION=1"], Some(1), &["LD_PRELOAD="]),
            (
                &["LD_PRELOAD=libwhatif_rt.so:/a.so:b.so", "WHATIF_REGION=1"],
                Some(1),
                &["LD_PRELOAD=/a.so:b.so"],
            ),
            (
                &["LD_PRELOAD=/u/libwhatif_rt/a.so", "WHATIF_REGION=1"],
                Some(1),
                &["LD_PRELOAD=/u/libwhatif_rt/a.so"],
            ),
            (&["LD_PRELOAD=/u/mine.so", "A=1"], None, &["LD_PRELOAD=/u/mine.so", "A=1"]),
            (&["WHATIF_REGION=x"], None, &[]),
            (&["WHATIF_REGIONS=3"], None, &["WHATIF_REGIONS=3"]),
            (&[], None, &[]),
        ] {
            assert_eq!(clean(before), (fd, after.iter().map(|s| String::from(*s)).collect()), "{before:?}");
        }
    }
}

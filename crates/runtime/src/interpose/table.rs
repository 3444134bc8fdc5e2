//! Which function is what. One line each; the classes are explained in [`super::interpose`].
//!
//! | class | before the call | after it |
//! |---|---|---|
//! | `wakes` | pay | – |
//! | `waits` | pay | inherit if woken, never pause: the caller may hold a lock now; after a timeout as `world` |
//! | `waits_holding` | pay | the same, but after a timeout the caller has a lock: what accrued is paid later; `sleeps_holding` with a timeout |
//! | `locks` | pay, try without waiting; otherwise as `waits` | as `waits` |
//! | `world` | pay | pay at once what accrued meanwhile |
//! | `device` | pay | the same, and inherit what accrued while the thread waited for a CPU behind it |
//! | `yields` | – | – ; many in a row are a wait (rule 5), and the first ends a stretch |
//! | `children` | pay | as `waits` if a process has ended that is profiled, otherwise as `world` |
//! | `reads`, `writes` | pay | as `waits` if another thread has meanwhile done the opposite, otherwise as `world` |
//! | `objects` | pay | the same for what has no descriptor, or one that is the same in all processes: semaphores, message queues, locks of files |
//! | `ready` | pay | the same, for any of several descriptors |
//!
//! `…_undisturbed`: our signal stays out while the call is in the kernel, because it fails with `EINTR`
//! after any signal handler, with or without `SA_RESTART` (signal(7)). `world_masking`: the call brings
//! its own signal mask.
//!
//! The papers' two tables (potentially unblocking and potentially blocking calls) are complete here, with
//! the timed and clock variants, semaphores and C11 threads that they leave out.

use super::interpose;
use super::locks::{Locking, by_lockf, locking};
use super::readiness::{MICROS, NANOS, asked, limit, polled, selected};
use crate::channel::{causing, of};
use crate::delay::{Watch, pay};
use crate::epoll::{Call, milliseconds, returned, touched};
use crate::real::real;
use crate::{object, passing, sys, wait};
use core::ffi::{CStr, c_char, c_int, c_long, c_uint, c_void};
use core::sync::atomic::{AtomicU8, Ordering::Relaxed};
use wire::channel::Key;

pub(super) type Ptr = *mut c_void;
/// Another name for a pointer argument that is a signal set.
pub(super) type Set = *const c_void;
type Size = usize;
type Offset = i64;

/// `errno.h`.
const EBUSY: c_int = 16;

/// The result is an error number.
pub(super) fn done(result: &c_int) -> bool {
    *result == 0
}

/// Locked, although the last owner died with the lock (EOWNERDEAD).
fn locked(result: &c_int) -> bool {
    matches!(*result, 0 | 130)
}

/// A barrier lets one thread through with −1.
fn passed(result: &c_int) -> bool {
    matches!(*result, 0 | -1)
}

/// The result is a signal number, or −1.
pub(super) fn caught(result: &c_int) -> bool {
    *result > 0
}

/// The result is a number of bytes, or −1.
fn moved(result: &isize) -> bool {
    *result >= 0
}

/// `sigsuspend` always returns −1, and always because of a signal.
fn always(_: &c_int) -> bool {
    true
}

/// The process that a `siginfo_t` tells the end of, if the call has not failed.
///
/// # Safety
/// `info` must be null or point to what the call has written.
unsafe fn ended(result: c_int, info: Ptr) -> c_int {
    if result != 0 || info.is_null() {
        return 0;
    }
    // SAFETY: `si_pid` is the fourth word of four bytes (sigaction(2)), and zero if no process has ended.
    unsafe { info.cast::<c_int>().add(4).read() }
}

/// Whether reader/writer locks may be tried in the program's place. Until glibc 2.30 a thread that tries can leave others asleep that wait
/// (<https://sourceware.org/bugzilla/show_bug.cgi?id=23844>), which a program that never tries cannot meet. Not where the version is unknown.
fn may_try_rwlocks() -> bool {
    static MAY: AtomicU8 = AtomicU8::new(UNKNOWN);
    const UNKNOWN: u8 = 0;
    const NO: u8 = 1;
    const YES: u8 = 2;
    match MAY.load(Relaxed) {
        UNKNOWN => {
            let version = real!(gnu_get_libc_version : fn() -> *const c_char);
            // SAFETY: it has no arguments, and returns a text that is always there.
            let version = version.map(|version| unsafe { CStr::from_ptr(version()) });
            let may = version.is_some_and(|version| wakes_readers(version.to_bytes()));
            MAY.store(if may { YES } else { NO }, Relaxed);
            may
        }
        known => known == YES,
    }
}

/// Whether glibc of this version (`2.36`) has that error no more.
fn wakes_readers(version: &[u8]) -> bool {
    let mut parts = version.split(|byte| *byte == b'.').map(|part| {
        part.iter().try_fold(0_u32, |number, byte| match byte {
            b'0'..=b'9' => number.checked_mul(10)?.checked_add(u32::from(byte - b'0')),
            _ => None,
        })
    });
    let (major, minor) = (parts.next().flatten(), parts.next().flatten());
    major.zip(minor).is_some_and(|version| version >= (2, 30))
}

// Mutexes.
interpose!(locks pthread_mutex_lock(mutex: Ptr) -> c_int, pthread_mutex_trylock if true, busy EBUSY, woken locked);
interpose!(waits pthread_mutex_timedlock(mutex: Ptr, until: Ptr) -> c_int, woken locked);
interpose!(waits pthread_mutex_clocklock(mutex: Ptr, clock: c_int, until: Ptr) -> c_int, woken locked);
interpose!(wakes pthread_mutex_unlock(mutex: Ptr) -> c_int);

// Reader/writer locks.
interpose!(locks pthread_rwlock_rdlock(lock: Ptr) -> c_int, pthread_rwlock_tryrdlock if may_try_rwlocks(), busy EBUSY, woken done);
interpose!(waits pthread_rwlock_timedrdlock(lock: Ptr, until: Ptr) -> c_int, woken done);
interpose!(waits pthread_rwlock_clockrdlock(lock: Ptr, clock: c_int, until: Ptr) -> c_int, woken done);
interpose!(locks pthread_rwlock_wrlock(lock: Ptr) -> c_int, pthread_rwlock_trywrlock if may_try_rwlocks(), busy EBUSY, woken done);
interpose!(waits pthread_rwlock_timedwrlock(lock: Ptr, until: Ptr) -> c_int, woken done);
interpose!(waits pthread_rwlock_clockwrlock(lock: Ptr, clock: c_int, until: Ptr) -> c_int, woken done);
interpose!(wakes pthread_rwlock_unlock(lock: Ptr) -> c_int);

// Spin locks.
interpose!(locks pthread_spin_lock(lock: Ptr) -> c_int, pthread_spin_trylock if true, busy EBUSY, woken done);
interpose!(wakes pthread_spin_unlock(lock: Ptr) -> c_int);

interpose!(yields sched_yield() -> c_int);

// Condition variables.
interpose!(waits_holding pthread_cond_wait(condition: Ptr, mutex: Ptr) -> c_int, woken done);
interpose!(sleeps_holding pthread_cond_timedwait(condition: Ptr, mutex: Ptr, until: Ptr) -> c_int, woken done);
interpose!(sleeps_holding pthread_cond_clockwait(condition: Ptr, mutex: Ptr, clock: c_int, until: Ptr) -> c_int, woken done);
interpose!(wakes pthread_cond_signal(condition: Ptr) -> c_int);
interpose!(wakes pthread_cond_broadcast(condition: Ptr) -> c_int);

// Barriers: the last one to arrive wakes the others.
interpose!(waits pthread_barrier_wait(barrier: Ptr) -> c_int, woken passed);

// The ends of threads.
interpose!(waits pthread_join(thread: usize, result: Ptr) -> c_int, woken done);
interpose!(waits pthread_timedjoin_np(thread: usize, result: Ptr, until: Ptr) -> c_int, woken done);
interpose!(waits pthread_clockjoin_np(thread: usize, result: Ptr, clock: c_int, until: Ptr) -> c_int, woken done);

// Semaphores. (One that is free is not tried first: only the wait ends a thread that is to be cancelled.)
interpose!(waits sem_wait(semaphore: Ptr) -> c_int, woken done);
interpose!(waits_undisturbed sem_timedwait(semaphore: Ptr, until: Ptr) -> c_int, woken done);
interpose!(waits_undisturbed sem_clockwait(semaphore: Ptr, clock: c_int, until: Ptr) -> c_int, woken done);
interpose!(wakes sem_post(semaphore: Ptr) -> c_int);

// Signals between threads.
interpose!(wakes pthread_kill(thread: usize, signal: c_int) -> c_int);
interpose!(@define pthread_sigqueue(thread: usize, signal: c_int, value: Ptr) -> c_int, slot, original => {
    passing::queues_for_thread();
    pay(slot);
    original(thread, signal, value)
});
interpose!(wakes kill(process: c_int, signal: c_int) -> c_int);
interpose!(wakes tgkill(process: c_int, thread: c_int, signal: c_int) -> c_int);
interpose!(wakes sigqueue(process: c_int, signal: c_int, value: Ptr) -> c_int);
interpose!(waits_suspended sigsuspend(set: Set) -> c_int, woken always);
interpose!(world_undisturbed pause() -> c_int);

// C11 threads. `thrd_success` is zero, `thrd_busy` one.
interpose!(locks mtx_lock(mutex: Ptr) -> c_int, mtx_trylock if true, busy 1, woken done);
interpose!(waits mtx_timedlock(mutex: Ptr, until: Ptr) -> c_int, woken done);
interpose!(wakes mtx_unlock(mutex: Ptr) -> c_int);
interpose!(waits_holding cnd_wait(condition: Ptr, mutex: Ptr) -> c_int, woken done);
interpose!(sleeps_holding cnd_timedwait(condition: Ptr, mutex: Ptr, until: Ptr) -> c_int, woken done);
interpose!(wakes cnd_signal(condition: Ptr) -> c_int);
interpose!(wakes cnd_broadcast(condition: Ptr) -> c_int);
interpose!(waits thrd_join(thread: usize, result: Ptr) -> c_int, woken done);
interpose!(wakes thrd_exit(result: c_int) -> ());
interpose!(world_undisturbed thrd_sleep(time: Ptr, left: Ptr) -> c_int);

// Sleeps. (`clock_nanosleep` is in `timers.rs`.)
interpose!(world_undisturbed nanosleep(time: Ptr, left: Ptr) -> c_int);
interpose!(world_undisturbed usleep(micros: c_uint) -> c_int);
interpose!(world_undisturbed sleep(seconds: c_uint) -> c_uint);

// Files, pipes and the like. (`read` is in `timers.rs`.)
interpose!(reads fd readv(fd: c_int, parts: Ptr, count: c_int) -> isize);
interpose!(reads fd eventfd_read(fd: c_int, value: Ptr) -> c_int);
interpose!(writes fd eventfd_write(fd: c_int, value: u64) -> c_int);
interpose!(world pread(fd: c_int, buffer: Ptr, size: Size, at: Offset) -> isize);
interpose!(world __pread_chk(fd: c_int, buffer: Ptr, size: Size, at: Offset, room: Size) -> isize);
interpose!(world pread64(fd: c_int, buffer: Ptr, size: Size, at: Offset) -> isize);
interpose!(world __pread64_chk(fd: c_int, buffer: Ptr, size: Size, at: Offset, room: Size) -> isize);
interpose!(world preadv(fd: c_int, parts: Ptr, count: c_int, at: Offset) -> isize);
interpose!(world preadv64(fd: c_int, parts: Ptr, count: c_int, at: Offset) -> isize);
interpose!(writes fd write(fd: c_int, buffer: Ptr, size: Size) -> isize);
interpose!(writes fd writev(fd: c_int, parts: Ptr, count: c_int) -> isize);
interpose!(world pwrite(fd: c_int, buffer: Ptr, size: Size, at: Offset) -> isize);
interpose!(world pwrite64(fd: c_int, buffer: Ptr, size: Size, at: Offset) -> isize);
interpose!(world pwritev(fd: c_int, parts: Ptr, count: c_int, at: Offset) -> isize);
interpose!(world pwritev64(fd: c_int, parts: Ptr, count: c_int, at: Offset) -> isize);
interpose!(device fsync(fd: c_int) -> c_int);
interpose!(device fdatasync(fd: c_int) -> c_int);
interpose!(device syncfs(fd: c_int) -> c_int);
interpose!(device msync(start: Ptr, size: Size, flags: c_int) -> c_int);
interpose!(@define flock(fd: c_int, operation: c_int) -> c_int, slot, original => {
    locking(slot, fd, Locking::by_flock(operation), || original(fd, operation))
});
interpose!(@define lockf(fd: c_int, command: c_int, size: Offset) -> c_int, slot, original => {
    by_lockf(slot, fd, command, || original(fd, command, size))
});
interpose!(@define lockf64(fd: c_int, command: c_int, size: Offset) -> c_int, slot, original => {
    by_lockf(slot, fd, command, || original(fd, command, size))
});
interpose!(writes to sendfile(to: c_int, from: c_int, offset: Ptr, size: Size) -> isize);
interpose!(writes to sendfile64(to: c_int, from: c_int, offset: Ptr, size: Size) -> isize);
interpose!(@define splice(from: c_int, in_at: Ptr, to: c_int, out_at: Ptr, size: Size, flags: c_uint) -> isize, slot, original => {
    let filled = of(to).output.map(Key::data);
    let call = || original(from, in_at, to, out_at, size, flags);
    super::reading(slot, from, || causing(filled, sys::now(), call))
});
interpose!(world copy_file_range(from: c_int, in_at: Ptr, to: c_int, out_at: Ptr, size: Size, flags: c_uint) -> isize);

// Standard I/O, which calls the kernel from inside the C library. (The functions with a variable number of
// arguments cannot be defined here; what they make a thread owe is paid at its next sample.)
interpose!(world fread(buffer: Ptr, size: Size, count: Size, file: Ptr) -> Size);
interpose!(world __fread_chk(buffer: Ptr, room: Size, size: Size, count: Size, file: Ptr) -> Size);
interpose!(world fread_unlocked(buffer: Ptr, size: Size, count: Size, file: Ptr) -> Size);
interpose!(world fgets(buffer: Ptr, size: c_int, file: Ptr) -> Ptr);
interpose!(world __fgets_chk(buffer: Ptr, room: Size, size: c_int, file: Ptr) -> Ptr);
interpose!(world fgets_unlocked(buffer: Ptr, size: c_int, file: Ptr) -> Ptr);
interpose!(world getline(line: Ptr, size: Ptr, file: Ptr) -> isize);
interpose!(world getdelim(line: Ptr, size: Ptr, until: c_int, file: Ptr) -> isize);
interpose!(world __getdelim(line: Ptr, size: Ptr, until: c_int, file: Ptr) -> isize);
interpose!(world fgetc(file: Ptr) -> c_int);
interpose!(world getc(file: Ptr) -> c_int);
interpose!(world getchar() -> c_int);
interpose!(world fwrite(buffer: Ptr, size: Size, count: Size, file: Ptr) -> Size);
interpose!(world fwrite_unlocked(buffer: Ptr, size: Size, count: Size, file: Ptr) -> Size);
interpose!(world fputs(text: Ptr, file: Ptr) -> c_int);
interpose!(world puts(text: Ptr) -> c_int);
interpose!(world fflush(file: Ptr) -> c_int);
interpose!(world fclose(file: Ptr) -> c_int);
interpose!(world getaddrinfo(node: Ptr, service: Ptr, hints: Ptr, result: Ptr) -> c_int);

// Sockets. (`accept` and `connect` are in `connect.rs`.)
interpose!(reads fd recv(fd: c_int, buffer: Ptr, size: Size, flags: c_int) -> isize);
interpose!(reads fd __recv_chk(fd: c_int, buffer: Ptr, size: Size, room: Size, flags: c_int) -> isize);
interpose!(reads fd recvfrom(fd: c_int, buffer: Ptr, size: Size, flags: c_int, address: Ptr, length: Ptr) -> isize);
interpose!(reads fd __recvfrom_chk(fd: c_int, buffer: Ptr, size: Size, room: Size, flags: c_int, address: Ptr, length: Ptr) -> isize);
interpose!(reads fd recvmsg(fd: c_int, message: Ptr, flags: c_int) -> isize);
interpose!(reads_undisturbed fd recvmmsg(fd: c_int, messages: Ptr, count: c_uint, flags: c_int, time: Ptr) -> c_int);
interpose!(writes fd send(fd: c_int, buffer: Ptr, size: Size, flags: c_int) -> isize);
interpose!(writes fd sendto(fd: c_int, buffer: Ptr, size: Size, flags: c_int, address: Ptr, length: c_uint) -> isize);
interpose!(writes fd sendmsg(fd: c_int, message: Ptr, flags: c_int) -> isize);
interpose!(writes fd sendmmsg(fd: c_int, messages: Ptr, count: c_uint, flags: c_int) -> c_int);

// Readiness.
interpose!(ready poll(fds: Ptr, count: Size, time: c_int) -> c_int, of None, within time.into(), used |_ready| polled(fds, count), watch Some(Watch { used: &|| asked(fds, count), instance: None }));
interpose!(ready __poll_chk(fds: Ptr, count: Size, time: c_int, room: Size) -> c_int, of None, within time.into(), used |_ready| polled(fds, count), watch Some(Watch { used: &|| asked(fds, count), instance: None }));
interpose!(ready_masking set ppoll(fds: Ptr, count: Size, time: Ptr, set: Set) -> c_int, of None, within limit(time, NANOS), used |_ready| polled(fds, count), watch Some(Watch { used: &|| asked(fds, count), instance: None }));
interpose!(ready select(count: c_int, read: Ptr, write: Ptr, except: Ptr, time: Ptr) -> c_int, of None, within limit(time, MICROS), used |_ready| selected([read, write], count), watch None);
interpose!(ready_masking set pselect(count: c_int, read: Ptr, write: Ptr, except: Ptr, time: Ptr, set: Set) -> c_int, of None, within limit(time, NANOS), used |_ready| selected([read, write], count), watch None);
interpose!(ready epoll_wait(fd: c_int, events: Ptr, count: c_int, time: c_int) -> c_int, of Some(Call { instance: fd, events, room: count, timeout: time.into() }), within time.into(), used |ready| returned(fd, events, ready), watch Some(Watch { used: &|| touched(fd), instance: of(fd).input }));
interpose!(ready_masking set epoll_pwait(fd: c_int, events: Ptr, count: c_int, time: c_int, set: Set) -> c_int, of Some(Call { instance: fd, events, room: count, timeout: time.into() }), within time.into(), used |ready| returned(fd, events, ready), watch Some(Watch { used: &|| touched(fd), instance: of(fd).input }));
interpose!(ready_masking set epoll_pwait2(fd: c_int, events: Ptr, count: c_int, time: Ptr, set: Set) -> c_int, of Some(Call { instance: fd, events, room: count, timeout: milliseconds(time) }), within limit(time, NANOS), used |ready| returned(fd, events, ready), watch Some(Watch { used: &|| touched(fd), instance: of(fd).input }));

// Processes.
interpose!(children wait(status: Ptr) -> c_int, ended |result| *result);
interpose!(children waitpid(process: c_int, status: Ptr, options: c_int) -> c_int, ended |result| *result);
interpose!(children wait3(status: Ptr, options: c_int, usage: Ptr) -> c_int, ended |result| *result);
interpose!(children wait4(process: c_int, status: Ptr, options: c_int, usage: Ptr) -> c_int, ended |result| *result);
interpose!(@define pclose(file: Ptr) -> c_int, slot, original => {
    wait::around_channel(slot, None, || original(file), |_| object::child_ended(), None)
});
interpose!(children waitid(kind: c_int, id: c_uint, info: Ptr, options: c_int) -> c_int, ended |result| ended(*result, info));

// System V and POSIX message queues and semaphores: between processes.
interpose!(objects semop(id: c_int, operations: Ptr, count: Size) -> c_int, causes object::raises(id, operations, count), awaits Some(object::semaphores(id).data()), done done);
interpose!(objects semtimedop(id: c_int, operations: Ptr, count: Size, time: Ptr) -> c_int, causes object::raises(id, operations, count), awaits Some(object::semaphores(id).data()), done done);
interpose!(objects msgrcv(id: c_int, message: Ptr, size: Size, kind: c_long, flags: c_int) -> isize, causes Some(object::messages(id).room()), awaits Some(object::messages(id).data()), done moved);
interpose!(objects msgsnd(id: c_int, message: Ptr, size: Size, flags: c_int) -> c_int, causes Some(object::messages(id).data()), awaits Some(object::messages(id).room()), done done);
interpose!(objects mq_receive(queue: c_int, message: Ptr, size: Size, priority: Ptr) -> isize, causes object::file(queue).map(Key::room), awaits object::file(queue).map(Key::data), done moved);
interpose!(objects mq_timedreceive(queue: c_int, message: Ptr, size: Size, priority: Ptr, until: Ptr) -> isize, causes object::file(queue).map(Key::room), awaits object::file(queue).map(Key::data), done moved);
interpose!(objects mq_send(queue: c_int, message: Ptr, size: Size, priority: c_uint) -> c_int, causes object::file(queue).map(Key::data), awaits object::file(queue).map(Key::room), done done);
interpose!(objects mq_timedsend(queue: c_int, message: Ptr, size: Size, priority: c_uint, until: Ptr) -> c_int, causes object::file(queue).map(Key::data), awaits object::file(queue).map(Key::room), done done);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rwlocks_are_tried_where_that_wakes_readers() {
        for (version, may) in [("2.30", true), ("2.41", true), ("3.0", true), ("2.29", false), ("2.9", false)]
        {
            assert_eq!(wakes_readers(version.as_bytes()), may, "{version}");
        }
        for odd in ["", "2", "2.", ".30", "2.30-dev", "99999999999.1", "glibc 2.36"] {
            assert!(!wakes_readers(odd.as_bytes()), "{odd}");
        }
        assert!(wakes_readers(b"2.36.9000"));
    }
}

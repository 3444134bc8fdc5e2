//! The functions that stand in front of the C library's.
//!
//! [`table`] says which function is what; the wrappers are generated from it. What needs more than its
//! class says is written out: [`futex`] (the `syscall` function), [`exec`], [`vfork`], [`exit`], [`locks`], [`sigwait`], [`connect`], [`timers`], [`threads`] and
//! [`seccomp`] and [`descriptors`] (what makes them and gives them up). Not here: `epoll_ctl` and the calls about signals, which stand beside what they change
//! ([`epoll`](crate::epoll), [`signals`](crate::signals)).
//!
//! Every wrapper calls the original with the same arguments and returns its result. On the way in it may
//! pause; on the way out only where the caller cannot have got hold of a lock. `errno` is the original's:
//! nothing here calls a function that sets it after the original has returned.

mod by_number;
mod connect;
mod descriptors;
mod exec;
mod exit;
mod futex;
mod goroutines;
mod locks;
mod readiness;
mod seccomp;
mod sigwait;
mod table;
mod threads;
mod timers;
mod vfork;

use crate::{arrivals, channel, object, wait};
use core::ffi::c_int;
use wire::channel::{Event, Key};
use wire::slot::Slot;

/// What functions return when their original does not exist. The program should not be able to call them then.
pub(crate) trait Missing {
    const MISSING: Self;
}

impl Missing for c_int {
    const MISSING: Self = 38; // ENOSYS
}

impl Missing for isize {
    const MISSING: Self = -1;
}

impl Missing for usize {
    const MISSING: Self = 0;
}

impl Missing for u32 {
    const MISSING: Self = 0;
}

impl Missing for () {
    const MISSING: Self = ();
}

impl Missing for *mut core::ffi::c_void {
    const MISSING: Self = core::ptr::null_mut();
}

/// What calls that read return.
trait Amount: Copy + PartialOrd + Default {
    /// How much was read, zero if nothing.
    fn amount(&self) -> usize;
}

impl Amount for c_int {
    fn amount(&self) -> usize {
        usize::from(*self > 0)
    }
}

impl Amount for isize {
    fn amount(&self) -> usize {
        usize::try_from(*self).unwrap_or(0)
    }
}

impl Amount for core::ffi::c_long {
    fn amount(&self) -> usize {
        usize::try_from(*self).unwrap_or(0)
    }
}

/// Around a call that reads from a descriptor: a wait for the world, unless the descriptor has two ends.
#[inline]
fn reading<T: Amount>(slot: &Slot, fd: c_int, call: impl FnOnce() -> T) -> T {
    let taking = arrivals::Taking::default();
    let call = || arrivals::taking(slot, fd, &taking, call, T::amount);
    let result = on_channel(slot, channel::of(fd).input, Key::data, Key::room, call);
    if let Some(took) = taking.get() {
        arrivals::taken(slot, fd, took);
    }
    result
}

/// The same for one that writes.
#[inline]
fn writing<T: Copy + PartialOrd + Default>(slot: &Slot, fd: c_int, call: impl FnOnce() -> T) -> T {
    let call = || {
        arrivals::sending(slot, fd);
        call()
    };
    on_channel(slot, channel::of(fd).output, Key::room, Key::data, call)
}

#[inline]
fn on_channel<T: Copy + PartialOrd + Default>(
    slot: &Slot,
    key: Option<Key>,
    awaits: impl FnOnce(Key) -> Event,
    causes: impl FnOnce(Key) -> Event,
    call: impl FnOnce() -> T,
) -> T {
    let Some(key) = key else { return wait::around_world(slot, call) };
    let used = |result: &T| {
        if *result < T::default() { object::child_ended() } else { channel::used(awaits(key)) }
    };
    wait::around_channel(slot, Some(causes(key)), call, used, None)
}

/// Names a call for [`crate::stretch`]: the function, and what its first argument says it is about.
macro_rules! call {
    ($name:ident) => {
        $crate::stretch::Call { function: $name as *const () as usize, subject: 0 }
    };
    ($name:ident $first:ident $($rest:ident)*) => {
        $crate::stretch::Call { function: $name as *const () as usize, subject: $first as usize }
    };
}
pub(crate) use call;

/// Generates one wrapper; the first word is its class, see [`table`].
macro_rules! interpose {
    // Pays, then calls: the call may wake another thread (rule 4).
    (wakes $name:ident ( $($arg:ident : $type:ty),* ) -> $result:ty) => {
        interpose!(@define $name ( $($arg : $type),* ) -> $result, slot, original => {
            $crate::delay::pay(slot);
            original($($arg),*)
        });
    };
    // Pays, calls, and inherits if the call succeeded: another thread ended the wait (rules 4 and 5).
    (waits $name:ident ( $($arg:ident : $type:ty),* ) -> $result:ty, woken $woken:expr) => {
        interpose!(@define $name ( $($arg : $type),* ) -> $result, slot, original => {
            $crate::wait::around_wait(slot, || original($($arg),*), $woken)
        });
    };
    // The same for a call that returns with a lock, however it ends.
    (waits_holding $name:ident ( $($arg:ident : $type:ty),* ) -> $result:ty, woken $woken:expr) => {
        interpose!(@define $name ( $($arg : $type),* ) -> $result, slot, original => {
            $crate::wait::around_wait_holding(slot, || original($($arg),*), $woken)
        });
    };
    // The same with a timeout.
    (sleeps_holding $name:ident ( $($arg:ident : $type:ty),* ) -> $result:ty, woken $woken:expr) => {
        interpose!(@define $name ( $($arg : $type),* ) -> $result, slot, original => {
            $crate::wait::before_sleep(slot);
            $crate::wait::around_wait_holding(slot, || original($($arg),*), $woken)
        });
    };
    // The same for a lock, which is mostly free: taken without a wait there is nothing to inherit. $try says with $busy
    // that the lock is taken, and may be asked if $may.
    (locks $name:ident ( $($arg:ident : $type:ty),* ) -> $result:ty, $try:ident if $may:expr, busy $busy:expr, woken $woken:expr) => {
        interpose!(@define $name ( $($arg : $type),* ) -> $result, slot, original => {
            // Now, and not at the unlock: a thread that wants the lock then would wait for the pause.
            $crate::delay::pay(slot);
            let tried = if $may { $crate::real::real!($try : fn($($type),*) -> $result) } else { None };
            let result = tried.map_or($busy, |try_lock| try_lock($($arg),*));
            if result != $busy {
                return result;
            }
            let woken: fn(&$result) -> bool = $woken;
            let result = $crate::wait::around_wait(slot, || original($($arg),*), woken);
            if woken(&result) {
                $crate::audit::took_over(slot);
            }
            result
        });
    };
    // The same for calls that any signal handler ends.
    (waits_undisturbed $name:ident ( $($arg:ident : $type:ty),* ) -> $result:ty, woken $woken:expr) => {
        interpose!(@define $name ( $($arg : $type),* ) -> $result, slot, original => {
            let call = || $crate::signals::undisturbed(slot, || original($($arg),*));
            $crate::wait::before_sleep(slot);
            $crate::wait::around_wait(slot, call, $woken)
        });
    };
    // The same for a call whose argument replaces the signal mask meanwhile.
    (waits_suspended $name:ident ( $set:ident : $type:ty ) -> $result:ty, woken $woken:expr) => {
        interpose!(@define $name ( $set : $type ) -> $result, slot, original => {
            let mut copy = [0_u64; 16];
            let $set = $crate::signals::with_ours(slot, $set.cast(), &mut copy).cast();
            let call = || $crate::signals::undisturbed(slot, || original($set));
            $crate::wait::around_wait(slot, call, $woken)
        });
    };
    // Calls, then pays what accrued meanwhile (rule 6).
    (world $name:ident ( $($arg:ident : $type:ty),* ) -> $result:ty) => {
        interpose!(@define $name ( $($arg : $type),* ) -> $result, slot, original => {
            $crate::wait::around_world(slot, || original($($arg),*))
        });
    };
    // The same for calls that wait for a device as a rule: behind that the thread may wait for a CPU (rule 7). Asking the kernel for how long takes
    // too long for a read that mostly finds what it wants in memory.
    (device $name:ident ( $($arg:ident : $type:ty),* ) -> $result:ty) => {
        interpose!(@define $name ( $($arg : $type),* ) -> $result, slot, original => {
            $crate::wait::before_sleep(slot);
            $crate::wait::around_world(slot, || original($($arg),*))
        });
    };
    // The same for calls that wait for the end of a process; $ended says which one has ended.
    (children $name:ident ( $($arg:ident : $type:ty),* ) -> $result:ty, ended |$ended:ident| $process:expr) => {
        interpose!(@define $name ( $($arg : $type),* ) -> $result, slot, original => {
            $crate::wait::around_child(slot, || original($($arg),*), |$ended| $process)
        });
    };
    // The same for calls that any signal handler ends.
    (world_undisturbed $name:ident ( $($arg:ident : $type:ty),* ) -> $result:ty) => {
        interpose!(@define $name ( $($arg : $type),* ) -> $result, slot, original => {
            $crate::wait::before_sleep(slot);
            $crate::wait::around_world(slot, || $crate::signals::undisturbed(slot, || original($($arg),*)))
        });
    };
    // The same for calls whose argument $set replaces the signal mask meanwhile.
    (world_masking $set:ident $name:ident ( $($arg:ident : $type:ty),* ) -> $result:ty) => {
        interpose!(@define $name ( $($arg : $type),* ) -> $result, slot, original => {
            let mut copy = [0_u64; 16];
            let $set = $crate::signals::with_ours(slot, $set.cast(), &mut copy).cast();
            $crate::wait::around_world(slot, || $crate::signals::undisturbed(slot, || original($($arg),*)))
        });
    };
    // Calls, and remembers that it did: a thread that does so all the time waits. Only the first of many ends a stretch of code.
    (yields $name:ident () -> $result:ty) => {
        interpose!(@define $name () -> $result, slot, original => {
            let ends_stretch = || $crate::stretch::cross(slot, $crate::interpose::call!($name));
            $crate::yields::yielding(slot, ends_stretch, || original())
        }, crossing |_, _| {});
    };
    // A call that reads from a descriptor, $fd, or writes to it: as `world`, unless it has two ends.
    (reads $fd:ident $name:ident ( $($arg:ident : $type:ty),* ) -> $result:ty) => {
        interpose!(@define $name ( $($arg : $type),* ) -> $result, slot, original => {
            $crate::interpose::reading(slot, $fd, || original($($arg),*))
        });
    };
    (reads_undisturbed $fd:ident $name:ident ( $($arg:ident : $type:ty),* ) -> $result:ty) => {
        interpose!(@define $name ( $($arg : $type),* ) -> $result, slot, original => {
            let call = || $crate::signals::undisturbed(slot, || original($($arg),*));
            $crate::interpose::reading(slot, $fd, call)
        });
    };
    (writes $fd:ident $name:ident ( $($arg:ident : $type:ty),* ) -> $result:ty) => {
        interpose!(@define $name ( $($arg : $type),* ) -> $result, slot, original => {
            $crate::interpose::writing(slot, $fd, || original($($arg),*))
        });
    };
    // A call that waits until another thread has done the opposite, in whatever process; `$causes` says which event it is for others, `$awaits` what it waits for.
    (objects $name:ident ( $($arg:ident : $type:ty),* ) -> $result:ty, causes $causes:expr, awaits $awaits:expr, done $done:expr) => {
        interpose!(@define $name ( $($arg : $type),* ) -> $result, slot, original => {
            let (causes, awaits) = ($causes, $awaits);
            let used = |result: &$result| {
                let done: fn(&$result) -> bool = $done;
                awaits.filter(|_| done(result)).map_or(wire::Nanos::ZERO, $crate::channel::used)
            };
            let call = || $crate::signals::undisturbed(slot, || original($($arg),*));
            $crate::wait::before_sleep(slot);
            $crate::wait::around_channel(slot, causes, call, used, None)
        });
    };
    // A call that waits for any of several descriptors; `$used` says when a thread last did what makes one that
    // is ready so, `$watch` the same of any that are asked for; `$instance` is a descriptor that stands for all, if there is one; `$time` is its time limit in milliseconds, negative without one.
    (ready $name:ident ( $($arg:ident : $type:ty),* ) -> $result:ty, of $instance:expr, within $time:expr, used |$count:ident| $used:expr, watch $watch:expr) => {
        interpose!(@define $name ( $($arg : $type),* ) -> $result, slot, original => {
            interpose!(@ready slot, $instance, $time, original($($arg),*), $count, $used, $watch)
        });
    };
    // The same for calls whose argument $set replaces the signal mask meanwhile.
    (ready_masking $set:ident $name:ident ( $($arg:ident : $type:ty),* ) -> $result:ty, of $instance:expr, within $time:expr, used |$count:ident| $used:expr, watch $watch:expr) => {
        interpose!(@define $name ( $($arg : $type),* ) -> $result, slot, original => {
            let mut copy = [0_u64; 16];
            let $set = $crate::signals::with_ours(slot, $set.cast(), &mut copy).cast();
            interpose!(@ready slot, $instance, $time, original($($arg),*), $count, $used, $watch)
        });
    };
    (@ready $slot:ident, $epoll:expr, $time:expr, $call:expr, $count:ident, $used:expr, $watch:expr) => {{
        let epoll: Option<$crate::epoll::Call> = $epoll;
        loop {
            let call = || $crate::signals::undisturbed($slot, || $call);
            let ready = |&ready: &c_int| ready > 0;
            let call = || $crate::arrivals::polling($slot, epoll.map(|call| call.instance), call, ready);
            let used = |&$count: &c_int| match $count {
                1.. => $used,
                0 => wire::Nanos::ZERO,
                _ => $crate::object::child_ended(),
            };
            $crate::wait::before_short_sleep($slot, $time);
            let count = $crate::wait::around_channel($slot, None, call, used, $watch);
            let Some(epoll) = epoll else { break count };
            if let $crate::epoll::Passed::Some(count) = $crate::epoll::pass($slot, epoll, count) {
                break count;
            }
        }
    }};
    (@define $name:ident ( $($arg:ident : $type:ty),* ) -> $result:ty, $slot:ident, $original:ident => $body:block) => {
        interpose!(@define $name ( $($arg : $type),* ) -> $result, $slot, $original => $body, crossing $crate::stretch::cross);
    };
    (@define $name:ident ( $($arg:ident : $type:ty),* ) -> $result:ty, $slot:ident, $original:ident => $body:block, crossing $cross:expr) => {
        #[cfg_attr(whatif_cdylib, unsafe(no_mangle))]
        pub unsafe extern "C" fn $name($($arg: $type),*) -> $result {
            let Some($original) = $crate::real::real!($name : fn($($type),*) -> $result) else {
                return <$result as $crate::interpose::Missing>::MISSING;
            };
            // SAFETY: the program's own arguments go to the function it meant to call.
            unsafe {
                match $crate::late::slot() {
                    Some($slot) => {
                        ($cross)($slot, $crate::interpose::call!($name $($arg)*));
                        $body
                    }
                    None => $original($($arg),*),
                }
            }
        }
    };
}
pub(crate) use interpose;

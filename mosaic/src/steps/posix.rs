//! Locks, conditions, barriers and semaphores of POSIX threads.
//!
//! # Safety
//!
//! Each object lies in memory of its own that does not move, is initialised before anything else is done with it, and is not
//! destroyed: a program's objects live as long as its process. What a function demands besides is at its call.

use std::cell::UnsafeCell;
use std::mem::zeroed;
use std::ptr::{self, NonNull};
use std::time::Duration;

use libc::{c_int, timespec};

/// An object of the C library's, at an address of its own.
struct Fixed<T>(Box<UnsafeCell<T>>);

// SAFETY: objects of POSIX threads are made to be used by several threads, and only their functions use them.
unsafe impl<T> Send for Fixed<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Fixed<T> {}

impl<T> Fixed<T> {
    /// All zero, which is what `PTHREAD_…_INITIALIZER` is on Linux.
    fn zeroed() -> Self {
        // SAFETY: the types below are C structures of integers, which may be zero.
        Self(Box::new(UnsafeCell::new(unsafe { zeroed() })))
    }

    fn get(&self) -> *mut T {
        self.0.get()
    }
}

fn must(result: c_int) {
    assert_eq!(result, 0, "{}", std::io::Error::from_raw_os_error(result));
}

/// `pthread_mutex_t`
pub struct Mutex(Fixed<libc::pthread_mutex_t>);

impl Mutex {
    pub fn new() -> Self {
        let mutex = Fixed::zeroed();
        // SAFETY: fresh memory; null means the default attributes.
        must(unsafe { libc::pthread_mutex_init(mutex.get(), ptr::null()) });
        Self(mutex)
    }

    pub fn lock(&self) {
        // SAFETY: initialised.
        must(unsafe { libc::pthread_mutex_lock(self.0.get()) });
    }

    pub fn unlock(&self) {
        // SAFETY: initialised; a caller that does not have it gets an error of no consequence.
        must(unsafe { libc::pthread_mutex_unlock(self.0.get()) });
    }
}

/// `pthread_cond_t`
pub struct Condition(Fixed<libc::pthread_cond_t>);

impl Condition {
    pub fn new() -> Self {
        let condition = Fixed::zeroed();
        // SAFETY: fresh memory; null means the default attributes.
        must(unsafe { libc::pthread_cond_init(condition.get(), ptr::null()) });
        Self(condition)
    }

    /// The caller has `mutex`.
    pub fn wait(&self, mutex: &Mutex) {
        // SAFETY: both are initialised, and the caller has the mutex.
        must(unsafe { libc::pthread_cond_wait(self.0.get(), mutex.0.get()) });
    }

    /// Waits until `time` has passed, no matter which thread signals meanwhile. The caller has `mutex`.
    pub fn time_out(&self, mutex: &Mutex, time: Duration) {
        let until = after(time);
        // SAFETY: both are initialised, and the caller has the mutex.
        while unsafe { libc::pthread_cond_timedwait(self.0.get(), mutex.0.get(), &raw const until) }
            != libc::ETIMEDOUT
        {}
    }

    pub fn signal(&self) {
        // SAFETY: initialised.
        must(unsafe { libc::pthread_cond_signal(self.0.get()) });
    }
}

/// `pthread_rwlock_t`
pub struct RwLock(Fixed<libc::pthread_rwlock_t>);

impl RwLock {
    pub fn new() -> Self {
        let lock = Fixed::zeroed();
        // SAFETY: fresh memory; null means the default attributes.
        must(unsafe { libc::pthread_rwlock_init(lock.get(), ptr::null()) });
        Self(lock)
    }

    pub fn read(&self) {
        // SAFETY: initialised.
        must(unsafe { libc::pthread_rwlock_rdlock(self.0.get()) });
    }

    pub fn write(&self) {
        // SAFETY: initialised.
        must(unsafe { libc::pthread_rwlock_wrlock(self.0.get()) });
    }

    pub fn unlock(&self) {
        // SAFETY: initialised, and the caller has it.
        must(unsafe { libc::pthread_rwlock_unlock(self.0.get()) });
    }
}

/// `pthread_barrier_t`
pub struct Barrier(Fixed<libc::pthread_barrier_t>);

impl Barrier {
    pub fn new(parties: u32) -> Self {
        let barrier = Fixed::zeroed();
        // SAFETY: fresh memory; null means the default attributes.
        must(unsafe { libc::pthread_barrier_init(barrier.get(), ptr::null(), parties) });
        Self(barrier)
    }

    pub fn wait(&self) {
        // SAFETY: initialised. One of those that waited gets a result of its own, which nothing is made of.
        unsafe { libc::pthread_barrier_wait(self.0.get()) };
    }
}

/// A `sem_t` that forked processes share.
pub struct Semaphore(NonNull<libc::sem_t>);

// SAFETY: semaphores are made to be used by several threads, and only their functions use this one.
unsafe impl Send for Semaphore {}
// SAFETY: as above.
unsafe impl Sync for Semaphore {}

impl Semaphore {
    pub fn new(count: u32) -> Self {
        let (size, access) = (size_of::<libc::sem_t>(), libc::PROT_READ | libc::PROT_WRITE);
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping, anywhere.
        let memory = unsafe { libc::mmap(ptr::null_mut(), size, access, flags, -1, 0) };
        assert!(memory != libc::MAP_FAILED, "{}", std::io::Error::last_os_error());
        let semaphore = NonNull::new(memory.cast()).expect("a mapping is not at 0");
        // SAFETY: fresh memory, large enough and shared.
        unsafe { libc::sem_init(semaphore.as_ptr(), 1, count) };
        Self(semaphore)
    }

    pub fn wait(&self) {
        // SAFETY: initialised. A signal's handler may have come between.
        while unsafe { libc::sem_wait(self.0.as_ptr()) } != 0 {}
    }

    pub fn post(&self) {
        // SAFETY: initialised.
        unsafe { libc::sem_post(self.0.as_ptr()) };
    }

    /// Waits until `time` has passed. Nothing is posted.
    pub fn time_out(&self, time: Duration) {
        let until = after(time);
        loop {
            // SAFETY: initialised.
            let result = unsafe { libc::sem_timedwait(self.0.as_ptr(), &raw const until) };
            let interrupted = std::io::Error::last_os_error().raw_os_error() == Some(libc::EINTR);
            if result == 0 || !interrupted {
                return;
            }
        }
    }
}

impl Drop for Semaphore {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`, and no other reference to it is left.
        unsafe { libc::munmap(self.0.as_ptr().cast(), size_of::<libc::sem_t>()) };
    }
}

/// The time of day after `time`.
fn after(time: Duration) -> timespec {
    let mut now = span(Duration::ZERO);
    // SAFETY: `now` is there to be written.
    unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &raw mut now) };
    let nanos = now.tv_nsec + i64::from(time.subsec_nanos());
    now.tv_sec += span(time).tv_sec + nanos / 1_000_000_000;
    now.tv_nsec = nanos % 1_000_000_000;
    now
}

/// A span of time as C has it.
pub fn span(time: Duration) -> timespec {
    timespec {
        tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(time.subsec_nanos()),
    }
}

/// Starts `threads` threads with `pthread_create` that do `theirs`, given the number of each; does `meanwhile`, and joins them.
pub fn threads(threads: u32, theirs: &(dyn Fn(u32) + Sync), meanwhile: impl FnOnce()) {
    struct Task<'a> {
        number: u32,
        does: &'a (dyn Fn(u32) + Sync),
    }

    extern "C" fn begin(task: *mut libc::c_void) -> *mut libc::c_void {
        // SAFETY: `task` points to an element of `tasks` below, which lives until all threads are joined.
        let task = unsafe { &*task.cast::<Task>() };
        (task.does)(task.number);
        ptr::null_mut()
    }

    let tasks: Vec<Task> = (0..threads).map(|number| Task { number, does: theirs }).collect();
    let started: Vec<libc::pthread_t> = tasks
        .iter()
        .map(|task| {
            let mut thread = 0;
            let task = ptr::from_ref(task).cast_mut().cast();
            // SAFETY: `begin` is such a function, and what it gets lives until the thread is joined below. (A panic aborts.)
            must(unsafe { libc::pthread_create(&raw mut thread, ptr::null(), begin, task) });
            thread
        })
        .collect();
    meanwhile();
    for thread in started {
        // SAFETY: started above, and joined once.
        must(unsafe { libc::pthread_join(thread, ptr::null_mut()) });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn threads_are_joined() {
        let sum = AtomicU32::new(0);
        threads(3, &|number| _ = sum.fetch_add(number + 1, Ordering::Relaxed), || {
            sum.fetch_add(100, Ordering::Relaxed);
        });
        assert_eq!(sum.load(Ordering::Relaxed), 106);
    }

    #[test]
    fn times_out() {
        let (mutex, time) = (Mutex::new(), Duration::from_millis(3));
        let began = std::time::Instant::now();
        mutex.lock();
        Condition::new().time_out(&mutex, time);
        mutex.unlock();
        Semaphore::new(0).time_out(time);
        assert!(began.elapsed() >= 2 * time);
    }
}

//! Which tests run beside each other: those that measure have the machine alone, all others share it.
//!
//! A test that makes a [`Sandbox`](super::Sandbox) shares the machine as long as it has one. A test that measures calls
//! [`alone`] before that, and what it holds is what its sandboxes hold, too.
//!
//! A thread that waits for another one either holds nothing while the other one makes sandboxes, or makes them for it: a
//! test that wants to be alone goes first, so that the other one would wait for the first, and the first for it.

use std::cell::RefCell;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};

/// Tests that have the machine just now, or would like to have it alone.
struct Users {
    alone: bool,
    sharing: usize,
    /// Those that wait to be alone. They go first: otherwise they would wait until no other test is left.
    waiting: usize,
}

static USERS: Mutex<Users> = Mutex::new(Users { alone: false, sharing: 0, waiting: 0 });
static CHANGED: Condvar = Condvar::new();

thread_local! {
    /// What the test of this thread holds.
    static HELD: RefCell<Weak<Held>> = const { RefCell::new(Weak::new()) };
}

fn users() -> MutexGuard<'static, Users> {
    USERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The machine, or a part of it, until it is dropped.
pub struct Held {
    alone: bool,
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut users = users();
        if self.alone {
            users.alone = false;
        } else {
            users.sharing -= 1;
        }
        CHANGED.notify_all();
    }
}

fn hold(alone: bool) -> Arc<Held> {
    let held = Arc::new(Held { alone });
    HELD.set(Arc::downgrade(&held));
    held
}

/// Waits until no other test runs anything; none does until this is dropped.
pub fn alone() -> Arc<Held> {
    assert!(HELD.with_borrow(|held| held.upgrade().is_none()), "a test says first that it wants to be alone");
    let mut users = users();
    users.waiting += 1;
    users = CHANGED
        .wait_while(users, |users| users.alone || users.sharing > 0)
        .unwrap_or_else(PoisonError::into_inner);
    users.waiting -= 1;
    users.alone = true;
    hold(true)
}

/// Waits until no test is alone. What this thread holds already is enough.
pub(super) fn beside_others() -> Arc<Held> {
    if let Some(held) = HELD.with_borrow(Weak::upgrade) {
        return held;
    }
    let mut users = users();
    users = CHANGED
        .wait_while(users, |users| users.alone || users.waiting > 0)
        .unwrap_or_else(PoisonError::into_inner);
    users.sharing += 1;
    hold(false)
}

//! The runtime's side of a point: finding its counter, and adding to it.
//!
//! # Safety
//!
//! Everything here rests on the contract in the crate's documentation: a symbol called
//! `_coz_get_counter` is a function of type [`GetCounter`], and what it returns lives, at the same
//! address, for as long as the process; one called `_whatif_visit` is a [`Visit`], one called `_whatif_visit_key` a [`VisitKey`].

use core::ffi::{CStr, c_char, c_int, c_void};
use core::mem::transmute;
use core::ptr::{null_mut, without_provenance_mut};
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use crate::point::Kind;

/// What the runtime counts in. `backoff` is Coz's own business.
#[repr(C)]
pub(crate) struct Counter {
    count: AtomicUsize,
    _backoff: AtomicUsize,
}

type GetCounter = unsafe extern "C" fn(kind: c_int, name: *const c_char) -> *mut Counter;
type Visit = unsafe extern "C" fn(counter: *const Counter);
type VisitKey = unsafe extern "C" fn(counter: *const Counter, key: u64);

unsafe extern "C" {
    safe fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
}

/// `RTLD_DEFAULT` of every libc on Linux: search the program, then its libraries in load order.
const RTLD_DEFAULT: *mut c_void = null_mut();

/// Marks a point that is not counted. No counter lies at an odd address.
const INACTIVE: *mut Counter = without_provenance_mut(1);

/// Where a point's counter is: null (not asked yet), [`INACTIVE`], or its address. Both answers are
/// final.
#[derive(Debug)]
pub(crate) struct Slot(AtomicPtr<Counter>);

impl Slot {
    pub(crate) const fn new() -> Self {
        Self(AtomicPtr::new(null_mut()))
    }

    /// The whole cost of a visit in a program that is not profiled.
    #[inline]
    pub(crate) fn is_inactive(&self) -> bool {
        // Relaxed: nothing is read through the pointer here.
        self.0.load(Ordering::Relaxed) == INACTIVE
    }

    /// Adds one visit; the first one looks the counter up. Not inlined: call sites stay small.
    #[inline(never)]
    pub(crate) fn count(&self, kind: Kind, name: &'static CStr) {
        self.count_with((get_counter, visit), kind, name);
    }

    /// The same for work with a key; a runtime that knows nothing of keys counts it.
    #[inline(never)]
    pub(crate) fn count_key(&self, kind: Kind, name: &'static CStr, key: u64) {
        let Some(visit) = visit_key() else { return self.count(kind, name) };
        let counter = self.counter(get_counter, kind, name);
        if counter != INACTIVE {
            // SAFETY: as in `count_with`.
            unsafe { visit(counter, key) };
        }
    }

    /// The counter, or [`INACTIVE`]; the first call looks it up.
    fn counter(&self, lookup: fn() -> Option<GetCounter>, kind: Kind, name: &'static CStr) -> *mut Counter {
        // Acquire: pairs with the Release in `resolve`, so that what another thread saw of a fresh
        // counter is seen here too.
        let counter = self.0.load(Ordering::Acquire);
        if counter.is_null() { self.resolve(lookup(), kind, name) } else { counter }
    }

    fn count_with(&self, (lookup, visit): Runtime, kind: Kind, name: &'static CStr) {
        let counter = self.counter(lookup, kind, name);
        if counter != INACTIVE {
            match if kind == Kind::Throughput { None } else { visit() } {
                // SAFETY: neither null nor INACTIVE, so `resolve` stored what the runtime returned, which is
                // what the runtime's function expects.
                Some(visit) => unsafe { visit(counter) },
                None => {
                    // SAFETY: as above: a counter that lives as long as the process and is only ever used
                    // atomically.
                    let counter = unsafe { &*counter };
                    // Relaxed: a count publishes nothing but itself.
                    counter.count.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }

    /// Two threads may both get here; the runtime gives both the same answer.
    #[cold]
    fn resolve(&self, get_counter: Option<GetCounter>, kind: Kind, name: &'static CStr) -> *mut Counter {
        let counter = match get_counter {
            // SAFETY: the function has this type by contract, and `name` is static and ends in NUL.
            Some(get_counter) => unsafe { get_counter(kind as c_int, name.as_ptr()) },
            None => INACTIVE,
        };
        let counter = if counter.is_null() { INACTIVE } else { counter };
        // Release: pairs with the Acquire in `counter`.
        self.0.store(counter, Ordering::Release);
        counter
    }
}

/// The runtime's functions, if it has them.
type Runtime = (fn() -> Option<GetCounter>, fn() -> Option<Visit>);

fn get_counter() -> Option<GetCounter> {
    static FOUND: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
    let found = find(&FOUND, c"_coz_get_counter")?;
    // SAFETY: by contract a symbol with this name is such a function.
    Some(unsafe { transmute::<*mut c_void, GetCounter>(found) })
}

fn visit() -> Option<Visit> {
    static FOUND: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
    let found = find(&FOUND, c"_whatif_visit")?;
    // SAFETY: by contract a symbol with this name is such a function.
    Some(unsafe { transmute::<*mut c_void, Visit>(found) })
}

fn visit_key() -> Option<VisitKey> {
    static FOUND: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
    let found = find(&FOUND, c"_whatif_visit_key")?;
    // SAFETY: by contract a symbol with this name is such a function.
    Some(unsafe { transmute::<*mut c_void, VisitKey>(found) })
}

/// A function of the runtime, if one is loaded; looked up once per process.
///
/// `place` is null (not asked yet), `ABSENT`, or the function. Relaxed throughout: the code that it points to was
/// there before the program's first instruction.
fn find(place: &AtomicPtr<c_void>, name: &CStr) -> Option<*mut c_void> {
    const ABSENT: *mut c_void = without_provenance_mut(1);

    let mut found = place.load(Ordering::Relaxed);
    if found.is_null() {
        found = dlsym(RTLD_DEFAULT, name.as_ptr());
        if found.is_null() {
            found = ABSENT;
        }
        place.store(found, Ordering::Relaxed);
    }
    (found != ABSENT).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    static COUNTERS: [Counter; 4] =
        [const { Counter { count: AtomicUsize::new(0), _backoff: AtomicUsize::new(0) } }; 4];

    /// A runtime with room for the points called "known".
    unsafe extern "C" fn fake(kind: c_int, name: *const c_char) -> *mut Counter {
        // SAFETY: `resolve` passes a static C string.
        if unsafe { CStr::from_ptr(name) } != c"known" {
            return null_mut();
        }
        let counter: *const Counter = &COUNTERS[usize::try_from(kind).unwrap()];
        counter.cast_mut()
    }

    unsafe extern "C" fn fake_visit(counter: *const Counter) {
        // SAFETY: it is one of `COUNTERS`.
        unsafe { &*counter }.count.fetch_add(100, Ordering::Relaxed);
    }

    /// A runtime that only counts, as Coz's.
    const COUNTS: Runtime = (|| Some(fake), || None);

    fn visits(kind: Kind) -> usize {
        COUNTERS[kind as usize].count.load(Ordering::Relaxed)
    }

    #[test]
    fn without_a_runtime_a_point_becomes_inactive() {
        let slot = Slot::new();
        assert!(!slot.is_inactive());
        slot.count_with((|| None, || None), Kind::Throughput, c"known");
        assert!(slot.is_inactive());
        slot.count_with(COUNTS, Kind::Throughput, c"known");
        assert!(slot.is_inactive(), "the answer is final");
    }

    #[test]
    fn with_a_full_table_a_point_becomes_inactive() {
        let slot = Slot::new();
        slot.count_with(COUNTS, Kind::Throughput, c"one too many");
        assert!(slot.is_inactive());
    }

    #[test]
    fn visits_reach_the_counter_of_their_kind() {
        let (begin, end) = (Slot::new(), Slot::new());
        for _ in 0..3 {
            begin.count_with(COUNTS, Kind::Begin, c"known");
        }
        end.count_with(COUNTS, Kind::End, c"known");
        assert!(!begin.is_inactive());
        assert_eq!(visits(Kind::Begin), 3);
        assert_eq!(visits(Kind::End), 1);
        // A runtime that wants to know when.
        let stamps: Runtime = (|| Some(fake), || Some(fake_visit));
        end.count_with(stamps, Kind::End, c"known");
        assert_eq!(visits(Kind::End), 101);
        let throughput = Slot::new();
        throughput.count_with(stamps, Kind::Throughput, c"known");
        assert_eq!(visits(Kind::Throughput), 1, "only begin and end ask for it");
    }

    #[test]
    fn no_runtime_is_found_in_a_test() {
        assert!(get_counter().is_none() && visit().is_none() && visit_key().is_none());
        assert!(get_counter().is_none() && visit().is_none() && visit_key().is_none());
    }
}

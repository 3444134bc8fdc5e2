//! Progress points for Rust programs: where a program says "one more piece of work is done".
//!
//! ```
//! fn serve(requests: &[&str]) {
//!     for request in requests {
//!         whatif::scope!("request"); // latency: begins here, ends with the block
//!         if request.is_empty() {
//!             continue;
//!         }
//!         whatif::progress!("answer"); // throughput: visits per second
//!     }
//! }
//! # serve(&["a", ""]);
//! ```
//!
//! Then `whatif run -- ./program` finds out which code, were it faster, would make those visits
//! come sooner. In `sample → delay → experiment → record → profile → report` this crate supplies
//! what an experiment measures.
//!
//! # What it does
//!
//! [`progress!`], [`begin!`], [`end!`] and [`scope!`] place a [`Point`] in a static of their own at
//! each call site. Its first visit asks the profiler for a counter, later visits add one to it.
//!
//! # What it does not do
//!
//! * It does not link to the profiler: the preloaded runtime is found by name, at run time, and a
//!   program that is not profiled pays one relaxed load and one comparison per visit.
//! * It does not allocate, lock or start anything, and brings no dependency (`no_std`).
//! * It does nothing at all outside Linux and under Miri.
//!
//! # Constraints
//!
//! * The contract is one C function that the runtime exports:
//!   `_coz_get_counter(int kind, const char *name)` returns `{ size_t count; size_t backoff; } *`,
//!   the same pointer for the same kind and name for the life of the process, or null when its
//!   table is full. (Coz has the same one, so these points serve it as well.) A visit adds 1 to `count`; one to
//!   a begin or an end calls `_whatif_visit(counter)`, or `_whatif_visit_key(counter, key)` with a `uint64_t`,
//!   instead where there is such a function, which also notes when it was.
//! * `include/whatif.h` is this crate's counterpart for C and C++.
//!
//! # Safety
//!
//! Unsafe code is confined to the module `counter`: it calls `dlsym`, calls the function found, and
//! adds to the counter that it returned. The last two rely on the contract above; the address of a
//! symbol with that name is believed.

#![no_std]
#![deny(missing_docs)]

#[cfg(test)]
extern crate std;

#[cfg(all(target_os = "linux", not(miri)))]
mod counter;
mod point;

pub use point::{Point, Scope};

/// Marks the completion of one piece of work. The profiler counts visits and asks what would make
/// them more frequent.
///
/// Without a name the point is called `file:line` after its place in the source.
///
/// ```
/// whatif::progress!();
/// whatif::progress!("frame drawn");
/// ```
///
/// The name is a literal, and it contains no NUL:
///
/// ```compile_fail
/// whatif::progress!("nul\0nul");
/// ```
#[macro_export]
macro_rules! progress {
    () => {
        $crate::__visit!(new, concat!(file!(), ":", line!(), "\0"))
    };
    ($name:literal) => {
        $crate::__visit!(new, concat!($name, "\0"))
    };
}

/// Marks the beginning of one piece of work whose latency matters. Its [`end!`] has the same name.
///
/// Beginning and end may lie in different functions and on different threads: the number of
/// pieces of work in flight gives the mean latency (Little's law).
///
/// ```
/// whatif::begin!("request");
/// // …
/// whatif::end!("request");
/// ```
///
/// An integer that tells a piece of work from all others that are under way, in all processes of the program, gives percentiles as well. (Without one they are
/// known if the same thread ends each piece of work before it begins the next.)
///
/// ```
/// # let request = 7;
/// whatif::begin!("request", request);
/// // …
/// whatif::end!("request", request);
/// ```
#[macro_export]
macro_rules! begin {
    ($name:literal) => {
        $crate::__visit!(begin, concat!($name, "\0"))
    };
    ($name:literal, $key:expr $(,)?) => {
        $crate::__visit!(begin, concat!($name, "\0"), $key)
    };
}

/// Marks the end of one piece of work that [`begin!`] with the same name began.
#[macro_export]
macro_rules! end {
    ($name:literal) => {
        $crate::__visit!(end, concat!($name, "\0"))
    };
    ($name:literal, $key:expr $(,)?) => {
        $crate::__visit!(end, concat!($name, "\0"), $key)
    };
}

/// Begins a piece of work now and ends it when the enclosing block is left: by falling through, by
/// `return`, `break` or `?`, or by unwinding.
///
/// ```
/// fn parse(text: &str) -> Option<u32> {
///     whatif::scope!("parse");
///     let number = text.strip_prefix('#')?;
///     number.parse().ok()
/// }
/// # assert_eq!(parse("#7"), Some(7));
/// # assert_eq!(parse("7"), None);
/// ```
#[macro_export]
macro_rules! scope {
    ($name:literal) => {
        let _scope = {
            static BEGIN: $crate::Point = $crate::Point::begin($crate::__name!(concat!($name, "\0")));
            static END: $crate::Point = $crate::Point::end($crate::__name!(concat!($name, "\0")));
            $crate::Scope::enter(&BEGIN, &END)
        };
    };
}

/// A visit to a static point of the call site's own.
#[doc(hidden)]
#[macro_export]
macro_rules! __visit {
    ($kind:ident, $name:expr) => {{
        static POINT: $crate::Point = $crate::Point::$kind($crate::__name!($name));
        POINT.visit()
    }};
    ($kind:ident, $name:expr, $key:expr) => {{
        static POINT: $crate::Point = $crate::Point::$kind($crate::__name!($name));
        POINT.visit_key($key as u64)
    }};
}

/// A literal that ends in NUL as a `&'static CStr`, checked while compiling.
#[doc(hidden)]
#[macro_export]
macro_rules! __name {
    ($name:expr) => {
        const {
            match ::core::ffi::CStr::from_bytes_with_nul($name.as_bytes()) {
                Ok(name) => name,
                Err(_) => panic!("the name of a progress point must not contain NUL"),
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    fn leaves_early(early: bool) -> u32 {
        crate::scope!("early");
        crate::scope!("nested");
        if early {
            return 1;
        }
        2
    }

    /// No runtime is loaded into a unit test: the macros must compile to something harmless. What
    /// they count when one is loaded is tested by `targets/tests/points.rs`.
    #[test]
    fn unprofiled_macros_do_nothing() {
        for early in [true, false] {
            crate::progress!();
            crate::progress!("round");
            crate::begin!("request");
            crate::end!("request");
            crate::begin!("request", 7);
            crate::end!("request", 7);
            assert_eq!(leaves_early(early), if early { 1 } else { 2 });
        }
        let unwound = catch_unwind(|| {
            crate::scope!("unwind");
            panic!("on purpose");
        });
        assert!(unwound.is_err());
    }

    #[test]
    fn names_are_static_c_strings() {
        const NAME: &core::ffi::CStr = crate::__name!(concat!("a", ":", 7, "\0"));
        assert_eq!(NAME, c"a:7");
    }
}

//! The functions that ours stand in front of.
//!
//! `dlsym(RTLD_NEXT, …)` may allocate (and the allocator may lock a mutex, which is one of ours), takes
//! the loader's lock and sets `dlerror`. Reading the symbol tables of the loaded objects, in the loader's
//! order and from behind ourselves, gives the same answer and does none of that. The default version of a
//! symbol is taken, so condition variables get `GLIBC_2.3.2` and not the ones of 1998.
//!
//! All functions are looked up when the runtime attaches, in one go; one that is called earlier, by
//! another library's constructor, looks itself up.

use crate::call_stack;
use core::ffi::{CStr, c_char};
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The loader's list of objects (`link.h`).
#[repr(C)]
struct LinkMap {
    base: usize,
    name: *const c_char,
    dynamic: *const Dynamic,
    next: *const LinkMap,
    previous: *const LinkMap,
}

/// `struct r_debug`.
#[repr(C)]
struct Debug {
    version: i32,
    map: *const LinkMap,
}

/// `Elf64_Dyn`.
#[repr(C)]
struct Dynamic {
    tag: i64,
    value: usize,
}

/// `Elf64_Sym`.
#[repr(C)]
struct Symbol {
    name: u32,
    info: u8,
    other: u8,
    section: u16,
    value: usize,
    size: usize,
}

unsafe extern "C" {
    static _r_debug: Debug;
    static _DYNAMIC: Dynamic;
}

const STT_FUNC: u8 = 2;
const STT_OBJECT: u8 = 1;
const STT_GNU_IFUNC: u8 = 10;

/// A function of another object, found by name.
#[derive(Debug)]
#[repr(C)]
pub struct Function {
    address: AtomicUsize,
    name: &'static CStr,
    /// One that makes the system call, for those that a program makes by itself: zero in programs that make none, or have no other.
    plain: AtomicUsize,
    /// The address, where there is a plain one besides.
    other: AtomicUsize,
}

/// The address of a function that has not been looked for.
const UNKNOWN: usize = 0;
/// The address of a function that no object has.
const MISSING: usize = 1;
/// The address of a function with a plain one besides.
const EITHER: usize = 2;

impl Function {
    pub const fn new(name: &'static CStr) -> Self {
        Self {
            address: AtomicUsize::new(UNKNOWN),
            name,
            plain: AtomicUsize::new(0),
            other: AtomicUsize::new(UNKNOWN),
        }
    }

    /// The address of the real function; `None` where the C library has none of that name.
    #[inline]
    pub fn address(&self) -> Option<usize> {
        match self.address.load(Relaxed) {
            special @ ..=EITHER => self.special(special),
            address => Some(address),
        }
    }

    /// The function as a pointer of type `F`.
    ///
    /// # Safety
    /// `F` must be the type of a function pointer with the prototype of the function.
    #[inline]
    pub unsafe fn get<F: Copy>(&self) -> Option<F> {
        const { assert!(size_of::<F>() == size_of::<usize>()) };
        // SAFETY: an address of a function, as long as a pointer to one; the caller vouches for the type.
        self.address().map(|address| unsafe { core::mem::transmute_copy(&address) })
    }

    /// Where there is a plain one, the address makes room for [`EITHER`]: once, because what prepares a program may be repeated.
    fn keep_both(&self) {
        let address = self.address.load(Relaxed);
        if self.plain.load(Relaxed) != 0 && address != EITHER {
            self.other.store(address, Relaxed);
            self.address.store(EITHER, Relaxed);
        }
    }

    #[cold]
    fn special(&self, address: usize) -> Option<usize> {
        match address {
            UNKNOWN => {
                let address = next(self.name);
                self.address.store(address.unwrap_or(MISSING), Relaxed);
                address
            }
            MISSING => None,
            _ if call_stack::is_here() => Some(self.plain.load(Relaxed)),
            _ => Some(self.other.load(Relaxed)).filter(|other| *other != MISSING),
        }
    }
}

/// Declares the real function behind an interposed one: `real!(name: fn(…) -> …)` is an
/// `Option<unsafe extern "C" fn(…) -> …>`.
macro_rules! real {
    ($name:ident : fn($($type:ty),* $(,)?) $(-> $result:ty)?) => {{
        #[used]
        #[unsafe(link_section = "whatif_real")]
        static REAL: $crate::real::Function = $crate::real::Function::new(
            // SAFETY: `stringify!` has no NUL, and one is appended.
            unsafe { ::core::ffi::CStr::from_bytes_with_nul_unchecked(concat!(stringify!($name), "\0").as_bytes()) },
        );
        #[allow(unused_unsafe)] // some callers are unsafe blocks themselves
        // SAFETY: the declaration repeats the prototype in the C library's headers.
        let function = unsafe { REAL.get::<unsafe extern "C" fn($($type),*) $(-> $result)?>() };
        function
    }};
}
pub(crate) use real;

/// Looks up every function that was declared with [`real!`].
pub fn find_all() {
    unsafe extern "C" {
        #[link_name = "__start_whatif_real"]
        static START: u8;
        #[link_name = "__stop_whatif_real"]
        static STOP: u8;
    }
    // SAFETY: as in `next`.
    let objects = unsafe { Objects::from(behind_us()) };
    let mut function = (&raw const START).cast::<Function>();
    while function < (&raw const STOP).cast() {
        // SAFETY: the linker puts all statics of the section, and nothing else, between the two symbols.
        let found = unsafe { &*function };
        if found.address.load(Relaxed) == UNKNOWN {
            // SAFETY: the objects are loaded.
            let address = unsafe { objects.find(&Name::new(found.name)) };
            found.address.store(address.unwrap_or(MISSING), Relaxed);
        }
        found.keep_both();
        // SAFETY: at most one behind the last.
        function = unsafe { function.add(1) };
    }
}

/// The objects behind this library, in the loader's order.
///
/// # Safety
/// The loader must have filled in its structures.
unsafe fn behind_us() -> *const LinkMap {
    // SAFETY: the caller vouches for the structures, which are only read. `_DYNAMIC` is this library's own.
    unsafe {
        let mut map = _r_debug.map;
        while !map.is_null() && (*map).dynamic != &raw const _DYNAMIC {
            map = (*map).next;
        }
        // The loader does not know us in a program that has run before: then all objects are behind us.
        if map.is_null() { _r_debug.map } else { (*map).next }
    }
}

/// The first function or object of that name in the objects behind this library.
fn next(name: &CStr) -> Option<usize> {
    // SAFETY: the loader has filled in its own structures before any code of this library runs.
    unsafe { first_from(behind_us(), &Name::new(name)) }
}

/// The first function or object of that name in any object: what the program itself would find.
pub fn first(name: &CStr) -> Option<usize> {
    // SAFETY: as in `next`.
    unsafe { first_from(_r_debug.map, &Name::new(name)) }
}

/// # Safety
/// `map` must be null or an element of the loader's list.
unsafe fn first_from(mut map: *const LinkMap, name: &Name) -> Option<usize> {
    while !map.is_null() {
        // SAFETY: an element of the list, whose dynamic section the loader has mapped.
        unsafe {
            if let Some(address) = Object::of(&*map).and_then(|object| object.find(name)) {
                return Some(address);
            }
            map = (*map).next;
        }
    }
    None
}

/// A name to look for, with its hashes.
struct Name<'a> {
    text: &'a CStr,
    gnu_hash: u32,
}

impl<'a> Name<'a> {
    fn new(text: &'a CStr) -> Self {
        let hash = |hash: u32, byte: &u8| hash.wrapping_mul(33).wrapping_add(u32::from(*byte));
        Self { text, gnu_hash: text.to_bytes().iter().fold(5381, hash) }
    }
}

/// The first objects of the loader's list, read once for many names.
struct Objects {
    first: [Option<Object>; Self::MOST],
    rest: *const LinkMap,
}

impl Objects {
    const MOST: usize = 32;

    /// # Safety
    /// `map` must be null or an element of the loader's list.
    unsafe fn from(mut map: *const LinkMap) -> Self {
        let mut first = [const { None }; Self::MOST];
        for object in &mut first {
            if map.is_null() {
                break;
            }
            // SAFETY: an element of the list, whose dynamic section the loader has mapped.
            unsafe {
                *object = Object::of(&*map);
                map = (*map).next;
            }
        }
        Self { first, rest: map }
    }

    /// # Safety
    /// The objects must still be loaded.
    unsafe fn find(&self, name: &Name) -> Option<usize> {
        // SAFETY: the caller vouches for the objects.
        unsafe {
            let found = self.first.iter().flatten().find_map(|object| object.find(name));
            found.or_else(|| first_from(self.rest, name))
        }
    }
}

/// The symbol table of one object.
struct Object {
    base: usize,
    symbols: *const Symbol,
    strings: *const c_char,
    gnu_hash: *const u32,
    hash: *const u32,
    versions: *const u16,
}

impl Object {
    /// # Safety
    /// `map` must describe a loaded object.
    unsafe fn of(map: &LinkMap) -> Option<Self> {
        let mut object = Self {
            base: map.base,
            symbols: core::ptr::null(),
            strings: core::ptr::null(),
            gnu_hash: core::ptr::null(),
            hash: core::ptr::null(),
            versions: core::ptr::null(),
        };
        let mut entry = map.dynamic;
        if entry.is_null() {
            return None;
        }
        // SAFETY: the section ends with a DT_NULL entry.
        unsafe {
            while (*entry).tag != 0 {
                // glibc relocates these in place, except in objects whose dynamic section is read-only.
                let value = (*entry).value;
                let address = if value < map.base { value + map.base } else { value };
                match (*entry).tag {
                    4 => object.hash = address as *const u32,
                    5 => object.strings = address as *const c_char,
                    6 => object.symbols = address as *const Symbol,
                    0x6fff_fef5 => object.gnu_hash = address as *const u32,
                    0x6fff_fff0 => object.versions = address as *const u16,
                    _ => {}
                }
                entry = entry.add(1);
            }
        }
        let complete = !object.symbols.is_null() && !object.strings.is_null();
        complete.then_some(object)
    }

    /// # Safety
    /// The tables must be those of a loaded object.
    unsafe fn find(&self, name: &Name) -> Option<usize> {
        // SAFETY: see above; the walks stay inside the chains that the linker wrote.
        unsafe {
            if !self.gnu_hash.is_null() {
                self.find_by_gnu_hash(name)
            } else if !self.hash.is_null() {
                self.find_by_hash(name.text)
            } else {
                None
            }
        }
    }

    /// The GNU hash table: bucket count, first symbol, filter words, shift, filter, buckets, chains.
    ///
    /// # Safety
    /// As for [`find`](Self::find).
    unsafe fn find_by_gnu_hash(&self, name: &Name) -> Option<usize> {
        let wanted = name.gnu_hash;
        // SAFETY: the layout is fixed by the ABI.
        unsafe {
            let [buckets, first, filter, shift] = *self.gnu_hash.cast::<[u32; 4]>();
            if buckets == 0 || filter == 0 {
                return None;
            }
            // The filter has two bits for each name that is there.
            let word = *self.gnu_hash.add(4).cast::<u64>().add((wanted / 64 % filter) as usize);
            let bits = 1 << (wanted % 64) | 1 << (wanted.checked_shr(shift).unwrap_or(0) % 64);
            if word & bits != bits {
                return None;
            }
            let bucket_table = self.gnu_hash.add(4 + 2 * filter as usize);
            let chains = bucket_table.add(buckets as usize);
            let mut index = *bucket_table.add((wanted % buckets) as usize);
            if index < first {
                return None;
            }
            loop {
                let hash = *chains.add((index - first) as usize);
                if hash | 1 == wanted | 1
                    && let Some(address) = self.matching(index as usize, name.text)
                {
                    return Some(address);
                }
                if hash & 1 == 1 {
                    return None;
                }
                index += 1;
            }
        }
    }

    /// The System V hash table: bucket count, chain count, buckets, chains.
    ///
    /// # Safety
    /// As for [`find`](Self::find).
    unsafe fn find_by_hash(&self, name: &CStr) -> Option<usize> {
        let wanted = name.to_bytes().iter().fold(0_u32, |hash, byte| {
            let hash = (hash << 4).wrapping_add(u32::from(*byte));
            let high = hash & 0xf000_0000;
            (hash ^ (high >> 24)) & !high
        });
        // SAFETY: the layout is fixed by the ABI.
        unsafe {
            let buckets = *self.hash;
            if buckets == 0 {
                return None;
            }
            let mut index = *self.hash.add(2 + (wanted % buckets) as usize);
            while index != 0 {
                if let Some(address) = self.matching(index as usize, name) {
                    return Some(address);
                }
                index = *self.hash.add(2 + (buckets + index) as usize);
            }
        }
        None
    }

    /// The address of a symbol, if it is a definition of `name` in its default version.
    ///
    /// # Safety
    /// `index` must be an index into the symbol table.
    unsafe fn matching(&self, index: usize, name: &CStr) -> Option<usize> {
        const HIDDEN: u16 = 0x8000;
        // SAFETY: the table has `index`; names lie in the string table and are NUL-terminated.
        unsafe {
            let symbol = &*self.symbols.add(index);
            let kind = symbol.info & 0xf;
            let defined = symbol.section != 0
                && symbol.value != 0
                && matches!(kind, STT_FUNC | STT_OBJECT | STT_GNU_IFUNC);
            if !defined || CStr::from_ptr(self.strings.add(symbol.name as usize)) != name {
                return None;
            }
            if !self.versions.is_null() && *self.versions.add(index) & HIDDEN != 0 {
                return None;
            }
            let address = self.base + symbol.value;
            if kind == STT_GNU_IFUNC {
                let resolve = core::mem::transmute::<usize, extern "C" fn() -> usize>(address);
                return Some(resolve());
            }
            Some(address)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_with_a_plain_one_keeps_its_address_however_often_it_is_prepared() {
        let function = Function::new(c"read");
        function.address.store(4096, Relaxed);
        function.keep_both();
        assert_eq!(function.address(), Some(4096));
        function.plain.store(8192, Relaxed);
        for _ in 0..2 {
            function.keep_both();
            assert_eq!(function.address(), Some(4096));
        }
    }
}

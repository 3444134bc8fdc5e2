//! From an address in an ELF file to the code a person wrote: function, line, inlined frames,
//! and whether that code is in scope.
//!
//! In "sample → delay → experiment → record → profile → report" this is what turns the *sample*'s
//! instruction pointer into a line that an *experiment* can be about, and the *report* into words.
//!
//! # What it does
//!
//! * [`Image`]: one executable or shared library with its debug information, wherever that is (in
//!   the file, in `/usr/lib/debug`, behind a debug link, in `.dwo`/`.dwp` files).
//! * [`Image::segments`]: an out-of-line function cut into the maximal ranges that share their
//!   frames, which is what the controller hands to the runtime as a region.
//! * [`FunctionName`]: demangled names, and a [`base`](FunctionName::base) that all instances of a
//!   generic share.
//! * [`Scope`]: which source files are the user's own.
//! * [`FunctionList`]: all functions of a file, for those who keep names.
//! * [`Kallsyms`], [`JitMap`]: the names that the kernel says of its own code, and runtimes of the code that they generate.
//! * [`inspect`]: what a launcher must know about a program before it runs it.
//!
//! # What it does not do
//!
//! It does not walk stacks ([`Image::unwind_rules`] says how to), does not look at processes (give [`Image::bias`] what `/proc/<pid>/maps`
//! says), and never writes to disk or to the network.
//!
//! # Constraints
//!
//! * Opening is cheap: headers only. Debug information is read when first asked for, one
//!   compilation unit at a time, and what was understood is kept.
//! * Files are *read*, not mapped: a build that replaces a binary while it is being profiled must
//!   not kill the controller with `SIGBUS`, and `unsafe_code` stays forbidden.
//! * Debug information is untrusted. Damage gives fewer frames (and [`Image::damage`]), never a
//!   panic (the workspace aborts on panic), unbounded recursion or an endless loop. Malice costs little: packed sections share
//!   256 MB in all (`unpacking`), and what is done and kept is bounded by the size of the debug information (`allowance`).
//! * `addr2line` answers "which frames has this address", not "where do the frames change", and
//!   it follows inlined subroutines recursively; so the walk over `gimli` is our own.
//! * Everything is `Send + Sync`; lookups take `&self`.

#![forbid(unsafe_code)]

mod address;
mod alias;
mod allowance;
mod base_name;
mod caller_lookup;
mod catalogue;
mod debug_file;
mod debug_info;
pub mod debuginfod;
mod demangle;
mod die_name;
mod elf;
mod entries;
mod error;
mod executable;
mod exports;
mod function_list;
mod function_name;
mod go_table;
mod identity;
mod image;
mod inline_tree;
mod jit;
mod kallsyms;
mod line_table;
mod path;
mod probes;
mod range_index;
pub mod references;
mod scope;
mod search;
mod section;
mod segment;
mod snippet;
mod stubs;
mod subprograms;
mod suggestion;
mod symbol_table;
mod unpacking;
mod unwind;
mod vdso;

pub use address::{FileOffset, Load, Svma};
pub use caller_lookup::{CallerLookup, FunctionCallers};
pub use catalogue::LineLookup;
pub use debug_file::{DebugFilePath, debug_file_paths, hex, linked_debug_files};
pub use elf::build_id_of_notes;
pub use error::{ImageError, ScopeError};
pub use executable::{Class, ElfProgram, Executable, Linking, Machine, inspect};
pub use exports::PythonExports;
pub use function_list::{FunctionList, ListEnd, TakesFunctions};
pub use function_name::FunctionName;
pub use identity::is_content_identity;
pub use image::Image;
pub use jit::{JitDump, JitMap};
pub use kallsyms::Kallsyms;
pub use path::file_matches;
pub use probes::Probe;
pub use scope::{Scope, ScopeOptions};
pub use segment::{Frame, Segment};
pub use snippet::snippet;
pub use suggestion::nearest_names;
pub use symbol_table::Source as NameSource;
pub use unwind::{Caller, UnwindRule, UnwindWord};
pub use vdso::VdsoFunctions;

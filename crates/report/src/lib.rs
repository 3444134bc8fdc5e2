//! A profile, for those who want to know.
//!
//! **Does:** show a [`Profile`](profile::Profile) in a terminal ([`terminal`]), as JSON for programs
//! ([`json`]), as a page for browsers ([`html`]), as tables for spreadsheets ([`csv`]) and pull requests
//! ([`markdown`]), and in the formats of other tools: the two that Coz's viewer reads ([`coz`]), [`pprof`]'s, Firefox
//! Profiler's ([`firefox`]), and the lines that flame graphs are made of ([`folded`]). The same for what was asked of a
//! database of continuous profiles ([`cycles`]).
//!
//! **Does not:** estimate (that is `profile`'s), print, or look at the terminal: every function here
//! takes a profile and returns what there is to write.
//!
//! **Constraints:** no unsafe code. Names come from other people's programs: no name can end a line,
//! add a field, move the cursor or make JSON invalid.
//!
//! **Place:** sample → delay → experiment → record → profile → **report**.
#![forbid(unsafe_code)]

pub mod coz;
pub mod csv;
pub mod cycles;
pub mod firefox;
pub mod folded;
pub mod html;
pub mod json;
pub mod markdown;
pub mod pprof;
mod stacks;
pub mod terminal;

//! A profile, for those who want to know.
//!
//! **Does:** show a [`Profile`](profile::Profile) in a terminal ([`terminal`]), as JSON for programs
//! ([`json`]), as a page for browsers ([`html`]), and in the two formats that Coz's viewer reads ([`coz`]).
//!
//! **Does not:** estimate (that is `profile`'s), print, or look at the terminal: every function here
//! takes a profile and returns text.
//!
//! **Constraints:** no unsafe code. Names come from other people's programs: no name can end a line,
//! add a field, move the cursor or make JSON invalid.
//!
//! **Place:** sample → delay → experiment → record → profile → **report**.
#![forbid(unsafe_code)]

pub mod coz;
pub mod html;
pub mod json;
pub mod terminal;

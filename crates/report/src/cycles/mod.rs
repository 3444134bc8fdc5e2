//! Where the cycles go: answers from a database of continuous profiles.
//!
//! **Does:** draw tables for a terminal, write JSON, a flame graph as a page, folded stacks, pprof's and OTLP's formats.
//!
//! **Does not:** query, name or estimate: that is what the crate `cycles` does, whose answers are drawn here.
//!
//! **Constraints:** as everywhere in this crate, names are hostile. Every answer begins with what was asked, and ends with how many samples
//! there should be and what became of them ([`Heading`](cycles::Heading)).
//!
//! **Place:** sample → record → profile → **report**.

mod annotation;
mod conditions;
mod difference;
mod epochs;
mod flame;
mod folded;
mod grid;
mod heading;
mod history;
mod listing;
mod otlp;
pub mod otlp_message;
mod pprof;
mod quantity;
mod top;
mod unknown;
mod variation;
mod worth;

pub use flame::{comparison, flame_line, page};
pub use folded::folded;
pub use otlp::otlp;
pub use pprof::pprof;

use crate::terminal::Style;
use serde::Serialize;

/// The version of the JSON below.
pub const VERSION: u32 = 1;

/// An answer, for people and for programs.
pub trait Answer: Serialize {
    /// What it is called in JSON.
    const KIND: &'static str;

    /// For a terminal. Ends with a newline.
    fn draw(&self, style: Style) -> String;

    /// As one JSON object (docs/json.md), indented, with a newline at its end.
    fn json(&self) -> String
    where
        Self: Sized,
    {
        #[derive(Serialize)]
        struct Whole<'a, T> {
            version: u32,
            kind: &'static str,
            #[serde(flatten)]
            answer: &'a T,
        }
        crate::json::text_of(&Whole { version: VERSION, kind: Self::KIND, answer: self })
    }
}

/// An answer as one JSON object in one line, with its version and kind: for the page of a database.
pub fn line(kind: &'static str, answer: &impl Serialize) -> String {
    #[derive(Serialize)]
    struct Line<'a, T> {
        version: u32,
        kind: &'static str,
        #[serde(flatten)]
        answer: &'a T,
    }
    crate::json::line_of(&Line { version: VERSION, kind, answer })
}

/// Nothing is drawn for fewer columns.
fn at_least(style: Style) -> Style {
    Style { width: style.width.max(60), ..style }
}

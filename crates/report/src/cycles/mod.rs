//! Where the cycles go: answers from a database of continuous profiles.
//!
//! **Does:** draw tables for a terminal, write JSON, a flame graph as a page, folded stacks, pprof's and OTLP's formats.
//!
//! **Does not:** query, name or estimate: the models here are filled by `whatif`.
//!
//! **Constraints:** as everywhere in this crate, names are hostile. Every answer begins with a [`Heading`]: how many samples
//! there should be, and what became of them.
//!
//! **Place:** sample → record → profile → **report**.

mod annotation;
mod difference;
mod epochs;
mod flame;
mod folded;
mod grid;
mod heading;
mod listing;
mod otlp;
pub mod otlp_message;
mod pprof;
mod quantity;
mod stacks;
mod top;
mod unknown;
mod variation;
mod worth;

pub use annotation::{Annotation, Code, Instruction};
pub use difference::{Change, Difference, Side};
pub use epochs::{EpochRow, Epochs};
pub use flame::page;
pub use folded::folded;
pub use heading::{Books, Heading, Note};
pub use listing::{Listing, Source, SourceLine};
pub use otlp::otlp;
pub use pprof::pprof;
pub use quantity::Share;
pub use stacks::{Flame, FlameBox, ImageName, Line, Name, Place, StackNode, Stacks};
pub use top::{Row, Top};
pub use unknown::{Unknown, UnknownRow};
pub use variation::{Part, Variation, Varying};
pub use worth::Worth;

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

/// Nothing is drawn for fewer columns.
fn at_least(style: Style) -> Style {
    Style { width: style.width.max(60), ..style }
}

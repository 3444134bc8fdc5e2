//! A function's source, with counts.

use super::grid::{self, Cells, Set};
use super::heading::{Heading, lines};
use super::quantity::{count, percent};
use super::worth::Worth;
use super::{Answer, at_least};
use crate::terminal::Style;
use crate::terminal::paint::Colour;
use profile::printable;
use serde::Serialize;

/// A function wherever it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Listing {
    /// What was asked.
    pub heading: Heading,
    /// The function.
    pub function: String,
    /// Its sources: one for each image and file that it is in.
    pub sources: Vec<Source>,
}

/// A piece of a source file.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Source {
    /// The image.
    pub image: String,
    /// The image's build ID, or nothing.
    pub build_id: String,
    /// The source file, as the debug information spells it; empty where there is none.
    pub file: String,
    /// Why there is no text, or why it may be that of other code.
    pub doubt: Option<String>,
    /// Samples of the function itself here, without what was inlined into it.
    pub samples: u64,
    /// Samples of the function and of what it calls.
    pub total: u64,
    /// What making the function faster is worth.
    pub worth: Option<Worth>,
    /// Lines, ascending.
    pub lines: Vec<SourceLine>,
}

/// A line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SourceLine {
    /// Its number; zero for code of no line.
    pub line: u32,
    /// Samples in it.
    pub samples: u64,
    /// Samples in it and in what it calls.
    pub total: u64,
    /// What is written there; `null` where it is unknown.
    pub text: Option<String>,
}

impl Answer for Listing {
    const KIND: &'static str = "list";

    fn draw(&self, style: Style) -> String {
        let style = at_least(style);
        let mut out = String::new();
        self.heading.draw(&mut out, style);
        let of = |samples: u64| samples as f64 / self.heading.samples.max(1) as f64;
        for source in &self.sources {
            let title = format!(
                "{} in {}: {} self, {} with all it calls",
                self.function,
                source.image,
                percent(of(source.samples)),
                percent(of(source.total))
            );
            lines(&mut out, style, Colour::Bold, "", &printable(&title));
            if let Some(worth) = &source.worth {
                worth.draw(&mut out, style);
            }
            if !source.file.is_empty() {
                lines(&mut out, style, Colour::Plain, "", &printable(&source.file));
            }
            if let Some(doubt) = &source.doubt {
                lines(&mut out, style, Colour::Yellow, "! ", &printable(doubt));
            }
            let most = source.lines.iter().map(|line| line.samples).max().unwrap_or(0);
            let cells = |line: &SourceLine| {
                let hot = line.samples > 0 && line.samples * 5 >= most;
                let number = |n: u64| if n == 0 { String::new() } else { count(n) };
                let share = if line.samples == 0 { String::new() } else { percent(of(line.samples)) };
                let text = line.text.as_deref().map_or_else(String::new, |text| text.replace('\t', "    "));
                let cells = vec![
                    share,
                    number(line.samples),
                    number(line.total),
                    if line.line == 0 { "–".to_owned() } else { line.line.to_string() },
                    printable(&text).into_owned(),
                ];
                Cells(cells, if hot { Colour::Yellow } else { Colour::Plain })
            };
            let columns = [
                ("self", Set::Right),
                ("samples", Set::Right),
                ("with calls", Set::Right),
                ("line", Set::Right),
                ("source", Set::Left),
            ];
            grid::draw(&mut out, style, &columns, &source.lines.iter().map(cells).collect::<Vec<_>>());
            out.push('\n');
        }
        out
    }
}

//! A function's instructions, with counts.

use super::heading::{Heading, lines};
use super::quantity::{count, percent};
use super::worth::Worth;
use super::{Answer, at_least};
use crate::terminal::Style;
use crate::terminal::paint::{Colour, paint};
use profile::printable;
use serde::Serialize;

/// So many instructions without samples in a row are left out, but for the outer ones.
const LONG: usize = 12;
/// Those that stay on each side.
const STAY: usize = 4;

/// A function wherever it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Annotation {
    /// What was asked.
    pub heading: Heading,
    /// The function.
    pub function: String,
    /// Its code: a piece for each place it is at.
    pub code: Vec<Code>,
    /// Whether long stretches without samples are drawn, too.
    pub all: bool,
}

/// A piece of code.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Code {
    /// The image.
    pub image: String,
    /// The image's build ID, or nothing.
    pub build_id: String,
    /// The function's full name.
    pub name: String,
    /// Samples in it.
    pub samples: u64,
    /// What making the function faster is worth.
    pub worth: Option<Worth>,
    /// Its instructions, ascending; none where they cannot be read.
    pub instructions: Vec<Instruction>,
    /// Why there are none.
    pub doubt: Option<String>,
}

/// An instruction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Instruction {
    /// Its address, as the file states it.
    pub address: u64,
    /// Samples in it.
    pub samples: u64,
    /// In assembler.
    pub text: String,
    /// The function that it is of, if that was inlined.
    pub inlined: Option<String>,
    /// The source file.
    pub file: Option<String>,
    /// The line in the source file.
    pub line: Option<u32>,
    /// What is written on that line.
    pub source: Option<String>,
}

impl Answer for Annotation {
    const KIND: &'static str = "annotate";

    fn draw(&self, style: Style) -> String {
        let style = at_least(style);
        let mut out = String::new();
        self.heading.draw(&mut out, style);
        for code in &self.code {
            let share = code.samples as f64 / self.heading.samples.max(1) as f64;
            let title = format!(
                "{} in {}: {} samples, {}",
                code.name,
                code.image,
                count(code.samples),
                percent(share)
            );
            lines(&mut out, style, Colour::Bold, "", &printable(&title));
            if let Some(worth) = &code.worth {
                worth.draw(&mut out, style);
            }
            if let Some(doubt) = &code.doubt {
                lines(&mut out, style, Colour::Yellow, "! ", &printable(doubt));
            }
            self.draw_code(&mut out, code, style);
            out.push('\n');
        }
        out
    }
}

impl Annotation {
    fn draw_code(&self, out: &mut String, code: &Code, style: Style) {
        let most = code.instructions.iter().map(|instruction| instruction.samples).max().unwrap_or(0);
        let mut before: Option<(&Option<String>, Option<u32>)> = None;
        for run in code.instructions.chunk_by(|a, b| a.samples == 0 && b.samples == 0) {
            let hidden = if self.all || run.len() < LONG { 0..0 } else { STAY..run.len() - STAY };
            for (nth, instruction) in run.iter().enumerate() {
                if hidden.contains(&nth) {
                    if nth == hidden.start {
                        let text =
                            format!("{:>17}… {} instructions without samples (--all)", "", hidden.len());
                        out.push_str(&paint(style, Colour::Dim, &text));
                        out.push('\n');
                    }
                    continue;
                }
                let place = (&instruction.file, instruction.line);
                if before != Some(place)
                    && let Some(line) = instruction.line
                {
                    let file = instruction.file.as_deref().map_or("?", super::top::short);
                    let inlined =
                        instruction.inlined.as_deref().map_or_else(String::new, |name| format!(" {name}"));
                    let source = instruction.source.as_deref().unwrap_or_default().trim();
                    let text = format!("{:>17}; {file}:{line}{inlined}  {source}", "");
                    out.push_str(&paint(style, Colour::Dim, printable(&text).trim_end()));
                    out.push('\n');
                }
                before = Some(place);
                let samples = instruction.samples;
                let (share, number) = match samples {
                    0 => (String::new(), String::new()),
                    n => (percent(n as f64 / code.samples.max(1) as f64), count(n)),
                };
                let colour = if samples > 0 && samples * 5 >= most { Colour::Yellow } else { Colour::Plain };
                let text = format!(
                    "{share:>8} {number:>7}  {:>8x}  {}",
                    instruction.address,
                    printable(&instruction.text.replace('\t', " "))
                );
                out.push_str(&paint(style, colour, text.trim_end()));
                out.push('\n');
            }
        }
    }
}

//! A function's instructions, with counts.

use super::heading::{self, WHOLE, lines};
use super::quantity::{count, percent};
use super::worth;
use super::{Answer, at_least};
use crate::terminal::Style;
use crate::terminal::paint::{Colour, paint};
use cycles::{Annotation, Code};
use profile::printable;

/// So many instructions without samples in a row are left out, but for the outer ones.
const LONG: usize = 12;
/// Those that stay on each side.
const STAY: usize = 4;

impl Answer for Annotation {
    const KIND: &'static str = "annotate";

    fn draw(&self, style: Style) -> String {
        let style = at_least(style);
        let mut out = String::new();
        heading::draw_title(&self.heading, &mut out, style);
        for (nth, code) in self.code.iter().enumerate() {
            if nth > 0 {
                out.push('\n');
            }
            let title = format!(
                "{} in {}: {} self, {} in this code",
                code.name,
                code.image,
                percent(share(self, code.own)),
                percent(share(self, code.samples))
            );
            lines(&mut out, style, Colour::Bold, "", &printable(&title));
            if let Some(worth) = &code.worth {
                worth::draw(worth, &mut out, style);
            }
            if let Some(doubt) = &code.doubt {
                lines(&mut out, style, Colour::Yellow, "! ", &printable(doubt));
            }
            draw_code(self, &mut out, code, style);
        }
        heading::draw_below(&self.heading, WHOLE, &mut out, style);
        out
    }
}

/// Of the samples of the whole answer.
fn share(annotation: &Annotation, samples: u64) -> f64 {
    samples as f64 / annotation.heading.samples.max(1) as f64
}

fn draw_code(annotation: &Annotation, out: &mut String, code: &Code, style: Style) {
    let most = code.instructions.iter().map(|instruction| instruction.samples).max().unwrap_or(0);
    let head = format!("{:>8} {:>7}  {:>8}  instruction", "self", "samples", "address");
    if most > 0 {
        out.push_str(&paint(style, Colour::Dim, &head));
        out.push('\n');
    }
    let mut before: Option<(&Option<String>, Option<u32>)> = None;
    for run in code.instructions.chunk_by(|a, b| a.samples == 0 && b.samples == 0) {
        let hidden = if annotation.all || run.len() < LONG { 0..0 } else { STAY..run.len() - STAY };
        for (nth, instruction) in run.iter().enumerate() {
            if hidden.contains(&nth) {
                if nth == hidden.start {
                    let text = format!("{:>17}… {} instructions without samples (--all)", "", hidden.len());
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
            let (part, number) = match samples {
                0 => (String::new(), String::new()),
                n => (percent(share(annotation, n)), count(n)),
            };
            let colour = if samples > 0 && samples * 5 >= most { Colour::Yellow } else { Colour::Plain };
            let text = format!(
                "{part:>8} {number:>7}  {:>8x}  {}",
                instruction.address,
                printable(&instruction.text.replace('\t', " "))
            );
            out.push_str(&paint(style, colour, text.trim_end()));
            out.push('\n');
        }
    }
}

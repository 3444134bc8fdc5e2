//! A function's source, with counts.

use super::grid::{self, Cells, Set};
use super::heading::{self, WHOLE, lines};
use super::quantity::{count, percent};
use super::worth;
use super::{Answer, at_least};
use crate::terminal::Style;
use crate::terminal::paint::Colour;
use cycles::{Listing, SourceLine};
use profile::printable;

impl Answer for Listing {
    const KIND: &'static str = "list";

    fn draw(&self, style: Style) -> String {
        let style = at_least(style);
        let mut out = String::new();
        heading::draw_title(&self.heading, &mut out, style);
        let of = |samples: u64| samples as f64 / self.heading.samples.max(1) as f64;
        for (nth, source) in self.sources.iter().enumerate() {
            if nth > 0 {
                out.push('\n');
            }
            let title = format!(
                "{} in {}: {} self, {} with all it calls",
                self.function,
                source.image,
                percent(of(source.samples)),
                percent(of(source.total))
            );
            lines(&mut out, style, Colour::Bold, "", &printable(&title));
            if let Some(worth) = &source.worth {
                worth::draw(worth, &mut out, style);
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
        }
        heading::draw_below(&self.heading, WHOLE, &mut out, style);
        out
    }
}

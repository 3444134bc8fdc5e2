//! What happened to a collector.

use super::heading::lines;
use super::{Answer, at_least};
use crate::terminal::Style;
use crate::terminal::paint::Colour;
use cycles::History;
use profile::printable;
use std::collections::BTreeSet;

impl Answer for History {
    const KIND: &'static str = "history";

    fn draw(&self, style: Style) -> String {
        let style = at_least(style);
        let mut out = String::new();
        let machines: BTreeSet<&str> = self.rows.iter().map(|row| row.machine.as_str()).collect();
        for row in &self.rows {
            let colour = match row.kind {
                "gap" | "lost" | "full" | "killed" | "missed" | "books" => Colour::Yellow,
                _ => Colour::Plain,
            };
            let machine = if machines.len() > 1 { format!("{}: ", row.machine) } else { String::new() };
            let text = printable(&format!("{machine}{}", row.message)).into_owned();
            lines(&mut out, style, colour, &format!("{}  ", row.time), &text);
        }
        if self.rows.is_empty() {
            out.push_str("nothing happened in that time; give an earlier one with --since 30d\n");
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cycles::HistoryRow;

    #[test]
    fn each_row_begins_with_its_time() {
        let row = |at, kind, message: &str| HistoryRow {
            at,
            time: format!("2026-11-22 14:00:0{at}"),
            kind,
            message: message.to_owned(),
            ..HistoryRow::default()
        };
        let rows = vec![
            row(1, "epoch", "epoch 1 (a\u{1b}[2J) began"),
            row(2, "gap", "nothing was collected for 45 s"),
        ];
        let text = History { rows, ..History::default() }.draw(Style { width: 80, ..Style::default() });
        assert!(text.starts_with("2026-11-22 14:00:01  epoch 1") && !text.contains('\u{1b}'), "{text}");
        assert!(text.ends_with("2026-11-22 14:00:02  nothing was collected for 45 s\n"), "{text}");
        assert!(History::default().draw(Style::default()).contains("--since"));
    }
}

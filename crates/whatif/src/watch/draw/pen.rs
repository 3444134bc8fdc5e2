//! Pen: lines from the top of an area to its bottom, and never beyond.

use profile::Verdict;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};

/// Draws into what is left of an area.
pub(super) struct Pen<'a> {
    pub(super) buffer: &'a mut Buffer,
    pub(super) area: Rect,
    pub(super) color: bool,
}

impl Pen<'_> {
    pub(super) fn width(&self) -> usize {
        usize::from(self.area.width)
    }

    /// How many lines are left.
    pub(super) fn left(&self) -> usize {
        usize::from(self.area.height)
    }

    /// The next line, as far as it fits; where it is.
    pub(super) fn line(&mut self, text: &str, style: Style) -> Rect {
        let line = Rect { height: self.area.height.min(1), ..self.area };
        if line.height > 0 {
            if line.width > 0 {
                self.buffer.set_stringn(line.x, line.y, text, usize::from(line.width), style);
            }
            self.area.y += 1;
            self.area.height -= 1;
        }
        line
    }

    pub(super) fn plain(&mut self, lines: &[String]) {
        for line in lines {
            self.line(line, Style::new());
        }
    }

    /// Another pen for the last lines, which are not left to this one.
    pub(super) fn bottom(&mut self, lines: usize) -> Pen<'_> {
        let height = self.area.height.min(u16::try_from(lines).unwrap_or(u16::MAX));
        self.area.height -= height;
        let area = Rect { y: self.area.bottom(), height, ..self.area };
        Pen { buffer: self.buffer, area, color: self.color }
    }

    /// Another pen for some columns of what is left.
    pub(super) fn columns(&mut self, from: usize, width: usize) -> Pen<'_> {
        let from = self.area.width.min(u16::try_from(from).unwrap_or(u16::MAX));
        let width = (self.area.width - from).min(u16::try_from(width).unwrap_or(u16::MAX));
        let area = Rect { x: self.area.x + from, width, ..self.area };
        Pen { buffer: self.buffer, area, color: self.color }
    }

    /// Some columns of a line that was drawn.
    pub(super) fn restyle(&mut self, line: Rect, from: usize, width: usize, style: Style) {
        let from = line.width.min(u16::try_from(from).unwrap_or(u16::MAX));
        let width = (line.width - from).min(u16::try_from(width).unwrap_or(u16::MAX));
        self.buffer.set_style(Rect { x: line.x + from, width, ..line }, style);
    }

    fn in_color(&self, color: Color) -> Style {
        if self.color { Style::new().fg(color) } else { Style::new() }
    }

    pub(super) fn warning(&self) -> Style {
        self.in_color(Color::Yellow)
    }

    /// The colours of the report.
    pub(super) fn verdict(&self, verdict: Verdict) -> Style {
        match verdict {
            Verdict::Helps => self.in_color(Color::Green),
            Verdict::Hurts | Verdict::NotTrusted => self.in_color(Color::Red),
            Verdict::NotEnoughData => self.in_color(Color::Yellow),
            Verdict::NoEffect => Style::new(),
            Verdict::Idle => DIM,
        }
    }
}

pub(super) const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
pub(super) const DIM: Style = Style::new().add_modifier(Modifier::DIM);
pub(super) const REVERSED: Style = Style::new().add_modifier(Modifier::REVERSED);

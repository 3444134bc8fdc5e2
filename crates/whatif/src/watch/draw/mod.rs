//! The screen, drawn into a buffer of whatever size.
//!
//! **Does:** decide what has room and put it there; words, numbers and pictures are the report's. **Does not:** know a
//! terminal. **Constraints:** no size is too small, none an error.

mod columns;
mod pen;
mod pictures;
mod scene;
mod table;
#[cfg(test)]
mod tests;
mod texts;

use super::view::Shown;
use pen::{BOLD, DIM, Pen, REVERSED};
use profile::{Profile, printable};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use report::terminal;
pub use scene::{Room, Scene};

/// Draws `scene` into all of `area`.
pub fn draw(scene: &Scene<'_>, area: Rect, buffer: &mut Buffer) -> Room {
    let area = area.intersection(buffer.area);
    let pen = &mut Pen { buffer, area, color: scene.color };
    if pen.left() == 0 || pen.width() == 0 {
        return Room::default();
    }
    title(pen, scene);
    if pen.left() >= 3 {
        let line = footer(scene);
        pen.bottom(1).line(&line, if scene.view.typing { Style::new() } else { DIM });
    }
    if scene.view.shows == Shown::Help {
        return texts::scrolled(pen, &texts::help(pen.width()), scene.view.scroll);
    }
    let Some(profile) = scene.profile else {
        pen.plain(&terminal::wrap(&printable(scene.nothing), pen.width()));
        return Room::default();
    };
    match scene.view.shows {
        Shown::Warnings => {
            let lines = texts::warnings(&terminal::warnings(profile), pen.width());
            texts::scrolled(pen, &lines, scene.view.scroll)
        }
        Shown::Curve => {
            pictures::large(pen, scene, profile);
            Room::default()
        }
        Shown::Table | Shown::Help => overview(pen, scene, profile),
    }
}

/// What is watched, and how it stands. Where there is no room for both, how it stands.
fn title(pen: &mut Pen<'_>, scene: &Scene<'_>) {
    let stands = match scene.trouble {
        Some(trouble) => printable(trouble).into_owned(),
        None => scene.standing.to_owned(),
    };
    let width = pen.width();
    let taken = stands.chars().count() + 2;
    let line = match (width.checked_sub(taken), &*stands) {
        (_, "") => terminal::exactly(&printable(scene.name), width),
        (Some(left @ 8..), _) => format!("{}  {stands}", terminal::exactly(&printable(scene.name), left)),
        _ => terminal::exactly(&stands, width),
    };
    pen.line(&line, if scene.trouble.is_some() { pen.warning().patch(REVERSED) } else { REVERSED });
}

fn footer(scene: &Scene<'_>) -> String {
    let view = scene.view;
    if view.typing {
        return format!("/{}▏", printable(&view.filter));
    }
    let filter = match &*view.filter {
        "" => String::new(),
        filter => format!("/{}  Esc all  ", printable(filter)),
    };
    let point = if scene.several_points { "p point  " } else { "" };
    match view.shows {
        Shown::Table => {
            format!("{filter}q quit  ? help  ⏎ curve  / filter  s by {}  {point}", view.order.name())
        }
        Shown::Curve => format!("{filter}q quit  ? help  Esc back  ↑↓ region  {point}"),
        Shown::Warnings | Shown::Help => "q quit  Esc back  ↑↓ scroll".into(),
    }
}

/// The sentence, the warnings, the table, and pictures of the region that is selected.
fn overview(pen: &mut Pen<'_>, scene: &Scene<'_>, profile: &Profile) -> Room {
    let sentence = terminal::wrap(&profile.sentence(), pen.width());
    let warnings = texts::warnings(&terminal::warnings(profile), pen.width());
    let share = share(pen.left(), sentence.len(), warnings.len(), scene.rows.len());
    for line in texts::shortened(&sentence, share.sentence, "…") {
        pen.line(&line, BOLD);
    }
    let style = pen.warning();
    for line in texts::shortened(&warnings, share.warnings, "  … w: all warnings") {
        pen.line(&line, if line.starts_with("  !") { style } else { Style::new() });
    }
    pictures::small(&mut pen.bottom(share.pictures), scene, profile);
    table::draw(pen, scene, profile)
}

/// How many lines each part has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Share {
    sentence: usize,
    warnings: usize,
    pictures: usize,
}

/// `lines` are there; the sentence and the warnings would like so many, and so would the table, for its rows. The sentence and two
/// rows come first.
fn share(lines: usize, sentence: usize, warnings: usize, rows: usize) -> Share {
    /// The table's title and head.
    const HEAD: usize = 2;
    /// Less is no picture.
    const PICTURES: usize = 8;
    let sentence = sentence.min((lines / 3).max(1)).min(lines);
    let left = lines - sentence;
    let warnings = if left >= 5 { warnings.min((left / 5).max(1)) } else { 0 };
    let left = left - warnings;
    let wanted = left.saturating_sub(HEAD + rows.max(2)).max(left / 2);
    let pictures = if wanted >= PICTURES && left >= PICTURES + HEAD + 2 { wanted.min(30) } else { 0 };
    Share { sentence, warnings, pictures }
}

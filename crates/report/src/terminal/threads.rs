//! What threads do while nothing is delayed: a strip for each kind of thread, where there are several.

use profile::{Profile, ThreadGroup, printable};
use unicode_width::UnicodeWidthStr as _;

use super::columns::{exactly, wrap};
use super::paint::{Colour, paint};
use super::{Style, line_of};

/// The widest that a name may be.
const NAME: usize = 32;
/// The least and the most columns of a strip.
const STRIP: (usize, usize) = (10, 24);
/// Kinds of threads that are shown, unless more are asked for.
const SHOWN: usize = 6;
/// Heads of the columns with numbers: shares of the time.
const HEADS: [&str; 4] = ["runs", "threads", "outside", "a CPU"];
/// What a strip is made of, in the order of the numbers, and for what is not known.
const SIGNS: [char; 4] = ['█', '░', '·', '▒'];
const UNKNOWN: char = ' ';
/// The unknown is pointed out if some strip has more than this share of it.
const MUCH_UNKNOWN: f64 = 0.05;

/// One row for each kind of thread.
pub(super) fn draw(out: &mut String, profile: &Profile, style: Style) {
    let threads = profile.threads();
    if threads.is_empty() {
        return;
    }
    let most = if style.asked { style.top } else { style.top.min(SHOWN) };
    let shown = &threads[..threads.len().min(most)];
    let titles: Vec<String> = shown.iter().map(|group| printable(&group.title()).into_owned()).collect();
    let numbers = HEADS.iter().map(|head| head.len() + 2).sum::<usize>();
    let room = style.width.saturating_sub(2 + 2 + numbers);
    let longest = titles.iter().map(|title| title.width()).max().unwrap_or(0).min(NAME);
    let name = longest.min(room.saturating_sub(STRIP.0));
    let strip = (room - name).min(STRIP.1);
    line_of(out, "\nWhat threads do while nothing is delayed");
    let [runs, waits @ ..] = HEADS;
    let waits: String = waits.iter().map(|head| format!("  {head}")).collect();
    let before = 2 + name + 2 + strip;
    let heads = format!("{:before$}  {runs}{waits}", "");
    let above = format!("{:begin$}waits for", "", begin = before + 2 + runs.len() + 2);
    line_of(out, &paint(style, Colour::Dim, &above));
    line_of(out, &paint(style, Colour::Dim, &heads));
    for (group, title) in shown.iter().zip(&titles) {
        let shares = shares(group);
        let numbers: String = HEADS
            .iter()
            .zip(shares)
            .map(|(head, share)| {
                format!("  {:>width$}", format!("{:.0} %", 100.0 * share), width = head.len())
            })
            .collect();
        line_of(out, &format!("  {}  {}{numbers}", exactly(title, name), drawn(shares, strip)));
    }
    if shown.len() < threads.len() {
        let more = format!("  … and {} more: --top {}", threads.len() - shown.len(), threads.len());
        line_of(out, &paint(style, Colour::Dim, &more));
    }
    let [runs, threads_sign, outside, cpu] = SIGNS;
    let mut legend = format!(
        "{runs} runs, {threads_sign} waits for other threads, {outside} waits for something outside the program or for a time, {cpu} wants a CPU that others have."
    );
    if shown.iter().any(|group| group.unknown() > MUCH_UNKNOWN) {
        legend.push_str(" What is left blank is not known.");
    }
    for line in wrap(&legend, style.width.saturating_sub(2)) {
        line_of(out, &paint(style, Colour::Dim, &format!("  {line}")));
    }
}

/// In the order of [`HEADS`].
fn shares(group: &ThreadGroup) -> [f64; 4] {
    [group.running, group.for_threads, group.external, group.runnable]
}

/// A strip of exactly `width` columns: every sign ends at its share of the time and those before it, to the nearest column.
fn drawn(shares: [f64; 4], width: usize) -> String {
    let mut strip = String::new();
    let (mut time, mut columns) = (0.0, 0);
    for (share, sign) in shares.into_iter().zip(SIGNS) {
        time += share;
        let end = ((time * width as f64).round() as usize).min(width);
        strip.extend(std::iter::repeat_n(sign, end.saturating_sub(columns)));
        columns = columns.max(end);
    }
    strip.extend(std::iter::repeat_n(UNKNOWN, width - columns));
    strip
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_strip_shows_shares_to_the_nearest_column() {
        assert_eq!(drawn([0.5, 0.25, 0.0, 0.25], 8), "████░░▒▒");
        assert_eq!(drawn([0.1, 0.2, 0.3, 0.0], 10), "█░░···    ");
        assert_eq!(drawn([1.0, 0.0, 0.0, 0.0], 5), "█████");
        assert_eq!(drawn([0.0; 4], 3), "   ");
        for width in 0..30 {
            assert_eq!(drawn([0.333, 0.333, 0.333, 0.01], width).chars().count(), width);
        }
    }
}

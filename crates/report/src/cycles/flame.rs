//! The flame graph: one HTML file that works from disk. It is the page of a database (`page/src/database`) with nothing but a flame graph in it.

use cycles::{CodeKind, Flame, FlameBox, Heading, Name, StackNode, Worth};
use serde::Serialize;
use std::collections::BTreeMap;

/// What no more than this share of the samples was taken in would be narrower than a pixel, however far one zooms; it is
/// shown with its caller.
const NARROWEST: f64 = 1e-5;
/// Boxes in an answer to the page of a database, which asks again for a narrower selection.
const MOST: usize = 20_000;

#[derive(Serialize)]
struct Data<'a> {
    heading: &'a Heading,
    time: &'a str,
    names: Vec<Function<'a>>,
    /// Parent (or −1), name, samples alone, samples in all; four numbers for each box, flat.
    boxes: Vec<i64>,
    /// The boxes that must have callers of which nothing is known.
    cut: Vec<i64>,
    /// What it is compared with, if it is.
    before: Option<Before<'a>>,
    left_out: usize,
}

#[derive(Serialize)]
struct Before<'a> {
    asked: &'a str,
    /// All samples.
    samples: u64,
    /// Samples alone and in all of each box, flat.
    boxes: Vec<u64>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    image: &'a str,
    kind: CodeKind,
    worth: Option<&'a Worth>,
}

/// The page.
pub fn page(heading: &Heading, flame: &Flame) -> String {
    filled(&data(heading, flame, None))
}

/// The page of a flame graph that was [compared](Flame::compared_with) with what was `asked` for.
pub fn comparison(heading: &Heading, flame: &Flame, asked: &str) -> String {
    filled(&data(heading, flame, Some(asked)))
}

/// The data alone, in one line, for the page of a database; of very many boxes only the widest. `asked` is what it was compared
/// with, if it was.
pub fn flame_line(heading: &Heading, flame: &Flame, asked: Option<&str>) -> String {
    crate::json::line_of(&widest(heading, flame, asked, MOST))
}

fn filled(data: &Data<'_>) -> String {
    crate::html::render_database(format!(r#"{{"kind":"flame","flame":{}}}"#, crate::json::line_of(data)))
}

fn data<'a>(heading: &'a Heading, flame: &'a Flame, asked: Option<&'a str>) -> Data<'a> {
    widest(heading, flame, asked, usize::MAX)
}

/// No more than `most` boxes, the widest: none of them is wider than its caller, now or before, so that none is without it.
fn widest<'a>(heading: &'a Heading, flame: &'a Flame, asked: Option<&'a str>, most: usize) -> Data<'a> {
    let all = flame.total().max(1) as f64;
    let before: u64 = flame.boxes.iter().map(|one| one.before.0).sum();
    let width = |one: &FlameBox| (one.total as f64 / all).max(one.before.1 as f64 / before.max(1) as f64);
    let mut least = NARROWEST;
    if flame.boxes.len() > most {
        let mut widths: Vec<f64> = flame.boxes.iter().map(width).collect();
        widths.sort_by(|a, b| b.total_cmp(a));
        least = least.max(widths[most]);
    }
    let mut kept: BTreeMap<u32, i64> = BTreeMap::new();
    let mut named: BTreeMap<u32, i64> = BTreeMap::new();
    let (mut boxes, mut of_before, mut cut, mut names) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut left_out = 0;
    for (nth, one) in flame.boxes.iter().enumerate() {
        let parent = match one.parent {
            StackNode::NONE => Some(-1),
            parent => kept.get(&parent).copied(),
        };
        match parent {
            Some(parent) if width(one) > least => {
                let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
                let own = kept.len() as i64;
                kept.insert(nth as u32, own);
                let name = *named.entry(one.name).or_insert_with(|| {
                    names.push(function(&flame.names[one.name as usize]));
                    names.len() as i64 - 1
                });
                boxes.extend([parent, name, number(one.own), number(one.total)]);
                of_before.extend([one.before.0, one.before.1]);
                cut.extend(one.is_cut.then_some(own));
            }
            _ => left_out += 1,
        }
    }
    let before = asked.map(|asked| Before { asked, samples: before, boxes: of_before });
    Data { heading, time: &heading.time, names, boxes, cut, before, left_out }
}

fn function(name: &Name) -> Function<'_> {
    Function { name: &name.function, image: &name.image, kind: name.kind, worth: name.worth.as_ref() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cycles::Stacks;

    #[test]
    fn hostile_names_stay_in_the_data() {
        let mut flame = Flame::new(&Stacks::example());
        flame.names[1].function = "</script><img src=x onerror=alert(1)>\u{202e}".to_owned();
        let page = page(&Heading::default(), &flame);
        assert!(!page.contains("<img"), "{page}");
        assert_eq!(
            page.matches("</script>").count(),
            crate::html::EMPTY_DATABASE_PAGE.matches("</script>").count()
        );
        assert!(page.contains(r"\u003c/script>\u003cimg src=x onerror=alert(1)>\u202e"));
    }

    #[test]
    fn every_box_has_its_parent() {
        let flame = Flame::new(&Stacks::example());
        let heading = Heading::default();
        let data = data(&heading, &flame, None);
        let parents: Vec<i64> = data.boxes.chunks(4).map(|four| four[0]).collect();
        assert_eq!(parents, [-1, 0, 1, 1]);
        assert_eq!(data.left_out, 0);
    }

    #[test]
    fn of_many_boxes_the_widest_are_left_with_their_callers_and_names() {
        let before = Flame::new(&Stacks::example());
        let flame = Flame::new(&Stacks::example()).compared_with(&before);
        let heading = Heading::default();
        let data = widest(&heading, &flame, Some("before"), 2);
        // main 1111, work 1110, tiny 10, work 1000.
        assert_eq!(data.boxes, [-1, 0, 1, 1111, 0, 1, 100, 1110]);
        assert_eq!((data.names.len(), data.left_out), (2, 2));
        assert_eq!(data.before.unwrap().boxes, [1, 1111, 100, 1110]);
        let line = flame_line(&heading, &flame, None);
        assert!(
            line.starts_with('{') && line.contains(r#""left_out":0"#) && line.contains(r#""name":"tiny""#)
        );
    }

    #[test]
    fn a_comparison_has_what_was_before() {
        let before = Flame::new(&Stacks::example());
        let flame = Flame::new(&Stacks::example()).compared_with(&before);
        let page = comparison(&Heading::default(), &flame, "2d..<1d");
        assert!(page.contains(
            r#""before":{"asked":"2d..\u003c1d","samples":1111,"boxes":[1,1111,100,1110,10,10,1000,1000]}"#
        ));
        assert!(page.contains(r#""kind":"program""#) && page.contains(r#""cut":[]"#), "{page}");
    }
}

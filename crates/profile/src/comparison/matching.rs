//! Matching: which region of one recording is which of another.
//!
//! A function is its name and file. A line is what stands in it: line numbers move when something is edited
//! above, so that lines are compared by the source that was recorded with them, within the same function.
//! A line that was edited itself is still the same if the lines above and below it are. Without
//! recorded source, the number has to do.
//!
//! Files are the same when their paths are. Where no file that experiments were about has the same path in
//! both recordings, the programs were built in different checkouts; then files are the same, too, when
//! they have the same path below the two folders that most files share a tail under. (Headers and libraries
//! have the same path in any checkout, but seldom is anything in them tried.)

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crate::model::{Region, RegionId, RegionKind, Rows, Snippet};

/// How many lines above and below are looked at to tell equal lines apart.
const AROUND: i64 = 6;

/// How much two regions are alike, if they can be the same: the most alike are matched first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Likeness {
    same_text: bool,
    /// Equal lines around them.
    around: usize,
    same_image: bool,
    moved: Reverse<u32>,
}

/// Every region of both recordings, once: those that are the same side by side.
pub(super) fn pairs(before: &Rows, after: &Rows) -> Vec<(Option<RegionId>, Option<RegionId>)> {
    let files = Files::new(before, after);
    let mut alike: Vec<(Likeness, RegionId, RegionId)> = Vec::new();
    for (&a, of_before) in &before.regions {
        for (&b, of_after) in &after.regions {
            let sides = [(of_before, before.snippets.get(&a)), (of_after, after.snippets.get(&b))];
            alike.extend(likeness(&files, sides).map(|likeness| (likeness, a, b)));
        }
    }
    alike.sort_by_key(|&(likeness, a, b)| (Reverse(likeness), a, b));

    let (mut matched, mut taken) = (BTreeMap::new(), BTreeSet::new());
    for (_, a, b) in alike {
        if !matched.contains_key(&a) && taken.insert(b) {
            matched.insert(a, b);
        }
    }
    let of_before = before.regions.keys().map(|a| (Some(*a), matched.get(a).copied()));
    let only_after = after.regions.keys().filter(|b| !taken.contains(b)).map(|b| (None, Some(*b)));
    of_before.chain(only_after).collect()
}

fn likeness(files: &Files, [a, b]: [(&Region, Option<&Snippet>); 2]) -> Option<Likeness> {
    let (before, after) = (a.0, b.0);
    if before.kind != after.kind || before.inclusive != after.inclusive || !files.same(before, after) {
        return None;
    }
    let (same_text, around) = match before.kind {
        RegionKind::Function => (before.name == after.name, 0),
        RegionKind::Line => lines(a, b)?,
    };
    let moved = before.line.unwrap_or(0).abs_diff(after.line.unwrap_or(0));
    let likeness = Likeness {
        same_text,
        around,
        same_image: before.image_key() == after.image_key(),
        moved: Reverse(moved),
    };
    (same_text || before.kind == RegionKind::Line).then_some(likeness)
}

/// Whether two lines of the same file have the same text, and how many around them have; `None` where they
/// cannot be the same line.
fn lines(before: (&Region, Option<&Snippet>), after: (&Region, Option<&Snippet>)) -> Option<(bool, usize)> {
    let text = |(region, snippet): (&Region, Option<&Snippet>), away| {
        let line = i64::from(region.line?) + away;
        let snippet = snippet?;
        let nth = usize::try_from(line - i64::from(snippet.first_line)).ok()?;
        snippet.text.lines().nth(nth).map(|line| line.trim().to_owned())
    };
    let (Some(was), Some(is)) = (text(before, 0), text(after, 0)) else {
        return (before.0.line == after.0.line).then_some((false, 0));
    };
    let same = |away: &i64| text(before, *away).is_some_and(|line| text(after, *away) == Some(line));
    let around = (-AROUND..=AROUND).filter(|away| *away != 0).filter(same).count();
    let edited = same(&-1) && same(&1);
    let same_function = before.0.function == after.0.function;
    (same_function && (was == is || edited)).then_some((was == is, around))
}

/// Which file of one recording is which of another.
struct Files {
    /// The folders of the two checkouts, where they are different.
    checkouts: Option<(String, String)>,
}

impl Files {
    fn new(before: &Rows, after: &Rows) -> Files {
        if !tried(before).is_disjoint(&tried(after)) {
            return Files { checkouts: None };
        }
        let (before, after) = (files(before.regions.values()), files(after.regions.values()));
        let mut votes: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        for a in before.difference(&after) {
            for folders in after.difference(&before).filter_map(|b| folders(a, b)) {
                *votes.entry(folders).or_default() += 1;
            }
        }
        let most = votes.into_iter().max_by_key(|&(folders, votes)| (votes, Reverse(folders)));
        Files { checkouts: most.map(|((a, b), _)| (a.to_owned(), b.to_owned())) }
    }

    fn same(&self, before: &Region, after: &Region) -> bool {
        match (&before.file, &after.file, &self.checkouts) {
            (a, b, _) if a == b => true,
            (Some(a), Some(b), Some((in_a, in_b))) => a
                .strip_prefix(in_a.as_str())
                .is_some_and(|below| b.strip_prefix(in_b.as_str()) == Some(below)),
            _ => false,
        }
    }
}

fn files<'r>(regions: impl Iterator<Item = &'r Region>) -> BTreeSet<&'r str> {
    regions.filter_map(|region| region.file.as_deref()).collect()
}

/// The files of the regions that experiments were about.
fn tried(rows: &Rows) -> BTreeSet<&str> {
    let tried: BTreeSet<RegionId> = rows.windows.iter().map(|window| window.region).collect();
    files(tried.iter().filter_map(|id| rows.regions.get(id)))
}

/// What two paths begin with before the tail that they share; `None` without a file name in common.
fn folders<'p>(a: &'p str, b: &'p str) -> Option<(&'p str, &'p str)> {
    let shared = a.rsplit('/').zip(b.rsplit('/')).take_while(|(a, b)| a == b);
    let tail: usize = shared.map(|(name, _)| name.len() + 1).sum();
    (tail > 0).then(|| (&a[..a.len().saturating_sub(tail)], &b[..b.len().saturating_sub(tail)]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimate::simulation::window;
    use crate::model::{Image, Window};
    use crate::units::Speedup;

    fn region(kind: RegionKind, name: &str, file: &str, line: u32) -> Region {
        Region {
            kind,
            inclusive: false,
            name: name.into(),
            function: Some("f".into()),
            file: Some(file.into()),
            line: Some(line),
            image: Image::default(),
        }
    }

    fn recording(regions: &[Region]) -> Rows {
        let regions = (1..).map(RegionId::new).zip(regions.iter().cloned()).collect();
        Rows { regions, ..Rows::default() }
    }

    /// A recording of lines of a file, with the source around them.
    fn lines_of(source: &str, numbers: &[u32]) -> Rows {
        let line = |number: &u32| region(RegionKind::Line, &format!("x.c:{number}"), "/src/x.c", *number);
        let mut rows = recording(&numbers.iter().map(line).collect::<Vec<_>>());
        for (id, number) in (1..).zip(numbers) {
            let first_line = number.saturating_sub(6).max(1);
            let text: Vec<&str> = source.lines().skip(first_line as usize - 1).take(13).collect();
            rows.snippets.insert(RegionId::new(id), Snippet { first_line, text: text.join("\n") });
        }
        rows
    }

    /// The pairs, as numbers: 0 for none.
    fn matched(before: &Rows, after: &Rows) -> Vec<(i64, i64)> {
        let number = |id: Option<RegionId>| id.map_or(0, RegionId::get);
        pairs(before, after).into_iter().map(|(a, b)| (number(a), number(b))).collect()
    }

    const OLD: &str = "int f()\n{\n  prepare();\n  while (more()) {\n    work();\n  }\n  finish();\n}\n";

    #[test]
    fn lines_are_found_again_by_their_text() {
        let moved = format!("#include <a>\n\n{OLD}");
        assert_eq!(matched(&lines_of(OLD, &[5, 7]), &lines_of(&moved, &[9, 7])), [(1, 2), (2, 1)]);
        // Line 5 is another line now, and the one that was there was not asked about.
        assert_eq!(matched(&lines_of(OLD, &[5]), &lines_of(&moved, &[5])), [(1, 0), (0, 1)]);
    }

    #[test]
    fn an_edited_line_is_found_between_its_neighbours() {
        let edited = OLD.replace("work()", "work_faster()");
        assert_eq!(matched(&lines_of(OLD, &[5]), &lines_of(&edited, &[5])), [(1, 1)]);
        let gone = OLD.replace("    work();\n  }", "    something();\n    else();");
        assert_eq!(matched(&lines_of(OLD, &[5]), &lines_of(&gone, &[5])), [(1, 0), (0, 1)]);
    }

    #[test]
    fn equal_lines_are_told_apart_by_what_is_around_them() {
        let source = "a();\nlock();\nb();\nc();\nd();\ne();\nf();\ng();\nlock();\nh();\n";
        let moved = format!("{}{source}", "new();\n".repeat(7));
        // The second of the old ones is where the first of the new ones is.
        assert_eq!(matched(&lines_of(source, &[2, 9]), &lines_of(&moved, &[16, 9])), [(1, 2), (2, 1)]);
        assert_eq!(matched(&lines_of(source, &[9]), &lines_of(&moved, &[9, 16])), [(1, 2), (0, 1)]);
    }

    #[test]
    fn without_source_the_number_counts() {
        let lines = |number| recording(&[region(RegionKind::Line, &format!("x.c:{number}"), "/x.c", number)]);
        assert_eq!(matched(&lines(5), &lines(5)), [(1, 1)]);
        assert_eq!(matched(&lines(5), &lines(6)), [(1, 0), (0, 1)]);
    }

    #[test]
    fn functions_are_name_and_file() {
        let function = |name, file, line| region(RegionKind::Function, name, file, line);
        let before =
            [function("f", "/src/a.c", 3), function("f", "/src/b.c", 3), function("g", "/src/b.c", 9)];
        let after =
            [function("f", "/src/b.c", 80), function("f", "/src/a.c", 3), function("h", "/src/b.c", 9)];
        assert_eq!(matched(&recording(&before), &recording(&after)), [(1, 2), (2, 1), (3, 0), (0, 3)]);
        let inclusive = Region { inclusive: true, ..before[0].clone() };
        assert_eq!(matched(&recording(&before[..1]), &recording(&[inclusive])), [(1, 0), (0, 1)]);
    }

    fn tried(region: i64) -> Window {
        Window { region: RegionId::new(region), ..window(0, 0, Speedup::ZERO) }
    }

    #[test]
    fn checkouts_may_be_elsewhere() {
        let function = |name, file| region(RegionKind::Function, name, file, 1);
        let shared = function("inlined", "/usr/include/z.h");
        let mut before =
            recording(&[function("f", "/home/a/src/x.c"), function("g", "/home/a/y.c"), shared.clone()]);
        let mut after = recording(&[
            function("g", "/tmp/wt/y.c"),
            function("f", "/tmp/wt/src/x.c"),
            function("f", "/tmp/lib/x.c"),
            shared,
        ]);
        before.windows.push(tried(1));
        after.windows.push(tried(1));
        assert_eq!(matched(&before, &after), [(1, 2), (2, 1), (3, 4), (0, 3)]);
        // If what was tried is in both, it is the same checkout, and other files are other files.
        before.windows.push(tried(3));
        after.windows.push(tried(4));
        assert_eq!(matched(&before, &after), [(1, 0), (2, 0), (3, 4), (0, 1), (0, 2), (0, 3)]);
    }
}

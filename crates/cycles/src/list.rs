//! `whatif list`: a function's source, with counts.

use super::arguments;
use super::functions::{base, name, tally};
use super::query::Query;
use super::worth::Worths;
use crate::{Listing, Source, SourceLine};
use anyhow::{Result, bail};
use archive::{ImageId, Tree};
use profile::printable;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

/// Lines without samples that are shown before and after those with some.
const AROUND: u32 = 2;
/// Lines without samples in a row that are still shown.
const GAP: u32 = 8;

/// `whatif list`.
pub fn list(args: &arguments::List) -> Result<Listing> {
    let mut query = Query::new(&args.which)?;
    let tree = query.tree()?;
    query.names.learn(&query.db, tree.positions.iter().copied())?;
    let sampled = tree.positions.iter().flat_map(|(image, offset)| query.names.functions(*image, *offset));
    let function = the_function(&args.function, sampled)?;
    let worths = Worths::load(&args.causes, &query.db)?;
    let sources = sources(&query, &tree, &function, &worths);
    Ok(Listing { function, sources, heading: query.heading.clone() })
}

/// The one function that is meant, of those that were sampled: names, and whether they are names and nothing more.
pub fn the_function<'a>(pattern: &str, sampled: impl Iterator<Item = (&'a str, bool)>) -> Result<String> {
    let mut names: BTreeMap<(&str, bool), Option<String>> = BTreeMap::new();
    for (function, is_verbatim) in sampled {
        names.entry((function, is_verbatim)).or_insert_with(|| {
            let name = name(function, is_verbatim);
            name.matches(pattern).then(|| name.base().to_owned())
        });
    }
    let found: BTreeSet<&String> = names.values().flatten().collect();
    let asked = printable(pattern);
    match found.iter().copied().collect::<Vec<_>>().as_slice() {
        [] => {
            let bases: BTreeSet<String> =
                names.keys().map(|(name, is_verbatim)| base(name, *is_verbatim)).collect();
            let near = symbols::nearest_names(pattern, bases.iter().map(String::as_str));
            match near.as_slice() {
                [] => bail!("no sample is in a function '{asked}'\n  see which there are: whatif top"),
                near => bail!(
                    "no sample is in a function '{asked}'; similar ones: {}\n  see which there are: whatif top",
                    printable(&near.join(", "))
                ),
            }
        }
        [one] => Ok((*one).clone()),
        // A name that is a whole one is meant, even if it is the end of others.
        several if several.iter().any(|name| *name == pattern) => Ok(pattern.to_owned()),
        several => {
            let shown: Vec<&str> = several.iter().take(10).map(|name| name.as_str()).collect();
            let more =
                if several.len() > 10 { format!(" and {} more", several.len() - 10) } else { String::new() };
            bail!(
                "'{asked}' may be any of {} functions: {}{more}\n  give more of the name",
                several.len(),
                printable(&shown.join(", "))
            )
        }
    }
}

/// A line of a file of an image.
type At<'a> = (ImageId, &'a str, u32);

fn sources(query: &Query, tree: &Tree, function: &str, worths: &Worths) -> Vec<Source> {
    let names = &query.names;
    let mut is_meant: HashMap<(&str, ImageId), bool> = HashMap::new();
    let mut numbers: BTreeMap<At<'_>, u32> = BTreeMap::new();
    // For each position the lines of the function there, and whether the first is that of the sample itself.
    let mut of: Vec<(Vec<u32>, bool)> = Vec::with_capacity(tree.positions.len());
    for &(image, offset) in &tree.positions {
        let mut lines = Vec::new();
        let mut is_innermost = false;
        for (depth, symbol) in names.symbols(image, offset).iter().enumerate() {
            if *is_meant
                .entry((&symbol.function, image))
                .or_insert_with(|| base(&symbol.function, names.is_verbatim(image)) == function)
            {
                is_innermost |= depth == 0;
                let next = numbers.len() as u32;
                lines.push(*numbers.entry((image, &symbol.file, symbol.line)).or_insert(next));
            }
        }
        of.push((lines, is_innermost));
    }
    let mut tallies = tally(tree, numbers.len(), |nth| &of[tree.places[nth] as usize].0);
    // `tally` takes the first line of each frame for the sample's own; inlined callees come before it.
    tallies.iter_mut().for_each(|tally| tally.own = 0);
    for (place, count) in tree.places.iter().zip(&tree.counts) {
        let (lines, is_innermost) = &of[*place as usize];
        if *is_innermost && let Some(line) = lines.first() {
            tallies[*line as usize].own += count;
        }
    }
    let mut pieces: BTreeMap<(ImageId, &str), Vec<SourceLine>> = BTreeMap::new();
    for ((image, file, line), number) in &numbers {
        let tally = tallies[*number as usize];
        if tally.total > 0 {
            let line = SourceLine { line: *line, samples: tally.own, total: tally.total, text: None };
            pieces.entry((*image, file)).or_default().push(line);
        }
    }
    let mut sources: Vec<Source> = pieces
        .into_iter()
        .map(|((image, file), lines)| {
            let code = names.image(image);
            let worth = worths.of(function, &code);
            let (path, build_id) = (code.path, code.build_id);
            let (lines, doubt) = with_text(lines, file, &path);
            let total = total_of(tree, |nth| {
                tree.position(nth).0 == image && !of[tree.places[nth] as usize].0.is_empty()
            });
            let samples = lines.iter().map(|line| line.samples).sum();
            Source { image: path, build_id, file: file.to_owned(), doubt, samples, total, worth, lines }
        })
        .collect();
    sources.sort_by(|a, b| b.total.cmp(&a.total).then_with(|| b.samples.cmp(&a.samples)));
    sources
}

/// Samples of the function in an image with all it calls, each once.
fn total_of(tree: &Tree, is_here: impl Fn(usize) -> bool) -> u64 {
    let of = |nth| if is_here(nth) { &[0][..] } else { &[] };
    tally(tree, 1, of)[0].total
}

/// The lines with their text and those around them; and why there is none, or why it may be wrong.
fn with_text(lines: Vec<SourceLine>, file: &str, image: &str) -> (Vec<SourceLine>, Option<String>) {
    if file.is_empty() {
        return (
            lines,
            Some("there is no line information for it; build it with -g (Rust: debug = 1)".to_owned()),
        );
    }
    let Some(last) = lines.iter().map(|line| line.line).max() else { return (lines, None) };
    let text: BTreeMap<u32, String> =
        symbols::snippet(file, last, last.saturating_add(AROUND)).into_iter().collect();
    if text.is_empty() {
        let doubt = match Path::new(file).is_file() {
            true => "the source here is shorter than that: it is of another version",
            false => "the source is not on this machine; put it there, or look at the lines in your own copy",
        };
        return (lines, Some(doubt.to_owned()));
    }
    let changed = |path: &str| std::fs::metadata(path).and_then(|data| data.modified()).ok();
    let doubt = match (changed(file), changed(image)) {
        (Some(source), Some(program)) if source > program => {
            Some("the source was changed after the program was built: lines may be off".to_owned())
        }
        _ => None,
    };
    let by_line: BTreeMap<u32, SourceLine> = lines.iter().map(|line| (line.line, line.clone())).collect();
    let numbers: Vec<u32> = by_line.keys().copied().filter(|line| *line > 0).collect();
    let mut shown: BTreeMap<u32, SourceLine> = by_line;
    for (nth, line) in numbers.iter().enumerate() {
        let next = numbers.get(nth + 1).copied();
        let until = match next {
            Some(next) if next - line <= GAP => next,
            _ => line.saturating_add(AROUND),
        };
        for number in line.saturating_sub(AROUND).max(1)..=until {
            shown.entry(number).or_insert_with(|| SourceLine { line: number, ..SourceLine::default() });
        }
    }
    let lines = shown
        .into_values()
        .filter(|line| line.total > 0 || text.contains_key(&line.line))
        .map(|line| SourceLine { text: text.get(&line.line).cloned(), ..line })
        .collect();
    (lines, doubt)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_function_is_meant_or_candidates_are_told() {
        let sampled = ["a::work", "b::work", "main", "rest<int>(int)", "rest<char>(char)", "work"];
        let of = |pattern: &str| {
            the_function(pattern, sampled.iter().map(|name| (*name, false)))
                .map_err(|error| error.to_string())
        };
        assert_eq!(of("main"), Ok("main".to_owned()));
        assert_eq!(of("rest"), Ok("rest".to_owned()));
        assert_eq!(of("a::work"), Ok("a::work".to_owned()));
        assert_eq!(of("work"), Ok("work".to_owned()));
        assert!(
            of("*::work").unwrap_err().contains("may be any of 2 functions: a::work, b::work"),
            "{:?}",
            of("*::work")
        );
        assert!(of("wrk").unwrap_err().contains("similar ones: work"), "{:?}", of("wrk"));
        assert!(of("zzz").unwrap_err().contains("see which there are: whatif top"));
    }

    #[test]
    fn lines_have_their_text_and_those_around_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.c");
        std::fs::write(&path, (1..=40).map(|n| format!("line {n}\n")).collect::<String>()).unwrap();
        let line = |line| SourceLine { line, samples: 1, total: 1, text: None };
        let (lines, doubt) = with_text(vec![line(3), line(10), line(30)], path.to_str().unwrap(), "/nowhere");
        let numbers: Vec<u32> = lines.iter().map(|line| line.line).collect();
        assert_eq!(numbers, (1..=12).chain(28..=32).collect::<Vec<_>>());
        assert_eq!((lines[2].text.as_deref(), lines[2].samples, doubt), (Some("line 3"), 1, None));
        let (lines, doubt) = with_text(vec![line(41)], path.to_str().unwrap(), "/nowhere");
        assert!(lines.len() == 1 && doubt.unwrap().contains("another version"));
        let (_, doubt) = with_text(vec![line(1)], "/nowhere/a.c", "/nowhere");
        assert!(doubt.unwrap().contains("not on this machine"));
    }
}

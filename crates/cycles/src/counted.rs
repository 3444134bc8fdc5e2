//! The answers of `whatif top`, `whatif diff` and `whatif flame` from samples that were counted elsewhere: in a store of many machines. Shares, intervals, names and order are
//! those of the local database, because it is the same code that makes them.

use crate::arguments::{Compared, Per};
use crate::diff::{self, difference_of};
use crate::functions::{self, Gather, Key, Keys};
use crate::grouping::{CodeKey, NONE};
use crate::names::Names;
use crate::query::NOT_INLINED;
use crate::stacks::add_branches;
use crate::{Difference, Flame, Heading, Note, Row, Top, heading, nameless, share, truncated};
use archive::{
    Books, CollectorEpoch, EpochId, Group, ImageId, MachineId, MachineInfo, Parts, Position, Tree,
    UnixSeconds,
};
use std::collections::{BTreeMap, HashMap};

/// Samples at one position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountedRow {
    /// Who ran, one text for each key; an empty one where it has none.
    pub groups: Vec<String>,
    /// Begin of the span of time.
    pub span: UnixSeconds,
    /// Index of the position.
    pub position: u32,
    /// How many samples.
    pub count: u64,
}

/// Samples that were counted elsewhere.
pub struct Counted {
    /// What was asked, and the books; `samples` is filled in here.
    pub heading: Heading,
    /// The images of the positions, and all names.
    pub names: Names,
    /// Where there are samples; no two alike.
    pub positions: Vec<Position>,
    /// The samples. Rows may be alike but in `count`.
    pub rows: Vec<CountedRow>,
}

/// Whether inlined functions are functions of their own, for names and for what the heading says.
pub fn set_inlined(heading: &mut Heading, names: &mut Names, inlined: bool) {
    names.set_inlined(inlined);
    heading.selection.extend((!inlined).then(|| NOT_INLINED.to_owned()));
}

/// The heading of an answer: the books of its epochs in all. Books may have been added up before.
pub fn heading_of(
    event: &str,
    books: &[(EpochId, Books)],
    epochs: &[CollectorEpoch],
    machines: &BTreeMap<MachineId, MachineInfo>,
) -> Heading {
    heading::of(event, books, epochs, machines)
}

/// The longest spans that there are many of in `length` seconds, of whole time buckets of `bucket` seconds.
pub fn span_for(length: i64, bucket: i64) -> i64 {
    diff::span_for(length, bucket)
}

/// Which positions are in a function or on a line, inlined code and all: at which code experiments are aimed.
pub struct CodeIndex(HashMap<(ImageId, String), Vec<u32>>);

impl CodeIndex {
    /// Of all positions that were counted.
    #[must_use]
    pub fn new(counted: &Counted) -> CodeIndex {
        let mut all: HashMap<(ImageId, String), Vec<u32>> = HashMap::new();
        for (nth, (image, offset)) in (0..).zip(&counted.positions) {
            let is_verbatim = counted.names.is_verbatim(*image);
            for symbol in counted.names.symbols(*image, *offset) {
                let mut names = vec![functions::base(&symbol.function, is_verbatim)];
                if let Some(file) = symbol.file.rsplit('/').next().filter(|file| !file.is_empty()) {
                    names.push(format!("{file}:{}", symbol.line));
                }
                for name in names {
                    let positions = all.entry((*image, name)).or_default();
                    // A function that is inlined into itself is there once.
                    if positions.last() != Some(&nth) {
                        positions.push(nth);
                    }
                }
            }
        }
        CodeIndex(all)
    }

    /// The positions, by their index, in code of this name in an image: a function by its base name, or `file:line`.
    pub fn positions(&self, image: ImageId, name: &str) -> &[u32] {
        self.0.get(&(image, name.to_owned())).map_or(&[], Vec::as_slice)
    }
}

impl Counted {
    /// The heading with its samples.
    pub(crate) fn headed(&self) -> Heading {
        Heading { samples: self.rows.iter().map(|row| row.count).sum(), ..self.heading.clone() }
    }

    /// The samples by spans of time.
    pub(crate) fn by_span(&self) -> Parts {
        let mut parts = Parts { positions: self.positions.clone(), ..Parts::default() };
        for row in &self.rows {
            parts.groups.entry(Group::Time(row.span)).or_default().push((row.position, row.count));
        }
        parts
    }

    /// Samples of each position, by its index.
    fn by_position(&self) -> Vec<u64> {
        let mut sums = vec![0; self.positions.len()];
        self.rows.iter().for_each(|row| sums[row.position as usize] += row.count);
        sums
    }
}

/// What costs most, by who ran (`by` names the keys that `groups` of the rows are of) and by code, up to `top` rows.
pub fn top(mut counted: Counted, by: &[String], code: Option<CodeKey>, top: usize) -> Top {
    counted.heading = counted.headed();
    if matches!(code, Some(CodeKey::Function | CodeKey::Line)) {
        let note = nameless::note(&counted.names, &counted.positions, &counted.by_position());
        counted.heading.warnings.extend(note);
    }
    let gather = match code {
        Some(CodeKey::Line) => Gather::Line,
        Some(CodeKey::Function) => Gather::Function,
        _ => Gather::Image,
    };
    let mut keys = Keys::new(&counted.names, gather);
    let key_of: Vec<u32> = counted.positions.iter().map(|position| keys.of(*position)[0]).collect();
    let mut sums: HashMap<(&[String], Option<u32>), u64> = HashMap::new();
    for row in &counted.rows {
        let key = code.map(|_| key_of[row.position as usize]);
        *sums.entry((row.groups.as_slice(), key)).or_default() += row.count;
    }
    let key = |key: Option<u32>| key.map(|key| &keys.all()[key as usize]);
    let name = |of: Option<u32>| {
        let key = key(of)?;
        let image = counted.names.image(key.image);
        Some((&*key.name, image.path, image.build_id))
    };
    let mut ranked: Vec<_> = sums.into_iter().filter(|(_, count)| *count > 0).collect();
    ranked.sort_by(|((a, m), one), ((b, n), other)| {
        other.cmp(one).then_with(|| (*a, name(*m)).cmp(&(*b, name(*n))))
    });
    let more = ranked.len().saturating_sub(top);
    ranked.truncate(top);
    let rows =
        ranked.into_iter().map(|((groups, of), count)| row(&counted, by, groups, key(of), count)).collect();
    let code = match code {
        None => None,
        Some(CodeKey::Line) => Some("line"),
        Some(CodeKey::Function) => Some("function"),
        Some(_) => Some("image"),
    };
    let by = by.iter().map(String::as_str).chain(code).collect::<Vec<_>>().join(",");
    Top { by, rows, more, heading: counted.heading, ..Top::default() }
}

fn row(counted: &Counted, by: &[String], groups: &[String], key: Option<&Key>, samples: u64) -> Row {
    let heading = &counted.heading;
    let texts = groups.iter().map(|text| if text.is_empty() { NONE.to_owned() } else { text.clone() });
    let groups: Vec<(String, String)> = by.iter().cloned().zip(texts).collect();
    let name = groups.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>().join(", ");
    let of_code = key.map(|key| (key, counted.names.image(key.image)));
    Row {
        image: match &of_code {
            Some((key, image)) if key.name != image.path => image.path.clone(),
            _ => String::new(),
        },
        build_id: of_code.as_ref().map(|(_, image)| image.build_id.clone()).unwrap_or_default(),
        name: key.map_or(name, |key| key.name.clone()),
        groups,
        samples,
        share: share::of_counts(samples, heading.samples, heading.samples_at_a_time),
        cpu_ns: heading.nanos_per_sample.map(|each| (samples as f64 * each).round() as u64),
        ..Row::default()
    }
}

/// What is different between two sets of samples, each with what it was asked by and the width of its spans in seconds; up to `top` changes.
pub fn difference(
    (asked_a, a, width_a): (&str, &Counted, i64),
    (asked_b, b, width_b): (&str, &Counted, i64),
    by: Compared,
    top: usize,
) -> Difference {
    let measured = |asked: &str, counted: &Counted, width: i64| {
        diff::measured(asked, (&counted.headed(), &counted.names), &counted.by_span(), width, by, None)
    };
    let (a, b) = (measured(asked_a, a, width_a), measured(asked_b, b, width_b));
    let (changes, more) = diff::changes(&a, &b, top);
    let changes = changes.into_iter().map(|(_, change)| change).collect();
    Difference { more, ..difference_of(a.side, b.side, by, Per::Share, changes) }
}

/// Stacks that were counted elsewhere.
pub struct CountedStacks {
    /// What was asked, and the books; `samples` is filled in here.
    pub heading: Heading,
    /// The images of the positions, and all names.
    pub names: Names,
    /// The stacks; counts are filled in here.
    pub tree: Tree,
    /// For all who ran, by one text for each key, samples of some of the frames.
    pub groups: BTreeMap<Vec<String>, Vec<(u32, u64)>>,
    /// Samples of stacks that are not among them.
    pub rest: u64,
}

/// What stands in a flame graph for all stacks that are not in it.
pub const REST: &str = "[other stacks]";

/// The flame graph of stacks, above boxes of those who ran, and its heading.
#[must_use]
pub fn flame(of: CountedStacks) -> (Heading, Flame) {
    let CountedStacks { mut heading, names, mut tree, groups, rest } = of;
    tree.counts = vec![0; tree.len()];
    groups.values().flatten().for_each(|(frame, count)| tree.counts[*frame as usize] += count);
    let shown: u64 = tree.counts.iter().sum();
    heading.samples = shown + rest;
    heading.warnings.extend(nameless::note(&names, &tree.positions, &nameless::of_tree(&tree)));
    heading.warnings.extend(truncated::note(&names, &tree));
    let mut flame = Flame::default();
    // Two may be called alike: one has no label, and the other's is what stands for that.
    let mut by_root: BTreeMap<Vec<&str>, Vec<(u32, u64)>> = BTreeMap::new();
    for (texts, leaves) in &groups {
        let roots = texts.iter().map(|text| if text.is_empty() { NONE } else { text.as_str() });
        by_root.entry(roots.collect()).or_default().extend(leaves);
    }
    add_branches(&mut flame, (&tree, &names), &by_root, 1.0);
    if rest > 0 {
        flame.add_alone(REST, rest);
        heading.warnings.push(Note {
            code: "other-stacks".to_owned(),
            message: format!(
                "{rest} samples ({:.1} %) are in stacks that are not shown, because they have the fewest: they are the box {REST}",
                100.0 * rest as f64 / heading.samples as f64
            ),
            advice: "show more stacks with --most N, or those of less: --service, --version, --since".to_owned(),
        });
    }
    flame.add_up();
    (heading, flame)
}

#[cfg(test)]
mod tests {
    use super::*;
    use archive::{CodeImage, ImageKind, Node, Offset};

    #[test]
    fn what_is_not_shown_is_a_box_of_its_own() {
        let image = ImageId::new(1);
        let known = CodeImage { path: "/bin/a".into(), build_id: "0a".into(), kind: ImageKind::File };
        let tree = Tree {
            positions: vec![(image, Offset(1)), (image, Offset(2))],
            parents: vec![Node::NONE, 0],
            places: vec![0, 1],
            counts: Vec::new(),
        };
        let counted = |rest| CountedStacks {
            heading: Heading::default(),
            names: Names::of_known([(image, known.clone())].into(), HashMap::new()),
            tree: tree.clone(),
            groups: [(vec!["shop".to_owned()], vec![(1, 7)]), (vec![String::new()], vec![(0, 2), (1, 1)])]
                .into(),
            rest,
        };
        let (heading, flame) = flame(counted(90));
        let told: Vec<_> = flame
            .boxes
            .iter()
            .filter(|one| one.parent == crate::StackNode::NONE)
            .map(|one| (flame.names[one.name as usize].function.as_str(), one.own, one.total))
            .collect();
        assert_eq!(told, [(NONE, 0, 3), ("shop", 0, 7), (REST, 90, 90)]);
        assert_eq!((heading.samples, flame.total()), (100, 100));
        let note = heading.warnings.last().unwrap();
        assert!(note.message.starts_with("90 samples (90.0 %)"), "{note:?}");
        assert!(super::flame(counted(0)).0.warnings.iter().all(|note| note.code != "other-stacks"));
    }
}

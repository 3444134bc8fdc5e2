//! Costs: the share of each region in the samples of continuous profiles, found as this run finds it in its own.

use crate::arguments::Granularity;
use crate::naming::Naming;
use crate::owner::{self, Question, owner};
use crate::region::{RegionIndex, RegionSpec};
use archive::{ImageId, Offset, Tree, UnixSeconds};
use cycles::last;
use profile::{Region, RegionKind};
use std::collections::HashMap;
use symbols::Frame;

/// A region that is not known by its index: without what differs between machines that run the same program.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct RegionKey {
    kind: RegionKind,
    name: String,
    /// The last part of its path, and that of the image.
    file: String,
    image: String,
}

impl RegionKey {
    fn of(region: &Region) -> Self {
        Self {
            kind: region.kind,
            name: region.name.clone(),
            file: last(region.file.as_deref().unwrap_or_default()).to_owned(),
            image: last(&region.image.path).to_owned(),
        }
    }
}

/// What a region costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// Of all samples, 0 to 1.
    pub share: f64,
    pub samples: u64,
}

/// Which samples they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    pub since: UnixSeconds,
    pub until: UnixSeconds,
    pub hosts: u32,
}

/// What regions cost.
#[derive(Clone, Debug, Default)]
pub struct Costs {
    pub span: Span,
    /// All samples of the program.
    pub samples: u64,
    /// Of these, those in code of its images that has no name.
    pub nameless: u64,
    regions: HashMap<RegionKey, u64>,
    /// Those that the user has named.
    specs: Vec<u64>,
    /// Lines of another build are elsewhere.
    has_lines: bool,
}

/// What is at a position.
pub enum Code {
    /// Nothing that could be a region: another image.
    Foreign,
    /// Unknown code of an image that could have regions.
    Nameless,
    /// Its frames, innermost first, and the image.
    Known(Vec<Frame>, String),
    /// Code of another build than the one that counts.
    OtherBuild,
}

/// How samples become costs.
pub struct Rules<'a> {
    pub naming: Naming,
    pub specs: &'a [RegionSpec],
    /// Whether the build is the one that is run.
    pub same_build: bool,
}

/// What is at a position, for all stacks that it is on.
#[derive(Default)]
struct Piece {
    owner: owner::Code<u32>,
    nameless: bool,
    other_build: bool,
}

impl Costs {
    /// Adds up all stacks. `code` says what is at a position.
    pub fn new(tree: &Tree, rules: &Rules<'_>, code: impl Fn(ImageId, Offset) -> Code) -> Self {
        let mut numbers: HashMap<RegionKey, u32> = HashMap::new();
        let pieces: Vec<Piece> = tree
            .positions
            .iter()
            .map(|(image, offset)| Piece::new(code(*image, *offset), rules, &mut numbers))
            .collect();
        let mut sums = vec![0; numbers.len()];
        let mut paths: HashMap<(u32, u32), u64> = HashMap::new();
        let mut costs =
            Self { specs: vec![0; rules.specs.len()], has_lines: rules.same_build, ..Self::default() };
        let question = Question {
            specs: rules.specs,
            points: false,
            caller: rules.naming.granularity == Granularity::Path,
        };
        for (leaf, count) in tree.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let stack = || {
                let callers = std::iter::successors(Some(leaf), |at| tree.parent(*at));
                callers.map(|at| &pieces[tree.places[at] as usize])
            };
            if stack().any(|piece| piece.other_build) {
                continue;
            }
            let found = owner(stack().map(|piece| &piece.owner), question);
            costs.samples += count;
            // What is called from code without a name may be in code without a name.
            let is_nameless = found.function.is_none() && stack().any(|piece| piece.nameless);
            costs.nameless += if is_nameless { *count } else { 0 };
            for number in [found.function, found.line].into_iter().flatten() {
                sums[number as usize] += count;
            }
            found.named.iter().for_each(|spec| costs.specs[*spec] += count);
            if let (Some(function), Some(caller), true) = (found.function, found.caller, question.caller) {
                *paths.entry((function, caller)).or_default() += count;
            }
        }
        let mut names: Vec<Option<RegionKey>> = vec![None; sums.len()];
        numbers.into_iter().for_each(|(key, number)| names[number as usize] = Some(key));
        let name = |number: u32| names[number as usize].clone();
        for ((function, caller), count) in paths {
            let Some((function, caller)) = name(function).zip(name(caller)) else { continue };
            let path = format!("{}@{}", function.name, caller.name);
            costs.regions.insert(RegionKey { name: path, ..function }, count);
        }
        costs.regions.extend(names.into_iter().flatten().zip(sums));
        costs
    }

    /// What a region costs; `index` among all of this run. `None` where the samples cannot say.
    pub fn of(&self, RegionIndex(index): RegionIndex, region: &Region, named: bool) -> Option<Cost> {
        let is_line = region.kind == RegionKind::Line;
        if self.samples == 0 || is_line && !self.has_lines {
            return None;
        }
        let samples = match named {
            true => self.specs.get(index).copied()?,
            false => self.regions.get(&RegionKey::of(region)).copied().unwrap_or(0),
        };
        Some(self.cost(samples))
    }

    fn cost(&self, samples: u64) -> Cost {
        Cost { share: samples as f64 / self.samples.max(1) as f64, samples }
    }

    /// Functions (or modules) that cost at least `share` and for which `ran` is not true, the costliest first.
    pub fn unseen<'r>(&self, share: f64, ran: impl Iterator<Item = &'r Region>) -> Vec<(String, f64)> {
        let ran: std::collections::HashSet<RegionKey> = ran.map(RegionKey::of).collect();
        let is_function = |key: &RegionKey| key.kind == RegionKind::Function && !key.name.contains('@');
        let mut unseen: Vec<(String, f64)> = self
            .regions
            .iter()
            .filter(|(key, _)| is_function(key) && !ran.contains(key))
            .map(|(key, samples)| (key.name.clone(), self.cost(*samples).share))
            .filter(|(_, of_region)| *of_region >= share)
            .collect();
        unseen.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        unseen
    }
}

impl Piece {
    fn new(code: Code, rules: &Rules<'_>, numbers: &mut HashMap<RegionKey, u32>) -> Self {
        let (frames, image) = match code {
            Code::Foreign => return Self::default(),
            Code::Nameless => return Self { nameless: true, ..Self::default() },
            Code::OtherBuild => return Self { other_build: true, ..Self::default() },
            Code::Known(frames, image) => (frames, image),
        };
        let mut number = |kind, frame: &Frame| {
            let (name, file) = rules.naming.of(kind, frame);
            let file = last(file.as_deref().unwrap_or_default()).to_owned();
            let next = numbers.len() as u32;
            *numbers.entry(RegionKey { kind, name, file, image: image.clone() }).or_insert(next)
        };
        Self { owner: owner::Code::new(&frames, rules.specs, &mut number), ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use archive::Node;
    use profile::Image;
    use symbols::FunctionName;

    fn frame(function: &str, line: u32, in_scope: bool) -> Frame {
        Frame {
            function: FunctionName::from_demangled(function),
            file: Some("/src/of/a.c".into()),
            line: Some(line),
            in_scope,
        }
    }

    /// 1: `main`, 2: `work` with `tiny` inlined into it, 3: a library, 4: `rest`, 5: unknown code, 6: another build.
    fn code(_: ImageId, Offset(offset): Offset) -> Code {
        let known = |frames| Code::Known(frames, "server".to_owned());
        match offset {
            1 => known(vec![frame("main", 10, true)]),
            2 => known(vec![frame("tiny", 20, true), frame("work(int)", 31, true)]),
            4 => known(vec![frame("memcpy", 1, false), frame("rest", 40, true)]),
            5 => Code::Nameless,
            6 => Code::OtherBuild,
            _ => Code::Foreign,
        }
    }

    /// Nodes as parent, offset and samples.
    fn tree(nodes: &[(u32, u64, u64)]) -> Tree {
        Tree {
            positions: (0..7).map(|offset| (ImageId::new(1), Offset(offset))).collect(),
            parents: nodes.iter().map(|(parent, ..)| *parent).collect(),
            places: nodes.iter().map(|(_, offset, _)| *offset as u32).collect(),
            counts: nodes.iter().map(|(.., count)| *count).collect(),
        }
    }

    fn region(kind: RegionKind, name: &str) -> Region {
        Region {
            kind,
            inclusive: false,
            name: name.to_owned(),
            function: None,
            file: Some("/elsewhere/a.c".to_owned()),
            line: None,
            image: Image { path: "/srv/server".to_owned(), build_id: None },
        }
    }

    fn costs(granularity: Granularity, specs: &[&str], same_build: bool) -> Costs {
        let specs: Vec<RegionSpec> = specs.iter().map(|spec| RegionSpec::parse(spec)).collect();
        let naming = Naming { granularity, instances: false };
        let rules = Rules { naming, specs: &specs, same_build };
        // main → work → library; main → rest; unknown code → library; another build.
        let nodes = [
            (Node::NONE, 1, 10),
            (0, 2, 30),
            (1, 3, 20),
            (0, 4, 20),
            (Node::NONE, 5, 5),
            (4, 3, 15),
            (Node::NONE, 6, 1000),
        ];
        Costs::new(&tree(&nodes), &rules, code)
    }

    #[test]
    fn samples_belong_to_the_first_frame_in_scope() {
        let costs = costs(Granularity::Auto, &[], true);
        assert_eq!((costs.samples, costs.nameless), (100, 20));
        let of = |kind, name| costs.of(RegionIndex(0), &region(kind, name), false).unwrap().samples;
        for (name, samples) in [("main", 10), ("tiny", 50), ("work", 0), ("rest", 20), ("memcpy", 0)] {
            assert_eq!(of(RegionKind::Function, name), samples, "{name}");
        }
        for (name, samples) in [("a.c:20", 50), ("a.c:31", 0), ("a.c:40", 20)] {
            assert_eq!(of(RegionKind::Line, name), samples, "{name}");
        }
        assert_eq!(
            costs.of(RegionIndex(0), &region(RegionKind::Function, "tiny"), false),
            Some(Cost { share: 0.5, samples: 50 })
        );
    }

    #[test]
    fn what_the_user_names_has_all_it_calls() {
        let specs = ["work", "main", "a.c:31", "tiny@main", "rest@work"];
        let costs = costs(Granularity::Auto, &specs, true);
        let samples: Vec<u64> = (0..specs.len())
            .map(|nth| {
                costs.of(RegionIndex(nth), &region(RegionKind::Function, "any"), true).unwrap().samples
            })
            .collect();
        assert_eq!(samples, [50, 80, 50, 50, 0]);
    }

    #[test]
    fn callers_are_told_apart_and_modules_are_added_up() {
        let paths = costs(Granularity::Path, &[], true);
        assert_eq!(
            paths.of(RegionIndex(0), &region(RegionKind::Function, "tiny@main"), false).unwrap().samples,
            50
        );
        let modules = costs(Granularity::Module, &[], true);
        assert_eq!(
            modules.of(RegionIndex(0), &region(RegionKind::Function, "a.c"), false).unwrap().samples,
            80
        );
    }

    #[test]
    fn lines_of_another_build_are_not_known() {
        let costs = costs(Granularity::Auto, &[], false);
        assert_eq!(costs.of(RegionIndex(0), &region(RegionKind::Line, "a.c:20"), false), None);
        assert_eq!(
            costs.of(RegionIndex(0), &region(RegionKind::Function, "rest"), false).unwrap().samples,
            20
        );
        assert_eq!(Costs::default().of(RegionIndex(0), &region(RegionKind::Function, "rest"), false), None);
    }

    #[test]
    fn what_is_hot_and_did_not_run_is_found() {
        let costs = costs(Granularity::Auto, &[], true);
        let ran = [region(RegionKind::Function, "tiny")];
        assert_eq!(costs.unseen(0.05, ran.iter()), [("rest".to_owned(), 0.2), ("main".to_owned(), 0.1)]);
        assert_eq!(costs.unseen(0.15, ran.iter()), [("rest".to_owned(), 0.2)]);
    }
}

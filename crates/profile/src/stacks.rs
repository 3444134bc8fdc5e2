//! The call tree of a recording: who called whom, where the samples are, and which regions the functions and lines are.
//!
//! What a function is worth is what its region is worth: the estimates are not changed by where it is called.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::model::{Function, FunctionId, Region, RegionId, RegionKind, Rows, SessionId, StackId};
use crate::units::Nanos;

/// Samples, and the CPU time they stand for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// How many.
    pub count: u64,
    /// The CPU time.
    pub weight: Nanos,
}

/// The stacks of some runs as one tree.
#[derive(Clone, Debug, Default)]
pub struct CallTree<'a> {
    /// The functions on them.
    pub functions: Vec<CalledFunction<'a>>,
    /// Frames, callers before what they call.
    pub calls: Vec<Call>,
    /// All samples that have a stack.
    pub all: Tally,
    /// The part of them of which the outermost frames are not known.
    pub truncated: Tally,
    /// Samples of these runs without a stack: there were more different ones than are kept, or the recording is of an earlier
    /// version.
    pub missing: Tally,
}

/// A function on stacks.
#[derive(Clone, Copy, Debug)]
pub struct CalledFunction<'a> {
    /// Which one.
    pub function: &'a Function,
    /// The region that it is, if its own code was sampled in scope.
    pub region: Option<RegionId>,
    /// Samples in its own code.
    pub own: Tally,
    /// Samples with it on the stack, each once.
    pub total: Tally,
}

/// A frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// The frame that called it, by its position.
    pub parent: Option<usize>,
    /// The function, by its position.
    pub function: usize,
    /// The line that was sampled, or that made the call; `None` where that is unknown.
    pub line: Option<u32>,
    /// Whether it is part of its caller's code.
    pub inlined: bool,
    /// The region that the line is.
    pub region: Option<RegionId>,
    /// Samples of which it is the innermost frame.
    pub own: Tally,
    /// Samples with it on the stack.
    pub total: Tally,
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Tally) {
        self.count = self.count.saturating_add(other.count);
        self.weight += other.weight;
    }
}

impl Tally {
    /// What is left without `other`.
    pub fn without(self, other: Tally) -> Tally {
        Tally {
            count: self.count.saturating_sub(other.count),
            weight: self.weight.saturating_sub(other.weight),
        }
    }
}

impl<'a> CallTree<'a> {
    /// The stacks of all runs.
    pub fn new(rows: &'a Rows) -> CallTree<'a> {
        CallTree::of(rows, |_| true)
    }

    /// The stacks of the runs that `meant` is true for.
    pub fn of(rows: &'a Rows, meant: impl Fn(SessionId) -> bool) -> CallTree<'a> {
        let mut tree = CallTree::default();
        let mut own: BTreeMap<StackId, Tally> = BTreeMap::new();
        for samples in rows.stack_samples.iter().filter(|samples| meant(samples.session)) {
            let tally = Tally { count: samples.count, weight: samples.weight };
            *own.entry(samples.stack).or_default() += tally;
            tree.all += tally;
        }
        let sessions = rows.sessions.iter().filter(|session| meant(session.id));
        let mut every = Tally::default();
        for totals in sessions.map(|session| session.samples) {
            every += Tally { count: totals.count, weight: totals.weight };
        }
        tree.missing = every.without(tree.all);
        tree.grow(rows, own);
        tree.add_up();
        tree
    }

    /// Takes the frames of all stacks with samples.
    fn grow(&mut self, rows: &'a Rows, own: BTreeMap<StackId, Tally>) {
        let mut kept: BTreeSet<StackId> = BTreeSet::new();
        for stack in own.keys() {
            let mut next = Some(*stack);
            while let Some(id) = next.filter(|id| kept.insert(*id)) {
                next = rows.stacks[&id].parent;
            }
        }
        let regions = Regions::of(rows);
        let mut functions: HashMap<FunctionId, usize> = HashMap::new();
        let mut calls: HashMap<StackId, usize> = HashMap::new();
        for id in kept {
            let frame = &rows.stacks[&id];
            let function = *functions.entry(frame.function).or_insert_with(|| {
                let function = &rows.functions[&frame.function];
                self.functions.push(CalledFunction {
                    function,
                    region: regions.function(function),
                    own: Tally::default(),
                    total: Tally::default(),
                });
                self.functions.len() - 1
            });
            let of = self.functions[function].function;
            let tally = own.get(&id).copied().unwrap_or_default();
            self.calls.push(Call {
                parent: frame.parent.map(|parent| calls[&parent]),
                function,
                line: frame.line,
                inlined: frame.inlined,
                region: frame.line.and_then(|line| regions.line(of, line)),
                own: tally,
                total: tally,
            });
            calls.insert(id, self.calls.len() - 1);
        }
    }

    fn add_up(&mut self) {
        for nth in (0..self.calls.len()).rev() {
            let Call { parent, function, own, total, .. } = self.calls[nth];
            if let Some(parent) = parent {
                self.calls[parent].total += total;
            }
            self.functions[function].own += own;
        }
        let mut called: Vec<Vec<usize>> = vec![Vec::new(); self.calls.len()];
        let mut left: Vec<Step> = Vec::new();
        for (nth, call) in self.calls.iter().enumerate() {
            match call.parent {
                Some(parent) => called[parent].push(nth),
                None => left.push(Step::Enter(nth)),
            }
        }
        // How many frames of each function are around the one that is looked at.
        let mut around = vec![0_u32; self.functions.len()];
        while let Some(step) = left.pop() {
            match step {
                Step::Enter(nth) => {
                    let Call { parent, function, total, .. } = self.calls[nth];
                    // A function that calls itself has each sample once.
                    if around[function] == 0 {
                        self.functions[function].total += total;
                    }
                    let is_outermost = parent.is_none_or(|parent| self.is_program(parent));
                    if is_outermost && self.functions[function].function.is_truncated() {
                        self.truncated += total;
                    }
                    around[function] += 1;
                    left.push(Step::Leave(function));
                    left.extend(called[nth].drain(..).map(Step::Enter));
                }
                Step::Leave(function) => around[function] -= 1,
            }
        }
    }

    /// Whether a frame, by its position, stands for a program.
    pub fn is_program(&self, call: usize) -> bool {
        self.functions[self.calls[call].function].function.is_program()
    }

    /// A frame and its callers, from the inside.
    pub fn callers(&self, from: Option<usize>) -> impl Iterator<Item = &Call> {
        let call = |nth: usize| &self.calls[nth];
        std::iter::successors(from.map(call), move |of| of.parent.map(call))
    }
}

/// What is left of a walk through the tree.
enum Step {
    /// A frame with all that it calls, by its position.
    Enter(usize),
    /// The end of a frame of this function.
    Leave(usize),
}

/// Regions by what tells them apart on a stack.
struct Regions<'a> {
    functions: HashMap<(&'a str, Option<&'a str>, &'a str), RegionId>,
    lines: HashMap<(&'a str, u32, &'a str), RegionId>,
    /// Those that the user has named, with all they call.
    named: Vec<(RegionId, &'a Region)>,
}

impl<'a> Regions<'a> {
    fn of(rows: &'a Rows) -> Regions<'a> {
        let mut regions = Regions { functions: HashMap::new(), lines: HashMap::new(), named: Vec::new() };
        for (id, region) in &rows.regions {
            let (file, image) = (region.file.as_deref(), region.image_key());
            match (region.kind, file, region.line) {
                (RegionKind::Function, ..) if region.inclusive => regions.named.push((*id, region)),
                (RegionKind::Function, ..) => {
                    regions.functions.insert((&region.name, file, image), *id);
                }
                (RegionKind::Line, Some(file), Some(line)) => {
                    regions.lines.insert((file, line, image), *id);
                }
                (RegionKind::Line, ..) => {}
            }
        }
        regions
    }

    fn function(&self, function: &Function) -> Option<RegionId> {
        let image = function.image.key();
        let is_named = |region: &Region| {
            let rest = function.name.strip_suffix(region.name.as_str());
            region.image_key() == image && rest.is_some_and(|rest| rest.is_empty() || rest.ends_with("::"))
        };
        // Where the user names regions, experiments are about no others.
        let named = self.named.iter().find(|(_, region)| is_named(region)).map(|(id, _)| *id);
        let exact = (function.name.as_str(), function.file.as_deref(), image);
        named.or_else(|| self.functions.get(&exact).copied())
    }

    fn line(&self, function: &Function, line: u32) -> Option<RegionId> {
        self.lines.get(&(function.file.as_deref()?, line, function.image.key())).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Frame, Image, SampleTotals, Session, SessionStart, StackSamples};

    fn function(name: &str) -> Function {
        let image = Image { path: "/bin/server".into(), build_id: Some("ab12".into()) };
        Function { name: name.into(), file: Some(format!("/src/{name}.c")), image }
    }

    fn region(name: &str, line: Option<u32>) -> Region {
        let Function { image, .. } = function(name);
        Region {
            kind: if line.is_some() { RegionKind::Line } else { RegionKind::Function },
            inclusive: false,
            name: line.map_or(name.to_owned(), |line| format!("{name}.c:{line}")),
            function: Some(name.to_owned()),
            file: Some(format!("/src/{name}.c")),
            line: line.or(Some(1)),
            image,
        }
    }

    /// `main` calls `work`, which calls itself; another stack of `work` is truncated.
    fn rows() -> Rows {
        let mut rows = Rows::default();
        for id in [1, 2] {
            rows.sessions.push(Session {
                id: SessionId::new(id),
                start: SessionStart::default(),
                end: None,
                samples: SampleTotals { count: 20, weight: Nanos::new(200), ..SampleTotals::default() },
                images: vec![],
                arrivals: vec![],
                programs: vec![],
                threads: vec![],
                overhead: vec![],
            });
        }
        let functions = [function("main"), function("work"), Function::truncated(), function("idle")];
        rows.functions = (1..).map(FunctionId::new).zip(functions).collect();
        let frames = [(0, 1, 3), (1, 2, 7), (2, 2, 9), (0, 3, 0), (4, 2, 7), (1, 4, 5)];
        rows.stacks = (1..)
            .map(StackId::new)
            .zip(frames.map(|(parent, function, line)| Frame {
                parent: Some(parent).filter(|parent| *parent > 0).map(StackId::new),
                function: FunctionId::new(function),
                line: Some(line).filter(|line| *line > 0),
                inlined: false,
            }))
            .collect();
        rows.stack_samples = [(1, 2, 1), (1, 3, 4), (1, 5, 2), (2, 3, 10)]
            .map(|(session, stack, count)| StackSamples {
                session: SessionId::new(session),
                stack: StackId::new(stack),
                count,
                weight: Nanos::new(10 * count),
            })
            .into();
        let regions = [region("work", None), region("work", Some(9)), region("other", None)];
        rows.regions = (1..).map(RegionId::new).zip(regions).collect();
        rows
    }

    #[test]
    fn samples_add_up() {
        let rows = rows();
        let tree = CallTree::new(&rows);
        let tally = |count| Tally { count, weight: Nanos::new(10 * count) };
        assert_eq!((tree.all, tree.truncated, tree.missing), (tally(17), tally(2), tally(23)));
        let of = |name: &str| tree.functions.iter().find(|of| of.function.name == name).unwrap();
        assert_eq!((of("main").own, of("main").total), (tally(0), tally(15)));
        assert_eq!((of("work").own, of("work").total), (tally(17), tally(17)), "each sample once");
        assert!(tree.functions.iter().all(|of| of.function.name != "idle"), "without samples");
        let total: Vec<u64> = tree.calls.iter().map(|call| call.total.count).collect();
        assert_eq!(total, [15, 15, 14, 2, 2]);
        assert_eq!(
            tree.callers(Some(2)).map(|call| call.line).collect::<Vec<_>>(),
            [Some(9), Some(7), Some(3)]
        );
        let second = CallTree::of(&rows, |session| session == SessionId::new(2));
        assert_eq!((second.all, second.missing, second.truncated), (tally(10), tally(10), tally(0)));
    }

    #[test]
    fn functions_and_lines_are_regions() {
        let mut rows = rows();
        let tree = CallTree::new(&rows);
        let region_of =
            |name: &str| tree.functions.iter().find(|of| of.function.name == name).unwrap().region;
        assert_eq!((region_of("work"), region_of("main")), (Some(RegionId::new(1)), None));
        let lines: Vec<Option<RegionId>> = tree.calls.iter().map(|call| call.region).collect();
        assert_eq!(lines, [None, None, Some(RegionId::new(2)), None, None]);
        // Another build's function is not the same.
        rows.regions.get_mut(&RegionId::new(1)).unwrap().image.build_id = Some("cd34".into());
        assert_eq!(CallTree::new(&rows).functions[1].region, None);
        // What the user names may be the end of a name.
        rows.functions.get_mut(&FunctionId::new(2)).unwrap().name = "server::work".into();
        let named = Region { inclusive: true, file: None, ..region("work", None) };
        rows.regions.insert(RegionId::new(3), named);
        assert_eq!(CallTree::new(&rows).functions[1].region, Some(RegionId::new(3)));
        // It is what experiments were about.
        rows.functions.get_mut(&FunctionId::new(2)).unwrap().name = "work".into();
        rows.regions.get_mut(&RegionId::new(1)).unwrap().image.build_id = Some("ab12".into());
        assert_eq!(CallTree::new(&rows).functions[1].region, Some(RegionId::new(3)));
    }
}

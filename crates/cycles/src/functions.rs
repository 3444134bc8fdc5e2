//! What samples are added up by: functions, lines and images; alone, and with all they call.

use super::names::Names;
use archive::{ImageId, Node, Position, Tree};
use std::collections::HashMap;
use symbols::FunctionName;

/// What positions are gathered under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gather {
    /// The image.
    Image,
    /// The function.
    Function,
    /// The source line of every function at a position.
    Line,
}

/// Something that samples are added up for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// The image.
    pub image: ImageId,
    /// The name in the image.
    pub name: String,
}

/// The keys that have been met.
pub struct Keys<'a> {
    names: &'a Names,
    gather: Gather,
    all: Vec<Key>,
    numbers: HashMap<Key, u32>,
    /// Names of generated code are not those of any language that is known here.
    bases: HashMap<(&'a str, bool), String>,
}

impl<'a> Keys<'a> {
    /// No keys yet; `names` has learned what they will be asked for.
    pub fn new(names: &'a Names, gather: Gather) -> Keys<'a> {
        Keys { names, gather, all: Vec::new(), numbers: HashMap::new(), bases: HashMap::new() }
    }

    /// Everything that was met.
    pub fn all(&self) -> &[Key] {
        &self.all
    }

    /// What a position is counted for, innermost first; there is at least one.
    pub fn of(&mut self, (image, offset): Position) -> Vec<u32> {
        let names = self.names;
        let symbols = names.symbols(image, offset);
        let nameless = |keys: &mut Keys<'a>| vec![keys.number(image, names.nameless(image))];
        match self.gather {
            Gather::Image => vec![self.number(image, names.image(image).path)],
            Gather::Function if symbols.is_empty() => nameless(self),
            Gather::Function => {
                let mut found = Vec::with_capacity(symbols.len());
                for symbol in symbols {
                    let base = self.base(image, &symbol.function);
                    found.push(self.number(image, base));
                }
                found
            }
            Gather::Line => {
                let mut found = Vec::with_capacity(symbols.len());
                for symbol in symbols {
                    let name = match (symbol.file.rsplit('/').next(), symbol.line) {
                        (Some(file), line) if !file.is_empty() && line > 0 => {
                            format!("{file}:{line} {}", self.base(image, &symbol.function))
                        }
                        _ => self.base(image, &symbol.function),
                    };
                    found.push(self.number(image, name));
                }
                if found.is_empty() { nameless(self) } else { found }
            }
        }
    }

    fn base(&mut self, image: ImageId, function: &'a str) -> String {
        let is_verbatim = self.names.is_verbatim(image);
        self.bases.entry((function, is_verbatim)).or_insert_with(|| base(function, is_verbatim)).clone()
    }

    fn number(&mut self, image: ImageId, name: String) -> u32 {
        let key = Key { image, name };
        if let Some(known) = self.numbers.get(&key) {
            return *known;
        }
        let new = self.all.len() as u32;
        self.all.push(key.clone());
        self.numbers.insert(key, new);
        new
    }
}

/// The name that all instances of a function share.
pub fn base(function: &str, is_verbatim: bool) -> String {
    name(function, is_verbatim).base().to_owned()
}

/// A name as it was stored.
pub fn name(function: &str, is_verbatim: bool) -> FunctionName {
    if is_verbatim { FunctionName::verbatim(function) } else { FunctionName::from_demangled(function) }
}

/// What something costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Samples in it.
    pub own: u64,
    /// Samples in it and in all it calls: each sample once, however often it is on the stack.
    pub total: u64,
}

/// Samples of each frame and of all that it calls.
pub fn totals(tree: &Tree) -> Vec<u64> {
    let mut totals = tree.counts.clone();
    for nth in (0..tree.len()).rev() {
        if let Some(parent) = tree.parent(nth) {
            totals[parent] += totals[nth];
        }
    }
    totals
}

/// What each key costs, by its number. `of` gives the keys of a frame, innermost first.
pub fn tally<'k>(tree: &Tree, keys: usize, of: impl Fn(usize) -> &'k [u32]) -> Vec<Tally> {
    let mut tallies = vec![Tally::default(); keys];
    let totals = totals(tree);
    // How often each key is on the stack.
    let mut depths = vec![0_u32; keys];
    walk(tree, |nth, step| {
        let here = of(nth);
        if step == Step::Return {
            here.iter().for_each(|key| depths[*key as usize] -= 1);
            return;
        }
        if let Some(innermost) = here.first() {
            tallies[*innermost as usize].own += tree.counts[nth];
        }
        for key in here {
            let depth = &mut depths[*key as usize];
            if *depth == 0 {
                tallies[*key as usize].total += totals[nth];
            }
            *depth += 1;
        }
    });
    tallies
}

/// What happens to a frame on a walk through a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Before everything that the frame calls.
    Call,
    /// After everything that the frame calls.
    Return,
}

/// Walks through all stacks as if they were executed one after the other.
fn walk(tree: &Tree, mut each: impl FnMut(usize, Step)) {
    let count = tree.len();
    // The first frame that each one calls (at the end: the first without a caller), and the next that its caller calls.
    let mut first = vec![Node::NONE; count + 1];
    let mut next = vec![Node::NONE; count];
    for nth in (0..count).rev() {
        let caller = tree.parent(nth).unwrap_or(count);
        next[nth] = std::mem::replace(&mut first[caller], nth as u32);
    }
    let mut at = first[count];
    while at != Node::NONE {
        each(at as usize, Step::Call);
        if first[at as usize] != Node::NONE {
            at = first[at as usize];
            continue;
        }
        while at != Node::NONE {
            each(at as usize, Step::Return);
            if next[at as usize] != Node::NONE {
                at = next[at as usize];
                break;
            }
            at = tree.parents[at as usize];
        }
    }
}

/// What each key costs: [`tally`] of the keys of the tree's positions.
pub fn tally_of(tree: &Tree, keys: &mut Keys<'_>) -> Vec<Tally> {
    let of: Vec<Vec<u32>> = tree.positions.iter().map(|position| keys.of(*position)).collect();
    tally(tree, keys.all.len(), |nth| &of[tree.places[nth] as usize])
}

/// What some of the samples of a tree cost each key, by its number: those of these frames.
pub struct Partly<'a> {
    tree: &'a Tree,
    /// The keys of each position, innermost first.
    of: Vec<Vec<u32>>,
    /// For which of the samples each key was last counted.
    counted: Vec<u64>,
    samples: u64,
}

impl<'a> Partly<'a> {
    /// Of the samples of this tree.
    pub fn new(tree: &'a Tree, keys: &mut Keys<'_>) -> Self {
        let of = tree.positions.iter().map(|position| keys.of(*position)).collect();
        Self { tree, of, counted: vec![0; keys.all().len()], samples: 0 }
    }

    /// What these frames, with samples of their own, cost.
    pub fn tally(&mut self, leaves: &[(u32, u64)]) -> HashMap<u32, Tally> {
        let mut tallies: HashMap<u32, Tally> = HashMap::new();
        for &(leaf, count) in leaves {
            self.samples += 1;
            let mut at = Some(leaf as usize);
            if let Some(innermost) = self.of[self.tree.places[leaf as usize] as usize].first() {
                tallies.entry(*innermost).or_default().own += count;
            }
            while let Some(frame) = at {
                for key in &self.of[self.tree.places[frame] as usize] {
                    if std::mem::replace(&mut self.counted[*key as usize], self.samples) != self.samples {
                        tallies.entry(*key).or_default().total += count;
                    }
                }
                at = self.tree.parent(frame);
            }
        }
        tallies
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use archive::Offset;

    fn tree(nodes: &[(u32, u64)]) -> Tree {
        Tree {
            positions: vec![(ImageId::new(1), Offset(1))],
            parents: nodes.iter().map(|(parent, _)| *parent).collect(),
            places: vec![0; nodes.len()],
            counts: nodes.iter().map(|(_, count)| *count).collect(),
        }
    }

    #[test]
    fn recursion_is_counted_once() {
        // main → work → work → leaf, and main → leaf.
        let tree = tree(&[(Node::NONE, 1), (0, 10), (1, 100), (2, 1000), (0, 10_000)]);
        const KEYS: [&[u32]; 5] = [&[0], &[1], &[1], &[2], &[2]];
        let tallies = tally(&tree, 3, |nth| KEYS[nth]);
        let of = |own, total| Tally { own, total };
        assert_eq!(tallies, [of(1, 11_111), of(110, 1110), of(11_000, 11_000)]);
    }

    #[test]
    fn part_of_the_samples_is_counted_like_all_of_them() {
        let tree = tree(&[(Node::NONE, 1), (0, 10), (1, 100), (2, 1000), (0, 10_000)]);
        let tree = Tree { places: vec![0, 1, 1, 2, 2], ..tree };
        let mut partly =
            Partly { tree: &tree, of: vec![vec![0], vec![1], vec![2]], counted: vec![0; 3], samples: 0 };
        let of = |own, total| Tally { own, total };
        let all: Vec<(u32, u64)> = (0..).zip(tree.counts.iter().copied()).collect();
        let expected = HashMap::from([(0, of(1, 11_111)), (1, of(110, 1110)), (2, of(11_000, 11_000))]);
        assert_eq!(partly.tally(&all), expected);
        let expected = HashMap::from([(0, of(0, 1100)), (1, of(100, 1100)), (2, of(1000, 1000))]);
        assert_eq!(partly.tally(&all[2..4]), expected);
    }

    #[test]
    fn inlined_functions_are_functions_unless_they_are_left_out() {
        let (image, offset) = (ImageId::new(1), Offset(1));
        let symbol = |name: &str| archive::Symbol { function: name.into(), ..archive::Symbol::default() };
        let mut known = archive::KnownPositions::default();
        known.named.insert(offset, vec![symbol("tiny"), symbol("work")]);
        let mut names = Names::of_known([].into(), HashMap::from([(image, known)]));
        let of = |names: &Names| {
            let mut keys = Keys::new(names, Gather::Function);
            keys.of((image, offset))
                .iter()
                .map(|key| keys.all()[*key as usize].name.clone())
                .collect::<Vec<_>>()
        };
        assert_eq!(of(&names), ["tiny", "work"]);
        names.set_inlined(false);
        assert_eq!(of(&names), ["work"]);
        assert_eq!(names.symbols(image, Offset(2)), []);
    }

    #[test]
    fn inlined_functions_share_samples_with_what_they_are_in() {
        // main → (tiny inlined into work, which inlined itself once).
        let tree = tree(&[(Node::NONE, 0), (0, 5)]);
        const KEYS: [&[u32]; 2] = [&[0], &[2, 1, 1]];
        let tallies = tally(&tree, 3, |nth| KEYS[nth]);
        let of = |own, total| Tally { own, total };
        assert_eq!(tallies, [of(0, 5), of(0, 5), of(5, 5)]);
    }
}

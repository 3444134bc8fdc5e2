//! Rare stacks: which callers a segment gives up where it would have too many frames.
//!
//! Callers that many samples share stay: those that have, with all they call, at least as many samples as it takes for the
//! rest to fit. All samples keep their own positions. A sample whose callers do not all stay lies below the innermost one
//! that does, with [`TOO_MANY_STACKS`](super::TOO_MANY_STACKS) in the place of the others:
//!
//! ```text
//! main;run;parse;expression;term        9000 samples        main;run;parse;expression;term
//! main;run;visit;visit;leave;free          1 sample    →    main;run;[callers: too many stacks];free
//! ```
//!
//! So the samples of each position are exact, as are the totals of callers that stay; what is said of others is too low
//! by at most the samples below such marks.

use super::Node;
use super::draft::Outline;
use super::frames::Frames;

/// How many frames are looked at between two breaths.
const BREATH: usize = 8192;

/// Which callers stay: the first frames of an outline.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shared {
    /// How many there are.
    frames: usize,
    /// The image that stands for the others.
    mark: i32,
}

impl Shared {
    /// Where the samples of each of `frames` (caller, image and offset; callers first) are now: `find` gives the index of
    /// a frame that there is, and `add` that of one which there may not be. [`Node::NONE`] where it `has_samples` not.
    pub(super) fn places<State>(
        self,
        state: &mut State,
        frames: impl Iterator<Item = (u32, i32, u64)>,
        has_samples: impl Fn(usize) -> bool,
        find: impl Fn(&State, u32, i32, u64) -> Option<u32>,
        mut add: impl FnMut(&mut State, u32, i32, u64) -> u32,
    ) -> Vec<u32> {
        // The innermost caller that stays, and whether it is the frame itself.
        let mut callers: Vec<(u32, bool)> = Vec::new();
        let mut places = Vec::new();
        for (at, (parent, image, offset)) in frames.enumerate() {
            let (caller, is_direct) = match parent {
                Node::NONE => (Node::NONE, true),
                parent => callers[parent as usize],
            };
            let stays = is_direct.then(|| find(state, caller, image, offset)).flatten();
            if let Some(index) = stays.filter(|&index| (index as usize) < self.frames) {
                callers.push((index, true));
                places.push(index);
                continue;
            }
            callers.push((caller, false));
            places.push(match (has_samples(at), is_direct) {
                (false, _) => Node::NONE,
                (true, true) => add(state, caller, image, offset),
                (true, false) => match add(state, caller, self.mark, 0) {
                    Node::NONE => Node::NONE,
                    mark => add(state, mark, image, offset),
                },
            });
        }
        places
    }

    /// An outline with no frames but these.
    pub(super) fn outline(self, mut of: Outline) -> Outline {
        of.frames.truncate(self.frames);
        Outline { frames: of.frames, ..Outline::default() }
    }
}

/// The same samples with at most so many frames, or with as few as can be: two for each position at most. `mark` is the image that stands for
/// callers which do not stay.
pub(super) fn fold(
    outline: &Outline,
    mark: i32,
    most: usize,
    breathe: &mut dyn FnMut(),
) -> (Outline, Shared) {
    let frames = &outline.frames;
    let own: Vec<u64> = (0..frames.len()).map(|at| outline.samples(at)).collect();
    let mut sums = own.clone();
    for at in (0..frames.len()).rev() {
        if frames.parent(at) != Node::NONE {
            sums[frames.parent(at) as usize] += sums[at];
        }
    }
    let all: u64 = own.iter().sum();
    let mut least = 2;
    loop {
        breathe();
        let (folded, shared, places) = with_callers(frames, &own, &sums, least, mark, breathe);
        if folded.len() > most && least <= all {
            least *= 2;
            continue;
        }
        let mut counts = Outline { frames: folded, ..Outline::default() };
        for (&event, samples) in &outline.counts {
            let of_frames = samples.iter().zip(&places);
            of_frames
                .filter(|(samples, _)| **samples > 0)
                .for_each(|(&samples, &place)| counts.add(event, place, samples));
        }
        return (counts, shared);
    }
}

/// The frames with at least so many samples, and behind them those that the other samples need.
fn with_callers(
    frames: &Frames,
    own: &[u64],
    sums: &[u64],
    least: u64,
    mark: i32,
    breathe: &mut dyn FnMut(),
) -> (Frames, Shared, Vec<u32>) {
    let mut folded = Frames::default();
    let mut indices = vec![Node::NONE; frames.len()];
    for at in 0..frames.len() {
        if sums[at] >= least {
            let parent = match frames.parent(at) {
                Node::NONE => Node::NONE,
                parent => indices[parent as usize],
            };
            indices[at] = folded.intern(parent, frames.image(at), frames.offset(at));
        }
        if at.is_multiple_of(BREATH) {
            breathe();
        }
    }
    let shared = Shared { frames: folded.len(), mark };
    let mut looked_at = 0_usize;
    let all = (0..frames.len()).map(|at| {
        looked_at += 1;
        if looked_at.is_multiple_of(BREATH) {
            breathe();
        }
        (frames.parent(at), frames.image(at), frames.offset(at))
    });
    let places = shared.places(&mut folded, all, |at| own[at] > 0, Frames::find, Frames::intern);
    (folded, shared, places)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const MARK: i32 = 99;

    /// An outline of stacks, outermost frame first, with samples.
    fn outline(stacks: &[(&[u64], u64)]) -> Outline {
        let mut outline = Outline::default();
        for (stack, samples) in stacks {
            let mut at = Node::NONE;
            for &offset in *stack {
                at = outline.frames.intern(at, 1, offset);
            }
            outline.add(7, at, *samples);
        }
        outline
    }

    /// The stacks of an outline; zero stands for callers that did not stay.
    fn stacks(of: &Outline) -> BTreeMap<Vec<u64>, u64> {
        let mut stacks = BTreeMap::new();
        for at in 0..of.frames.len() {
            let samples = of.samples(at);
            let (mut stack, mut frame) = (Vec::new(), at as u32);
            while frame != Node::NONE {
                let image = of.frames.image(frame as usize);
                stack.insert(0, if image == MARK { 0 } else { of.frames.offset(frame as usize) });
                frame = of.frames.parent(frame as usize);
            }
            if samples > 0 {
                *stacks.entry(stack).or_default() += samples;
            }
        }
        stacks
    }

    #[test]
    fn callers_that_many_samples_share_stay() {
        let before = outline(&[
            (&[1, 2, 3], 90),
            (&[1, 2, 4, 5, 6], 1),
            (&[1, 2, 4, 7, 6], 2),
            (&[1, 2, 8], 1),
            (&[9, 6], 1),
            (&[1], 5),
        ]);
        let (after, shared) = fold(&before, MARK, 9, &mut || ());
        let expected: [(&[u64], u64); 6] = [
            (&[1, 2, 3], 90),
            (&[1, 2, 0, 6], 3),
            (&[1, 2, 8], 1),
            // Only one more would be needed to keep this as it is, but the threshold is the same for all.
            (&[0, 6], 1),
            (&[1], 5),
            (&[0; 0], 0),
        ];
        let expected: BTreeMap<Vec<u64>, u64> =
            expected.iter().filter(|(_, n)| *n > 0).map(|(stack, n)| (stack.to_vec(), *n)).collect();
        assert_eq!(stacks(&after), expected);
        // Once more changes nothing, and an outline of the callers only gets the same samples again.
        let (again, _) = fold(&after, MARK, 9, &mut || ());
        assert_eq!(stacks(&again), expected);
        let mut anew = shared.outline(after);
        let frames = &before.frames;
        let all = (0..frames.len()).map(|at| (frames.parent(at), frames.image(at), frames.offset(at)));
        let places =
            shared.places(&mut anew.frames, all, |at| before.samples(at) > 0, Frames::find, Frames::intern);
        for (at, place) in places.into_iter().enumerate().filter(|(_, place)| *place != Node::NONE) {
            anew.add(7, place, before.samples(at));
        }
        assert_eq!(stacks(&anew), expected);
    }

    #[test]
    fn no_more_frames_than_asked_for_or_as_few_as_can_be() {
        let mut random = fastrand::Rng::with_seed(3);
        let mut before = Outline::default();
        for _ in 0..20_000 {
            let mut at = Node::NONE;
            for _ in 0..8 {
                at = before.frames.intern(at, 1, random.u64(..300).pow(2) / 300);
            }
            before.add(random.i32(0..2), at, 1);
        }
        for most in [40_000, 10_000, 1000] {
            let (after, _) = fold(&before, MARK, most, &mut || ());
            assert!(after.frames.len() <= most, "{} of {most}", after.frames.len());
            for event in 0..2 {
                let positions = |of: &Outline| {
                    let mut sums: BTreeMap<u64, u64> = BTreeMap::new();
                    for (at, &samples) in of.counts[&event].iter().enumerate().filter(|(_, n)| **n > 0) {
                        *sums.entry(of.frames.offset(at)).or_default() += samples;
                    }
                    sums
                };
                assert_eq!(positions(&before), positions(&after));
            }
        }
        let (fewest, _) = fold(&before, MARK, 10, &mut || ());
        let positions: std::collections::BTreeSet<u64> = (0..before.frames.len())
            .filter(|&at| before.samples(at) > 0)
            .map(|at| before.frames.offset(at))
            .collect();
        assert!(fewest.frames.len() <= 2 * positions.len() + 1);
    }
}

//! A stack of C functions whose interpreter's frames are replaced by those of what it interprets.
//!
//! One call of `_PyEval_EvalFrameDefault` executes a run of Python functions, each called by the next one. On its part of the C stack it keeps
//! something that the interpreter's own list of frames leads to, and so it is certain which call executes which run, without a name or a guess.

/// The stack of C functions, innermost first.
#[derive(Clone, Copy, Debug)]
pub struct Native<'a> {
    pub addresses: &'a [u64],
    /// Where on the stack each of them ends, and the next one begins; of the outermost ones it may be unknown.
    pub ends: &'a [u64],
    /// Where the innermost one begins.
    pub stack_pointer: u64,
    /// Callers are missing.
    pub is_cut: bool,
}

/// Python functions that are executed by one call of the interpreter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Something on the C stack that belongs to this call, where it is known.
    pub place: Option<u64>,
    /// How many they are.
    pub frames: usize,
    /// None are missing.
    pub is_whole: bool,
}

/// What came of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Merged {
    /// All runs are there, as far as the C stack is known.
    Whole,
    /// The last run is not whole: its outermost frames, and all that is outside of them, are missing.
    Cut,
    /// The two do not belong together, or there are no frames of an interpreter.
    #[default]
    No,
}

/// Puts into `merged` the stack with `frames` (innermost first; those of one run after those of another) in the places of the calls that execute
/// them. Where the place of a run is unknown, `is_evaluator` tells (by their numbers in the stack) which calls could execute it.
pub fn merge(
    native: &Native<'_>,
    runs: &[Run],
    frames: &[u64],
    is_evaluator: impl Fn(usize) -> bool,
    merged: &mut Vec<u64>,
) -> Merged {
    merged.clear();
    // The C function at hand, and how many Python functions are in the result.
    let (mut at, mut done) = (0, 0);
    for run in runs {
        let place = match run.place {
            Some(place) => position(native, at, place),
            None => match (at..native.addresses.len()).find(|nth| is_evaluator(*nth)) {
                Some(nth) => Position::At(nth),
                None if native.is_cut => Position::Outside,
                None => Position::Nowhere,
            },
        };
        match place {
            Position::At(nth) => {
                merged.extend_from_slice(&native.addresses[at..nth]);
                let own = &frames[done..done + run.frames];
                // One that is starting executes nothing yet.
                if own.is_empty() {
                    merged.push(native.addresses[nth]);
                }
                merged.extend_from_slice(own);
                (at, done) = (nth + 1, done + run.frames);
                if !run.is_whole {
                    return Merged::Cut;
                }
            }
            Position::Outside => break,
            Position::Nowhere => return Merged::No,
        }
    }
    merged.extend_from_slice(&native.addresses[at..]);
    Merged::Whole
}

enum Position {
    At(usize),
    /// Beyond what is known of the C stack.
    Outside,
    Nowhere,
}

/// The C function, this one or one that is further out, whose part of the stack a place is in.
fn position(native: &Native<'_>, from: usize, place: u64) -> Position {
    let begin = |nth: usize| nth.checked_sub(1).map_or(native.stack_pointer, |before| native.ends[before]);
    let inside = |nth: &usize| (begin(*nth)..native.ends[*nth]).contains(&place);
    let known = native.ends.len().min(native.addresses.len());
    match (from..known).find(inside) {
        Some(nth) => Position::At(nth),
        None if native.is_cut && native.ends.last().is_none_or(|end| place >= *end) => Position::Outside,
        None => Position::Nowhere,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `list_sort` (10), the interpreter (20), `call` (30), the interpreter (40), `main` (50).
    const NATIVE: Native<'_> = Native {
        addresses: &[10, 20, 30, 40, 50],
        ends: &[110, 150, 160, 200],
        stack_pointer: 100,
        is_cut: false,
    };

    fn merged(native: Native<'_>, runs: &[(Option<u64>, usize)]) -> (Merged, Vec<u64>) {
        let frames: Vec<u64> = (1..=9).collect();
        let runs: Vec<Run> =
            runs.iter().map(|&(place, frames)| Run { place, frames, is_whole: place.is_some() }).collect();
        let mut merged = vec![77];
        let end = merge(&native, &runs, &frames, |nth| matches!(nth, 1 | 3), &mut merged);
        (end, merged)
    }

    #[test]
    fn each_run_is_in_the_place_of_the_call_that_executes_it() {
        let whole = |runs: &[(Option<u64>, usize)], expected: &[u64]| {
            assert_eq!(merged(NATIVE, runs), (Merged::Whole, expected.to_vec()), "{runs:?}");
        };
        whole(&[(Some(120), 2), (Some(160), 3)], &[10, 1, 2, 30, 3, 4, 5, 50]);
        whole(&[(Some(110), 1), (Some(199), 1)], &[10, 1, 30, 2, 50]);
        // An interpreter that is starting, with or without something on the stack; none.
        whole(&[(Some(160), 3)], &[10, 20, 30, 1, 2, 3, 50]);
        whole(&[(Some(120), 0), (Some(160), 3)], &[10, 20, 30, 1, 2, 3, 50]);
        whole(&[], &[10, 20, 30, 40, 50]);
    }

    #[test]
    fn what_does_not_belong_together_is_not_put_together() {
        // Twice in one call, in the wrong order, elsewhere.
        for runs in [
            &[(Some(120), 1), (Some(121), 1)][..],
            &[(Some(160), 1), (Some(120), 1)],
            &[(Some(120), 1), (Some(200), 1)],
            &[(Some(99), 1)],
            &[(Some(0), 1)],
        ] {
            assert_eq!(merged(NATIVE, runs).0, Merged::No, "{runs:?}");
        }
        let nothing = Native { addresses: &[], ends: &[], ..NATIVE };
        assert_eq!(merged(nothing, &[(Some(120), 1)]).0, Merged::No);
        assert_eq!(merged(Native { addresses: &[10], ends: &[], ..NATIVE }, &[(None, 1)]).0, Merged::No);
    }

    #[test]
    fn runs_outside_of_what_is_known_are_left_out() {
        let cut = Native { addresses: &[10, 20, 30], ends: &[110, 150], is_cut: true, ..NATIVE };
        let expected = (Merged::Whole, vec![10, 1, 2, 30]);
        assert_eq!(merged(cut, &[(Some(120), 2), (Some(170), 3)]), expected);
        assert_eq!(merged(cut, &[(Some(120), 2), (None, 3)]), expected);
        assert_eq!(merged(cut, &[(Some(99), 2)]).0, Merged::No);
    }

    #[test]
    fn a_run_that_is_not_whole_ends_the_stack() {
        assert_eq!(merged(NATIVE, &[(Some(120), 2), (None, 3)]), (Merged::Cut, vec![10, 1, 2, 30, 3, 4, 5]));
        assert_eq!(merged(NATIVE, &[(None, 3)]), (Merged::Cut, vec![10, 1, 2, 3]));
        let (mut stack, run) = (Vec::new(), Run { place: Some(160), frames: 2, is_whole: false });
        assert_eq!(merge(&NATIVE, &[run], &[1, 2], |_| false, &mut stack), Merged::Cut);
        assert_eq!(stack, [10, 20, 30, 1, 2]);
    }
}

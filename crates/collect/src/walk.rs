//! From a copy of a stack to the callers on it.

use kernel::stream::UserStack;
use symbols::Caller;

/// What is at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// No code.
    None,
    /// Code, of which it is not known yet how to find its caller.
    Unread,
    /// Code whose caller is found like this.
    Known(Caller),
}

/// How the walk over a stack ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum End {
    /// Where the thread begins.
    Root,
    /// Where the copy ends.
    Short,
    /// Where nothing says who has called the code.
    #[default]
    Unknown,
    /// After as many frames as are taken.
    Deep,
}

/// Frames that are taken of a stack.
pub const DEEPEST: usize = 512;
/// Frames among them that are found by frame pointers, as many as the kernel follows.
const MOST_GUESSES: usize = 127;

/// A frame: what it executes, and the registers that its caller is found by.
#[derive(Clone, Copy, Debug)]
struct Place {
    instruction: u64,
    stack_pointer: u64,
    frame_pointer: u64,
}

/// Puts into `addresses` the sampled instruction and where each call returns to, from the inside outwards. `code` tells what is at an
/// address. Puts into `ends` where on the stack each of these frames ends, as far as that is known. Also returns how many bytes of the copy
/// it took.
pub fn walk(
    stack: &UserStack<'_>,
    mut code: impl FnMut(u64) -> Code,
    addresses: &mut Vec<u64>,
    ends: &mut Vec<u64>,
) -> (End, u32) {
    let &UserStack { instruction, stack_pointer, frame_pointer, .. } = stack;
    let mut place = Place { instruction, stack_pointer, frame_pointer };
    addresses.clear();
    ends.clear();
    // What a call returns to may belong to the next function already.
    let (mut returns, mut guesses) = (0, 0);
    let end = loop {
        let found = code(place.instruction - returns);
        if found == Code::None {
            // It was no frame: what led there was wrong.
            addresses.pop();
            break End::Unknown;
        }
        if returns == 0 {
            addresses.push(instruction);
        }
        let Code::Known(caller) = found else { break End::Unknown };
        guesses += usize::from(caller == Caller::Unknown);
        if guesses > MOST_GUESSES {
            break End::Deep;
        }
        match step(stack, place, caller) {
            Ok(next) => {
                place = next;
                ends.push(next.stack_pointer);
            }
            Err(end) => break end,
        }
        if addresses.len() >= DEEPEST {
            break End::Deep;
        }
        addresses.push(place.instruction);
        returns = 1;
    };
    if addresses.is_empty() {
        addresses.push(instruction);
    }
    (end, u32::try_from(place.stack_pointer.saturating_sub(stack_pointer)).unwrap_or(u32::MAX))
}

/// The caller's place.
fn step(stack: &UserStack<'_>, place: Place, caller: Caller) -> Result<Place, End> {
    const WORD: u64 = 8;
    let above = |pointer: u64, bytes: u64| pointer.checked_add(bytes).ok_or(End::Unknown);
    // A guess may lead anywhere.
    let beyond = if caller == Caller::Unknown { End::Unknown } else { End::Short };
    let end = stack.stack_pointer.saturating_add(stack.bytes.len() as u64);
    // Within the copy a page may not have been there.
    let word = |address: u64| {
        let is_beyond = address.saturating_add(WORD) > end;
        stack.word(address).ok_or(if is_beyond { beyond } else { End::Unknown })
    };
    let base =
        |from_frame_pointer| if from_frame_pointer { place.frame_pointer } else { place.stack_pointer };
    let below = |frame_end: u64, saved: Option<u32>| saved.map(|below| frame_end.wrapping_sub(below.into()));
    let (frame_end, saved_at) = match caller {
        Caller::Nobody => return Err(End::Root),
        Caller::Opaque => return Err(End::Unknown),
        Caller::By(rule) => {
            let frame_end = above(base(rule.from_frame_pointer), rule.offset.into())?;
            (frame_end, below(frame_end, rule.saved))
        }
        Caller::ByWord(rule) => {
            let at = base(rule.from_frame_pointer).checked_add_signed(rule.at.into()).ok_or(End::Unknown)?;
            let frame_end = above(word(at)?, rule.plus.into())?;
            (frame_end, below(frame_end, rule.saved).or(Some(place.frame_pointer)))
        }
        Caller::OfStub => {
            // Its last instructions, after it has pushed a number.
            let pushed = if place.instruction & 15 >= 11 { WORD } else { 0 };
            (above(place.stack_pointer, WORD + pushed)?, None)
        }
        // Generated code, and what is written by hand, keep frame pointers or cannot be walked.
        Caller::Unknown => (above(place.frame_pointer, 2 * WORD)?, Some(place.frame_pointer)),
    };
    // Frames lie above those that they call.
    if frame_end <= place.stack_pointer || frame_end % WORD != 0 {
        return Err(End::Unknown);
    }
    let instruction = word(frame_end - WORD)?;
    // Where it has been restored already, the table still places it below the stack pointer, where nothing is copied.
    let saved_at = saved_at.filter(|at| *at >= stack.stack_pointer);
    let frame_pointer = saved_at.map_or(Ok(place.frame_pointer), word)?;
    if instruction == 0 {
        // Nothing calls a thread's first function, but a guess may find anything.
        return Err(if caller == Caller::Unknown { End::Unknown } else { End::Root });
    }
    Ok(Place { instruction, stack_pointer: frame_end, frame_pointer })
}

#[cfg(test)]
mod tests {
    use super::*;
    use symbols::{UnwindRule, UnwindWord};

    const STACK: u64 = 0x7f00_0000;

    fn by(from_frame_pointer: bool, offset: u32, saved: Option<u32>) -> Caller {
        Caller::By(UnwindRule { from_frame_pointer, offset, saved })
    }

    /// Code at 0x1000 with a stack frame of 24 bytes, at 0x2000 with a frame pointer, at 0x3000 without a caller, at 0x4000 of which
    /// nothing is written down, a stub at 0x5000, and functions at 0x6000 and 0x7000 that have aligned their stacks.
    fn code(address: u64) -> Code {
        Code::Known(match address & !0xfff {
            0x1000 => by(false, 24, None),
            0x2000 => by(true, 16, Some(16)),
            0x3000 => Caller::Nobody,
            0x4000 => Caller::Unknown,
            0x5000 => Caller::OfStub,
            0x6000 => Caller::ByWord(UnwindWord { from_frame_pointer: true, at: -8, plus: 0, saved: None }),
            0x7000 => {
                Caller::ByWord(UnwindWord { from_frame_pointer: false, at: 8, plus: 8, saved: Some(16) })
            }
            0x8000 => return Code::Unread,
            0x9000 => Caller::Opaque,
            _ => return Code::None,
        })
    }

    fn walked(instruction: u64, frame_pointer: u64, words: &[u64]) -> (Vec<u64>, End, u32) {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let stack = UserStack { instruction, frame_pointer, stack_pointer: STACK, bytes: &bytes, missing: 0 };
        let mut addresses = Vec::new();
        let (end, taken) = walk(&stack, code, &mut addresses, &mut Vec::new());
        (addresses, end, taken)
    }

    #[test]
    fn callers_are_found_by_every_kind_of_rule() {
        let frame = STACK + 32;
        let words = [7, 7, 0x2010, 7, STACK + 64, 0x4010, 7, 7, 0, 0x3010, 0];
        assert_eq!(walked(0x1010, frame, &words), (vec![0x1010, 0x2010, 0x4010, 0x3010], End::Root, 80));
        // The stub pushes a number in its last bytes.
        assert_eq!(walked(0x5004, 0, &[0x3010]), (vec![0x5004, 0x3010], End::Root, 8));
        assert_eq!(walked(0x500b, 0, &[7, 0x3010]), (vec![0x500b, 0x3010], End::Root, 16));
        // Its own frame pointer is put below the return address once more.
        let aligned = [7, STACK + 48, STACK + 64, 7, STACK + 64, 0x4010, 7, 7, 0, 0x3010];
        assert_eq!(walked(0x6010, STACK + 16, &aligned), (vec![0x6010, 0x4010, 0x3010], End::Root, 80));
        let aligned = [7, STACK + 32, 7, STACK + 40, 0x4010, 0, 0x3010];
        assert_eq!(walked(0x7010, 7, &aligned), (vec![0x7010, 0x4010, 0x3010], End::Root, 56));
    }

    #[test]
    fn a_large_buffer_whose_pages_are_not_there_is_walked_over() {
        const PAGES: u32 = 8 * 4096;
        let large = |address: u64| {
            Code::Known(match address & !0xfff {
                0x1000 => by(false, PAGES, None),
                _ => Caller::Nobody,
            })
        };
        let mut bytes = vec![0; PAGES as usize];
        bytes[PAGES as usize - 8..].copy_from_slice(&0x3010_u64.to_ne_bytes());
        let of = |missing| {
            let (instruction, stack_pointer) = (0x1010, STACK + 16);
            let stack = UserStack { instruction, frame_pointer: 0, stack_pointer, bytes: &bytes, missing };
            let mut addresses = Vec::new();
            let (end, took) = walk(&stack, large, &mut addresses, &mut Vec::new());
            (addresses, end, took)
        };
        // The stack begins within a page, so the buffer ends in the ninth.
        assert_eq!(of(0b0_1111_1110), (vec![0x1010, 0x3010], End::Root, PAGES));
        // Where the caller is written down there is nothing.
        assert_eq!(of(0b1_0000_0000), (vec![0x1010], End::Unknown, 0));
    }

    #[test]
    fn a_frame_pointer_that_was_restored_is_in_its_register() {
        let epilogue = |address: u64| match address {
            0x1010 => Code::Known(by(false, 8, Some(16))),
            0x2000..0x2100 => Code::Known(by(true, 16, Some(16))),
            0x3000..0x3100 => Code::Known(Caller::Nobody),
            _ => Code::None,
        };
        let bytes: Vec<u8> = [0x2010_u64, 7, 9, 0x3010].iter().flat_map(|word| word.to_ne_bytes()).collect();
        let stack = UserStack {
            instruction: 0x1010,
            frame_pointer: STACK + 16,
            stack_pointer: STACK,
            bytes: &bytes,
            missing: 0,
        };
        let mut addresses = Vec::new();
        assert_eq!(walk(&stack, epilogue, &mut addresses, &mut Vec::new()).0, End::Root);
        assert_eq!(addresses, [0x1010, 0x2010, 0x3010]);
    }

    #[test]
    fn it_is_told_why_a_walk_ends() {
        assert_eq!(walked(0x1010, 0, &[7, 7]), (vec![0x1010], End::Short, 0));
        assert_eq!(walked(0x1010, 0, &[7, 7, 0xa990]), (vec![0x1010], End::Unknown, 24));
        // Frame pointers are not guessed where there may be a table.
        assert_eq!(
            walked(0x1010, STACK + 24, &[7, 7, 0x8010, 0, 0x3010]),
            (vec![0x1010, 0x8010], End::Unknown, 24)
        );
        assert_eq!(walked(0x1010, 0, &[7, 7, 0]), (vec![0x1010], End::Root, 0));
        assert_eq!(walked(0xa990, 0, &[7, 7, 7]), (vec![0xa990], End::Unknown, 0));
        // A guess that finds nothing is not the beginning; a rule that is not understood is no reason for one.
        assert_eq!(walked(0x4010, STACK, &[0, 0, 0]), (vec![0x4010], End::Unknown, 0));
        assert_eq!(walked(0x9010, STACK, &[7, 0x3010, 0]), (vec![0x9010], End::Unknown, 0));
        // A frame pointer that is none.
        for nonsense in [0, 8, STACK - 16, STACK + 4, u64::MAX - 3] {
            assert_eq!(walked(0x4010, nonsense, &[7; 64]), (vec![0x4010], End::Unknown, 0));
        }
        let deep: Vec<u64> = (0..3000).map(|nth| if nth % 3 == 2 { 0x1010 } else { 7 }).collect();
        let (addresses, end, _) = walked(0x1010, 0, &deep);
        assert_eq!((addresses.len(), end), (DEEPEST, End::Deep));
    }

    #[test]
    fn any_words_can_be_walked() {
        let mut random = fastrand::Rng::with_seed(3);
        for _ in 0..20_000 {
            let word = |random: &mut fastrand::Rng| match random.u8(..4) {
                0 => random.u64(0x1000..0xa000),
                1 => STACK + 8 * random.u64(0..64),
                _ => random.u64(..),
            };
            let words: Vec<u64> = (0..random.usize(0..64)).map(|_| word(&mut random)).collect();
            let (instruction, frame_pointer) = (word(&mut random), word(&mut random));
            let (addresses, ..) = walked(instruction, frame_pointer, &words);
            assert!(addresses.len() <= 65 && addresses[0] == instruction);
        }
    }
}

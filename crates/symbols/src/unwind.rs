//! Where a function's caller is, by what compilers write down for exceptions: `.eh_frame` (System V ABI, AMD64 supplement;
//! DWARF 5, section 6.4).

use std::ops::Range;

use gimli::{
    BaseAddresses, CfaRule, CieOrFde, EhFrame, EndianSlice, Error, FrameDescriptionEntry, LittleEndian,
    RegisterRule, UnwindContext, UnwindSection, X86_64,
};
use object::elf;

use crate::image::Image;

/// How to get from a frame to its caller's: the *canonical frame address* (CFA) is the stack pointer or the frame
/// pointer plus `offset`, and the return address is the word below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnwindRule {
    /// Whether it is counted from the frame pointer; otherwise from the stack pointer.
    pub from_frame_pointer: bool,
    /// Bytes up to the CFA.
    pub offset: u32,
    /// How many bytes below the CFA the caller's frame pointer was saved; `None` if it is still in its register.
    pub saved: Option<u32>,
}

/// The CFA is what lies at the stack pointer or the frame pointer plus `at`, and `plus` bytes more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnwindWord {
    /// Whether it is counted from the frame pointer; otherwise from the stack pointer.
    pub from_frame_pointer: bool,
    /// Where the word is, in bytes from there.
    pub at: i32,
    /// Bytes from what it says to the CFA.
    pub plus: u32,
    /// How many bytes below the CFA the caller's frame pointer was saved; `None` if it lies where the frame pointer points.
    pub saved: Option<u32>,
}

/// What is known of the caller of some code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    /// Nothing.
    Unknown,
    /// There is none: a thread begins here.
    Nobody,
    /// It is found by this rule.
    By(UnwindRule),
    /// How to find it is written down, but not understood. Only [`CallerLookup`](crate::CallerLookup) says so.
    Opaque,
    /// The CFA was put onto the stack, where the stack was aligned anew. Only [`CallerLookup`](crate::CallerLookup) says so.
    ByWord(UnwindWord),
    /// It is that of a stub of 16 bytes through which another image is called: the CFA is 8 bytes above the stack pointer, and in
    /// its last five bytes 16. Only [`CallerLookup`](crate::CallerLookup) says so.
    OfStub,
}

/// No table has more rows: one that claims to is damaged.
const MOST_ROWS: usize = 4 << 20;
/// What functions have in common (CIE) is shorter than this: all of it is read again for each function.
const LONGEST_COMMON: u32 = 1 << 10;

impl Image {
    /// Ascending: from each address (as far as 32 bits go) to the next one, this is how to find the caller. Empty for other
    /// machines than x86-64. Damage ends the function, or the list, that it is in.
    pub fn unwind_rules(&self) -> Vec<(u32, Caller)> {
        joined(self.pieces())
    }
}

impl Image {
    /// The share of its functions whose callers can be found by these rules, 0 to 1.
    pub fn known_callers(&self) -> f64 {
        let rules = self.unwind_rules();
        let is_known = |start: u64| {
            let after = rules.partition_point(|(at, _)| u64::from(*at) <= start);
            after.checked_sub(1).is_some_and(|nth| rules[nth].1 != Caller::Unknown)
        };
        let (known, all) = self
            .symbols()
            .ranges()
            .fold((0, 0), |(known, all), range| (known + usize::from(is_known(range.start)), all + 1));
        if all == 0 { 0.0 } else { known as f64 / all as f64 }
    }

    /// The code of functions, as far as they are written down for exceptions; not the stubs through which other images are
    /// called.
    pub(crate) fn functions_by_unwinding(&self) -> Vec<Range<u64>> {
        let elf = self.elf();
        let stubs: Vec<Range<u64>> = [".plt", ".plt.got", ".plt.sec", ".init", ".fini"]
            .iter()
            .filter_map(|name| elf.section_range(name))
            .collect();
        let mut functions = Vec::new();
        self.each_function(|_, _, function| {
            let (start, length) = (function.initial_address(), function.len());
            if !stubs.iter().any(|stub| stub.contains(&start)) {
                functions.extend(start.checked_add(length).map(|end| start..end));
            }
            functions.len() < MOST_ROWS
        });
        functions
    }

    /// Visits what is written down for each function, until `visit` returns false.
    fn each_function(&self, mut visit: impl FnMut(&Section<'_>, &BaseAddresses, &Function<'_>) -> bool) {
        let elf = self.elf();
        if elf.headers.machine != elf::EM_X86_64 || !elf.headers.is_64 {
            return;
        }
        let (Some(bytes), Some(address)) = (elf.read_section(".eh_frame"), elf.section_address(".eh_frame"))
        else {
            return;
        };
        let mut bases = BaseAddresses::default().set_eh_frame(address);
        if let Some(text) = elf.section_address(".text") {
            bases = bases.set_text(text);
        }
        let section = EhFrame::new(&bytes, LittleEndian);
        let mut entries = section.entries(&bases);
        while let Ok(Some(entry)) = entries.next() {
            let CieOrFde::Fde(partial) = entry else { continue };
            let parsed = partial.parse(|section, bases, at| {
                if is_short(&bytes, at.0) { section.cie_from_offset(bases, at) } else { Err(Error::Io) }
            });
            let Ok(function) = parsed else { continue };
            if !visit(&section, &bases, &function) {
                return;
            }
        }
    }

    /// The rows of all functions, in the order in which they are written down, and the end of each.
    fn pieces(&self) -> Vec<(u32, Caller)> {
        let mut pieces = Vec::new();
        // A row takes at least three bytes, but a damaged one may take one.
        let length = self.elf().section_range(".eh_frame").map_or(0, |range| range.end - range.start);
        let most = MOST_ROWS.min(usize::try_from(length / 2).unwrap_or(MOST_ROWS));
        let mut context = UnwindContext::new();
        self.each_function(|section, bases, function| {
            let Ok(mut table) = function.rows(section, bases, &mut context) else { return true };
            let mut until = None;
            while let Ok(Some(row)) = table.next_row()
                && pieces.len() < most
            {
                let rule = rule(row.cfa(), row.register(X86_64::RA), row.register(X86_64::RBP));
                pieces.extend(u32::try_from(row.start_address()).ok().map(|at| (at, rule)));
                until = u32::try_from(row.end_address()).ok();
            }
            pieces.extend(until.map(|until| (until, Caller::Unknown)));
            pieces.len() < most
        });
        pieces
    }
}

/// Whether what functions have in common, which is at this place, is as short as compilers make it.
fn is_short(section: &[u8], at: usize) -> bool {
    let length = section.get(at..).and_then(|rest| rest.first_chunk().copied());
    length.is_some_and(|length| u32::from_le_bytes(length) <= LONGEST_COMMON)
}

type Section<'a> = EhFrame<EndianSlice<'a, LittleEndian>>;
type Function<'a> = FrameDescriptionEntry<EndianSlice<'a, LittleEndian>>;

pub(crate) fn rule(
    cfa: &CfaRule<usize>,
    return_address: Option<RegisterRule<usize>>,
    frame_pointer: Option<RegisterRule<usize>>,
) -> Caller {
    if return_address == Some(RegisterRule::Undefined) {
        return Caller::Nobody;
    }
    known_rule(cfa, return_address, frame_pointer).map_or(Caller::Unknown, Caller::By)
}

fn known_rule(
    cfa: &CfaRule<usize>,
    return_address: Option<RegisterRule<usize>>,
    frame_pointer: Option<RegisterRule<usize>>,
) -> Option<UnwindRule> {
    const BELOW_CFA: i64 = -8;
    let CfaRule::RegisterAndOffset { register, offset } = cfa else { return None };
    if return_address != Some(RegisterRule::Offset(BELOW_CFA)) {
        return None;
    }
    let from_frame_pointer = match *register {
        X86_64::RSP => false,
        X86_64::RBP => true,
        _ => return None,
    };
    let saved = match frame_pointer {
        None | Some(RegisterRule::Undefined | RegisterRule::SameValue) => None,
        Some(RegisterRule::Offset(offset)) => Some(u32::try_from(offset.checked_neg()?).ok()?),
        _ => return None,
    };
    Some(UnwindRule { from_frame_pointer, offset: u32::try_from(*offset).ok()?, saved })
}

/// Ascending and without neighbours of one rule. At the end of a function nothing is known, unless another one begins there;
/// what damage puts inside another function ends there with its own end, and nothing is known of the rest.
fn joined(mut pieces: Vec<(u32, Caller)>) -> Vec<(u32, Caller)> {
    // Ends before beginnings; the last of several that begin at one address counts.
    pieces.sort_by_key(|(at, caller)| (*at, *caller != Caller::Unknown));
    pieces.dedup_by(|next, kept| {
        let same_place = next.0 == kept.0;
        if same_place {
            kept.1 = next.1;
        }
        same_place
    });
    pieces.dedup_by_key(|(_, caller)| *caller);
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_joined_and_gaps_are_unknown() {
        let rule = |offset| Caller::By(UnwindRule { from_frame_pointer: false, offset, saved: None });
        let function = |pieces: &[(u32, Caller)], end| [pieces, &[(end, Caller::Unknown)]].concat();
        let pieces = [
            function(&[(50, Caller::Nobody)], 60),
            function(&[(10, rule(8)), (12, rule(16))], 20),
            function(&[(20, rule(16))], 25),
            function(&[(25, rule(8))], 40),
        ]
        .concat();
        let expected = [
            (10, rule(8)),
            (12, rule(16)),
            (25, rule(8)),
            (40, Caller::Unknown),
            (50, Caller::Nobody),
            (60, Caller::Unknown),
        ];
        assert_eq!(joined(pieces), expected);
    }
}

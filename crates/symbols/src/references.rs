//! What in an image leads to a place of it: distances in its code, addresses in its data.

use std::ops::Range;

/// Positions that are looked at together.
const BLOCK: usize = 4096;

/// Where four bytes of `code`, wherever they are, are the distance of something in `range` from behind them. `start`: the stated address of the first byte.
#[must_use]
pub fn distances(code: &[u8], start: u64, range: &Range<u64>) -> Vec<u64> {
    let length = range.end - range.start;
    // Behind the first four bytes.
    let from = range.start.wrapping_sub(start.wrapping_add(4));
    let is_one = |at: &usize| {
        let distance = i64::from(four(&code[*at..]).cast_signed()).cast_unsigned();
        distance.wrapping_sub(from.wrapping_sub(*at as u64)) < length
    };
    let positions = code.len().saturating_sub(3);
    let mut found = Vec::new();
    for begin in (0..positions).step_by(BLOCK) {
        let end = positions.min(begin + BLOCK);
        // Most blocks have none, which is seen by the lower halves of all positions of a remainder at a time.
        let may_be = (begin..end.min(begin + 4)).any(|first| {
            let words = code[first..end + 3].chunks_exact(4).map(four);
            let mut at = first as u32;
            let one = |any, word: u32| {
                let beyond = word.wrapping_add(at).wrapping_sub(from as u32);
                at = at.wrapping_add(4);
                any | (u64::from(beyond) < length)
            };
            words.fold(false, one)
        });
        if may_be {
            found.extend((begin..end).filter(is_one).map(|at| start + at as u64));
        }
    }
    found
}

/// The first four bytes.
fn four(bytes: &[u8]) -> u32 {
    u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

/// Whether eight bytes of `data`, at their usual places, are an address in `range`; `is_fixed`: or four, because the image is where it says that it is.
#[must_use]
pub fn has_address(data: &[u8], range: &Range<u64>, is_fixed: bool) -> bool {
    let wide = |word: &[u8]| range.contains(&u64::from_le_bytes(word.try_into().unwrap_or_default()));
    let narrow =
        |word: &[u8]| range.contains(&u64::from(u32::from_le_bytes(word.try_into().unwrap_or_default())));
    // A wide one is a narrow one and zero, but for addresses beyond four gigabytes.
    if is_fixed && range.end <= 1 << 32 {
        data.chunks_exact(4).any(narrow)
    } else {
        data.chunks_exact(8).any(wide)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_and_addresses_are_found_wherever_they_are() {
        let between = 0x1001..0x1005;
        for (target, found) in [(0x1000_u64, false), (0x1001, true), (0x1004, true), (0x1005, false)] {
            for at in 0..4 {
                let mut code = vec![0x90; at];
                // jmp
                code.push(0xe9);
                code.extend((target.wrapping_sub(0x2000 + at as u64 + 5) as u32).to_le_bytes());
                assert_eq!(!distances(&code, 0x2000, &between).is_empty(), found, "{target:x} from {at}");
            }
            let mut data = vec![0; 8];
            data.extend(target.to_le_bytes());
            assert_eq!(has_address(&data, &between, false), found, "{target:x}");
            // Of four bytes, beside another number.
            let data = [target as u32, 7].map(u32::to_le_bytes).concat();
            assert_eq!(has_address(&data, &between, true), found, "{target:x}");
            assert!(!has_address(&data, &between, false), "{target:x}");
        }
    }
}

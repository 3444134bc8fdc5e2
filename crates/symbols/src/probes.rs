//! Probes that a program's authors have put into it: USDT, as SystemTap's `sys/sdt.h` writes them down
//! (<https://sourceware.org/systemtap/wiki/UserSpaceProbeImplementation>).

use crate::address::Svma;
use crate::image::Image;

/// The type of the notes.
const NT_STAPSDT: u32 = 3;

/// One place where a probe is passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Who defined the probe, mostly the name of the program.
    pub provider: String,
    /// The name of the probe.
    pub name: String,
    /// The instruction.
    pub address: Svma,
    /// A word of 16 bits that must not be zero, or the probe is jumped over.
    pub semaphore: Option<Svma>,
}

impl Image {
    /// All probes of a program for 64 bits, in the order of the file. Damage ends the list.
    pub fn probes(&self) -> Vec<Probe> {
        let elf = self.elf();
        if !(elf.headers.is_64 && elf.headers.little_endian) {
            return Vec::new();
        }
        let Some(notes) = elf.read_section(".note.stapsdt") else { return Vec::new() };
        let base = elf.section_address(".stapsdt.base");
        let mut rest = notes.as_slice();
        std::iter::from_fn(|| next(&mut rest))
            .filter_map(|note| note.map(|note| probe(note, base)))
            .flatten()
            .collect()
    }
}

/// The next note's description, if it is one of a probe; `None` at the end.
fn next<'a>(rest: &mut &'a [u8]) -> Option<Option<&'a [u8]>> {
    let word = |at: usize| Some(u32::from_le_bytes(rest.get(at..at + 4)?.try_into().ok()?));
    let (name, description, kind) = (word(0)? as usize, word(4)? as usize, word(8)?);
    let start = 12 + name.next_multiple_of(4);
    let is_probe = kind == NT_STAPSDT && rest.get(12..12 + name)? == b"stapsdt\0";
    let text = rest.get(start..start.checked_add(description)?)?;
    *rest = rest.get(start + description.next_multiple_of(4)..).unwrap_or_default();
    Some(is_probe.then_some(text))
}

/// Three addresses, then provider, name and arguments, each closed by NUL. `base`: where `.stapsdt.base` is, which the
/// second address was when the others were written (prelink moves everything).
fn probe(description: &[u8], base: Option<u64>) -> Option<Probe> {
    let word = |nth: usize| Some(u64::from_le_bytes(description.get(8 * nth..8 * nth + 8)?.try_into().ok()?));
    let (address, was, semaphore) = (word(0)?, word(1)?, word(2)?);
    let moved = base.filter(|_| was != 0).map_or(0, |base| base.wrapping_sub(was));
    let mut texts = description
        .get(24..)?
        .split(|byte| *byte == 0)
        .map(|text| String::from_utf8_lossy(text).into_owned());
    Some(Probe {
        provider: texts.next()?,
        name: texts.next()?,
        address: Svma(address.wrapping_add(moved)),
        semaphore: (semaphore != 0).then(|| Svma(semaphore.wrapping_add(moved))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(kind: u32, description: &[u8]) -> Vec<u8> {
        let mut note = Vec::new();
        for word in [8, description.len() as u32, kind] {
            note.extend(word.to_le_bytes());
        }
        note.extend(b"stapsdt\0");
        note.extend(description);
        note.resize(note.len().next_multiple_of(4), 0);
        note
    }

    fn description(words: [u64; 3]) -> Vec<u8> {
        let words = words.iter().flat_map(|word| word.to_le_bytes());
        words.chain(*b"shop\0sold\0-4@%eax\0").collect()
    }

    #[test]
    fn notes_are_read_up_to_the_damage() {
        let good = note(NT_STAPSDT, &description([0x1000, 0x2000, 0x3000]));
        let mut notes = [note(7, b"something else"), good.clone(), good.clone()].concat();
        notes.truncate(notes.len() - 9);
        let mut rest = notes.as_slice();
        let all: Vec<_> = std::iter::from_fn(|| next(&mut rest)).collect();
        assert_eq!((all.len(), all[0], all[1].is_some()), (2, None, true));
    }

    #[test]
    fn addresses_move_with_their_base() {
        let probe = |words, base| probe(&description(words), base).unwrap();
        let sold = probe([0x1000, 0x2000, 0x3000], Some(0x2500));
        assert_eq!((sold.provider.as_str(), sold.name.as_str()), ("shop", "sold"));
        assert_eq!((sold.address, sold.semaphore), (Svma(0x1500), Some(Svma(0x3500))));
        let still = probe([0x1000, 0x2000, 0], None);
        assert_eq!((still.address, still.semaphore), (Svma(0x1000), None));
    }
}

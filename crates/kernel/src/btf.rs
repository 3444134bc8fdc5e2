//! What the kernel says of its own types: `/sys/kernel/btf/vmlinux` (BTF; "BPF Type Format" in the kernel's documentation), as far as
//! programs need it that are called with the kernel's structures.

use std::io;

/// The kernel's types.
#[derive(Debug)]
pub(crate) struct Types {
    bytes: Vec<u8>,
    /// Where each type begins; the first has number 1.
    types: Vec<usize>,
    /// Where the names begin.
    names: usize,
}

/// Where a field of a structure is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    /// Of the first bit.
    pub(crate) bit: u32,
    /// How many bits, if not whole bytes.
    pub(crate) bits: Option<u32>,
}

impl Field {
    /// Its place in bytes, for an instruction.
    pub(crate) fn offset(self) -> io::Result<i16> {
        i16::try_from(self.bit / 8).map_err(|_| io::Error::other("a field of the kernel's is too far away"))
    }
}

const STRUCT: u32 = 4;
const TYPEDEF: u32 = 8;
const POINTER: u32 = 2;
const FUNCTION: u32 = 13;
const HEAD: usize = 12;

impl Types {
    /// Of the kernel that runs.
    ///
    /// # Errors
    /// There are none (`CONFIG_DEBUG_INFO_BTF`), or they are not understood.
    pub(crate) fn read() -> io::Result<Self> {
        Self::of(std::fs::read("/sys/kernel/btf/vmlinux")?).ok_or_else(unknown)
    }

    fn of(bytes: Vec<u8>) -> Option<Self> {
        const MAGIC: u32 = 0xeb9f;
        if word(&bytes, 0)? & 0xffff != MAGIC {
            return None;
        }
        let header = word(&bytes, 4)? as usize;
        let begin = header.checked_add(word(&bytes, 8)? as usize)?;
        let end = begin.checked_add(word(&bytes, 12)? as usize)?;
        let names = header.checked_add(word(&bytes, 16)? as usize)?;
        let (mut types, mut at) = (Vec::new(), begin);
        while at < end {
            types.push(at);
            at = at.checked_add(HEAD + behind(word(&bytes, at + 4)?)?)?;
        }
        Some(Self { bytes, types, names })
    }

    fn word(&self, at: usize) -> Option<u32> {
        word(&self.bytes, at)
    }

    fn is_called(&self, name_at: usize, name: &str) -> bool {
        let Some(at) = self.word(name_at) else { return false };
        let rest = self.bytes.get(self.names + at as usize..).unwrap_or_default();
        rest.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.first() == Some(&0))
    }

    fn find(&self, kind: u32, name: &str) -> io::Result<usize> {
        let is_it = |at: usize| {
            self.word(at + 4).is_some_and(|info| kind_of(info) == kind) && self.is_called(at, name)
        };
        let found = self.types.iter().position(|at| is_it(*at));
        found.ok_or_else(|| io::Error::other(format!("this kernel has no {name}")))
    }

    /// The number of a tracepoint's type, and how many arguments programs get there.
    pub(crate) fn tracepoint(&self, name: &str) -> io::Result<(u32, u32)> {
        let place = self.find(TYPEDEF, &format!("btf_trace_{name}"))?;
        let target = |at: usize, kind: u32| {
            let next = *self.types.get((self.word(at + 8)? as usize).checked_sub(1)?)?;
            (kind_of(self.word(next + 4)?) == kind).then_some(next)
        };
        let function = target(self.types[place], POINTER).and_then(|pointer| target(pointer, FUNCTION));
        let info = function.and_then(|function| self.word(function + 4)).ok_or_else(unknown)?;
        // The first is the tracepoint's own.
        Ok((place as u32 + 1, (info & 0xffff).saturating_sub(1)))
    }

    /// Where a structure has a field.
    pub(crate) fn field(&self, structure: &str, field: &str) -> io::Result<Field> {
        let at = self.types[self.find(STRUCT, structure)?];
        let info = self.word(at + 4).ok_or_else(unknown)?;
        let members = (0..(info & 0xffff) as usize).map(|member| at + HEAD + 12 * member);
        let found = members.into_iter().find(|member| self.is_called(*member, field));
        let place = found.and_then(|member| self.word(member + 8));
        let place =
            place.ok_or_else(|| io::Error::other(format!("this kernel's {structure} has no {field}")))?;
        let has_bits = info >> 31 != 0;
        Ok(match has_bits {
            true => Field { bit: place & 0xff_ffff, bits: Some(place >> 24).filter(|bits| *bits > 0) },
            false => Field { bit: place, bits: None },
        })
    }
}

fn unknown() -> io::Error {
    io::Error::other("the kernel's description of its types is not understood")
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn kind_of(info: u32) -> u32 {
    info >> 24 & 31
}

/// Bytes that follow the head of a type; nothing of a kind that is not known.
fn behind(info: u32) -> Option<usize> {
    let count = (info & 0xffff) as usize;
    Some(match kind_of(info) {
        1 | 14 | 17 => 4,
        2 | 7..=12 | 16 | 18 => 0,
        3 => 12,
        4 | 5 | 15 | 19 => 12 * count,
        6 | 13 => 8 * count,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_kernel_says_where_its_tasks_have_their_numbers() {
        let types = match Types::read() {
            Ok(types) => types,
            Err(error) => return eprintln!("skipped: {error}"),
        };
        let field = |name| types.field("task_struct", name);
        let (pid, tgid) = (field("pid").unwrap(), field("tgid").unwrap());
        assert_eq!((pid.bits, tgid.bit), (None, pid.bit + 32), "one after the other");
        assert!(field("no_such_field").is_err() && types.field("no_such_structure", "pid").is_err());
        let (number, arguments) = types.tracepoint("sched_switch").unwrap();
        assert!(number > 0 && (3..=4).contains(&arguments), "{arguments}");
        assert!(types.tracepoint("no_such_tracepoint").is_err());
    }

    #[test]
    fn what_is_no_description_is_refused() {
        for bytes in
            [vec![], vec![0x9f, 0xeb], vec![0xff; 64], [&[0x9f, 0xeb, 1, 0][..], &[0xff; 20]].concat()]
        {
            assert!(Types::of(bytes.clone()).is_none(), "{bytes:x?}");
        }
        // One type of a kind that there is not.
        let words = [0x1_eb9f_u32, 24, 0, 12, 12, 4, 0, 31 << 24, 0, 0];
        assert!(Types::of(words.iter().flat_map(|word| word.to_ne_bytes()).collect()).is_none());
    }
}

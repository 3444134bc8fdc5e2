//! What is where in the memory of a process.

use archive::Offset;

/// A part of a process's memory.
#[derive(Clone, Copy, Debug)]
pub struct Mapping {
    pub start: u64,
    pub end: u64,
    /// What `start` is in the file.
    pub offset: u64,
    pub image: u32,
}

/// A process: its name and its code.
#[derive(Clone, Debug, Default)]
pub struct Process {
    pub name: String,
    pub maps: Vec<Mapping>,
}

impl Process {
    /// The image at an address, and where in it.
    pub fn position(&self, address: u64) -> Option<(u32, Offset)> {
        // What was mapped later lies over what was there before.
        let map = self.maps.iter().rev().find(|map| (map.start..map.end).contains(&address))?;
        // Any file can be given: where it begins may be anywhere.
        Some((map.image, Offset((address - map.start).wrapping_add(map.offset))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_of_damaged_files_do_not_overflow() {
        let map = Mapping { start: 0x1000, end: u64::MAX, offset: u64::MAX, image: 7 };
        let process = Process { name: String::new(), maps: vec![map] };
        assert_eq!(process.position(0x1010), Some((7, Offset(0xf))));
        assert_eq!(process.position(0xfff), None);
    }
}

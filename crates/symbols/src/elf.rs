//! An ELF file's headers, read once; its sections, read when asked for.

use std::fs::{File, metadata};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use object::read::elf::{FileHeader, NoteIterator, ProgramHeader, SectionHeader};
use object::read::{CompressedData, CompressionFormat, ReadCache};
use object::{Endianness, elf};

use crate::address::{FileOffset, Load, Svma};
use crate::error::ImageError;

/// No section that unpacks to more than this is believed.
const LARGEST_UNPACKED: u64 = 16 << 30;
/// No section that unpacks to more than this many times its size is believed: zlib cannot, and debug information does not.
const LARGEST_RATIO: u64 = 1100;

/// An open ELF file.
#[derive(Debug)]
pub(crate) struct Elf {
    pub path: PathBuf,
    file: Arc<File>,
    length: u64,
    pub headers: Headers,
}

/// What the headers say.
#[derive(Debug)]
pub(crate) struct Headers {
    pub is_64: bool,
    pub little_endian: bool,
    /// `e_machine`.
    pub machine: u16,
    pub loads: Vec<Load>,
    /// `PT_INTERP`: the dynamic linker, without the closing NUL.
    pub interpreter: Option<Vec<u8>>,
    pub build_id: Option<Vec<u8>>,
    sections: Vec<Section>,
}

#[derive(Debug)]
struct Section {
    name: Vec<u8>,
    address: u64,
    offset: u64,
    size: u64,
    compressed: Option<(CompressionFormat, u64)>,
}

/// Opens a regular file and tells its length.
pub(crate) fn open_regular(path: &Path) -> Result<(File, u64), ImageError> {
    let failed = |source| ImageError::Read { path: path.to_owned(), source };
    // Before opening it: opening a pipe would block.
    let about = metadata(path).map_err(failed)?;
    if !about.is_file() {
        return Err(ImageError::NotAFile { path: path.to_owned() });
    }
    Ok((File::open(path).map_err(failed)?, about.len()))
}

impl Elf {
    pub fn open(path: &Path) -> Result<Elf, ImageError> {
        let (file, length) = open_regular(path)?;
        let mut start = [0; 5];
        if file.read_exact_at(&mut start, 0).is_err() || !start.starts_with(b"\x7fELF") {
            return Err(ImageError::NotElf { path: path.to_owned() });
        }
        let parsed = if start[4] == elf::ELFCLASS64 {
            Headers::parse::<elf::FileHeader64<Endianness>>(&file)
        } else {
            Headers::parse::<elf::FileHeader32<Endianness>>(&file)
        };
        let headers =
            parsed.map_err(|error| ImageError::Damaged { path: path.to_owned(), what: error.to_string() })?;
        Ok(Elf { path: path.to_owned(), file: Arc::new(file), length, headers })
    }

    pub fn has_section(&self, name: &str) -> bool {
        self.section(name).is_some()
    }

    /// Where a section is in memory, before the load bias is added.
    pub fn section_address(&self, name: &str) -> Option<u64> {
        self.section(name).map(|section| section.address)
    }

    /// The addresses of a section in memory.
    pub fn section_range(&self, name: &str) -> Option<Range<u64>> {
        let section = self.section(name)?;
        Some(section.address..section.address.checked_add(section.size)?)
    }

    /// The content of a section, unpacked. `None` if it is missing, empty or damaged.
    pub fn read_section(&self, name: &str) -> Option<Vec<u8>> {
        let content = self.content(name)?;
        content.read(0, content.length())
    }

    /// Where the content of a section is. `None` if it is missing, empty or cannot be there.
    pub fn content(&self, name: &str) -> Option<Content> {
        let &Section { offset, size, compressed, .. } = self.section(name)?;
        // Before allocating what a damaged header asks for.
        if offset.checked_add(size)? > self.length {
            return None;
        }
        if let Some((_, unpacked)) = compressed
            && (unpacked > LARGEST_UNPACKED || unpacked / LARGEST_RATIO > size)
        {
            return None;
        }
        Some(Content { file: Arc::clone(&self.file), offset, size, compressed })
    }

    /// What the file has at an address in memory, before the load bias is added.
    pub fn read_address(&self, address: u64, size: u64) -> Option<Vec<u8>> {
        let load = self.headers.loads.iter().find(|load| {
            let inside = address.checked_sub(load.address.0);
            inside.is_some_and(|inside| inside.saturating_add(size) <= load.file_size)
        })?;
        self.read(load.offset.0.checked_add(address - load.address.0)?, size)
    }

    /// The names of the libraries that it needs (`DT_NEEDED`); of a 64-bit file.
    pub fn needed(&self) -> Vec<String> {
        const ENTRY: usize = 16;
        let (Some(dynamic), Some(names)) = (self.read_section(".dynamic"), self.read_section(".dynstr"))
        else {
            return Vec::new();
        };
        if !(self.headers.is_64 && self.headers.little_endian) {
            return Vec::new();
        }
        let word = |bytes: &[u8]| bytes.try_into().map(u64::from_le_bytes).unwrap_or_default();
        const NEEDED: u64 = elf::DT_NEEDED as u64;
        let needed = dynamic.chunks_exact(ENTRY).filter(|entry| word(&entry[..8]) == NEEDED);
        let name = |entry: &[u8]| {
            let rest = names.get(usize::try_from(word(&entry[8..])).ok()?..)?;
            let name = rest.split(|byte| *byte == 0).next()?;
            Some(String::from_utf8_lossy(name).into_owned())
        };
        needed.filter_map(name).collect()
    }

    /// The whole file, in pieces, for a checksum.
    pub fn pieces(&self) -> impl Iterator<Item = Vec<u8>> + '_ {
        const PIECE: u64 = 1 << 20;
        (0..self.length).step_by(PIECE as usize).map_while(|at| self.read(at, PIECE.min(self.length - at)))
    }

    /// The address ranges that hold code.
    pub fn code(&self) -> Vec<Range<u64>> {
        self.headers
            .loads
            .iter()
            .filter(|load| load.executable)
            .map(|load| load.address.0..load.address.0.saturating_add(load.memory_size))
            .collect()
    }

    fn section(&self, name: &str) -> Option<&Section> {
        self.headers.sections.iter().find(|section| section.name == name.as_bytes() && section.size > 0)
    }

    fn read(&self, offset: u64, size: u64) -> Option<Vec<u8>> {
        // Before allocating what a damaged header asks for.
        if offset.checked_add(size)? > self.length {
            return None;
        }
        let mut bytes = vec![0; usize::try_from(size).ok()?];
        self.file.read_exact_at(&mut bytes, offset).ok()?;
        Some(bytes)
    }
}

/// The content of a section, which may be packed, where it is in its file.
#[derive(Debug, Clone)]
pub(crate) struct Content {
    file: Arc<File>,
    offset: u64,
    size: u64,
    compressed: Option<(CompressionFormat, u64)>,
}

impl Content {
    /// `size` bytes of a file, as they are.
    #[cfg(test)]
    pub fn plain(file: File, offset: u64, size: u64) -> Content {
        Content { file: Arc::new(file), offset, size, compressed: None }
    }

    /// Whether no part of it can be had without the rest.
    pub fn is_packed(&self) -> bool {
        self.compressed.is_some()
    }

    /// Its length when it is unpacked.
    pub fn length(&self) -> usize {
        let length = self.compressed.map_or(self.size, |(_, unpacked)| unpacked);
        usize::try_from(length).unwrap_or(usize::MAX)
    }

    /// `length` bytes of it from `start` on; all of it, if it is packed.
    pub fn read(&self, start: usize, length: usize) -> Option<Vec<u8>> {
        let read = |offset, length| {
            let mut bytes = vec![0; length];
            self.file.read_exact_at(&mut bytes, offset).ok()?;
            Some(bytes)
        };
        let Some((format, unpacked)) = self.compressed else {
            return read(self.offset.checked_add(start as u64)?, length);
        };
        let raw = read(self.offset, usize::try_from(self.size).ok()?)?;
        let packed = CompressedData { format, data: &raw, uncompressed_size: unpacked };
        packed.decompress().ok().map(std::borrow::Cow::into_owned)
    }
}

impl Headers {
    fn parse<H: FileHeader<Endian = Endianness>>(file: &File) -> object::read::Result<Headers> {
        let cache = ReadCache::new(file);
        let data = &cache;
        let header = H::parse(data)?;
        let endian = header.endian()?;
        let program_headers = header.program_headers(endian, data)?;
        let mut loads = Vec::new();
        let mut interpreter = None;
        for segment in program_headers {
            match segment.p_type(endian) {
                elf::PT_LOAD => loads.push(Load {
                    offset: FileOffset(segment.p_offset(endian).into()),
                    address: Svma(segment.p_vaddr(endian).into()),
                    file_size: segment.p_filesz(endian).into(),
                    memory_size: segment.p_memsz(endian).into(),
                    executable: segment.p_flags(endian) & elf::PF_X != 0,
                }),
                elf::PT_INTERP => {
                    // Empty if out of reach, as in a separate debug file.
                    let path = segment.interpreter(endian, data).ok().flatten();
                    interpreter = Some(path.unwrap_or_default().to_vec());
                }
                _ => {}
            }
        }
        Ok(Headers {
            is_64: header.is_class_64(),
            little_endian: header.is_little_endian(),
            machine: header.e_machine(endian),
            loads,
            interpreter,
            build_id: build_id(header, endian, data),
            // A program runs without section headers; it only loses its names.
            sections: sections(header, endian, data).unwrap_or_default(),
        })
    }
}

/// From the sections first: a separate debug file has the image's program headers, but not what
/// they refer to.
fn build_id<H: FileHeader<Endian = Endianness>>(
    header: &H,
    endian: Endianness,
    data: &ReadCache<&File>,
) -> Option<Vec<u8>> {
    let find = |notes| build_id_among(notes, endian);
    let sections = header.sections(endian, data).ok();
    let in_sections = sections
        .and_then(|table| table.iter().find_map(|section| section.notes(endian, data).ok()?.and_then(find)));
    in_sections.or_else(|| {
        let segments = header.program_headers(endian, data).ok()?;
        segments.iter().find_map(|segment| segment.notes(endian, data).ok()?.and_then(find))
    })
}

fn build_id_among<H: FileHeader<Endian = Endianness>>(
    mut notes: NoteIterator<'_, H>,
    endian: Endianness,
) -> Option<Vec<u8>> {
    while let Ok(Some(note)) = notes.next() {
        let is_build_id = note.name() == elf::ELF_NOTE_GNU && note.n_type(endian) == elf::NT_GNU_BUILD_ID;
        if is_build_id && !note.desc().is_empty() {
            return Some(note.desc().to_vec());
        }
    }
    None
}

/// The build ID among the ELF notes of this machine's kernel (`/sys/kernel/notes`) or of one of its modules
/// (`/sys/module/NAME/notes/.note.gnu.build-id`).
#[must_use]
pub fn build_id_of_notes(notes: &[u8]) -> Option<Vec<u8>> {
    const ALIGNMENT: u32 = 4;
    let endian = if cfg!(target_endian = "big") { Endianness::Big } else { Endianness::Little };
    // A note has the same fields in files of 32 bits and of 64.
    let notes = NoteIterator::<elf::FileHeader32<Endianness>>::new(endian, ALIGNMENT, notes).ok()?;
    build_id_among(notes, endian)
}

fn sections<H: FileHeader<Endian = Endianness>>(
    header: &H,
    endian: Endianness,
    data: &ReadCache<&File>,
) -> object::read::Result<Vec<Section>> {
    let table = header.sections(endian, data)?;
    let with_content =
        table.iter().filter(|section| !matches!(section.sh_type(endian), elf::SHT_NOBITS | elf::SHT_NULL));
    let sections = with_content.filter_map(|section| {
        let name = table.section_name(endian, section).ok()?.to_vec();
        let (offset, size) = section.file_range(endian)?;
        let address = section.sh_addr(endian).into();
        let (offset, size, compressed) = match section.compression(endian, data).ok()? {
            None => (offset, size, None),
            Some((chdr, offset, size)) => {
                use object::read::elf::CompressionHeader;
                let format = match chdr.ch_type(endian) {
                    elf::ELFCOMPRESS_ZLIB => CompressionFormat::Zlib,
                    elf::ELFCOMPRESS_ZSTD => CompressionFormat::Zstandard,
                    _ => CompressionFormat::Unknown,
                };
                (offset, size, Some((format, chdr.ch_size(endian).into())))
            }
        };
        Some(Section { name, address, offset, size, compressed })
    });
    Ok(sections.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_id_is_found_among_notes() {
        let note = |kind: u32, name: &[u8; 4], content: &[u8]| {
            let words = [4_u32, content.len() as u32, kind].map(u32::to_ne_bytes).concat();
            [&words[..], name, content].concat()
        };
        let notes = [note(1, b"Xen\0", &[9; 8]), note(3, b"GNU\0", &[1, 2, 3, 4])].concat();
        assert_eq!(build_id_of_notes(&notes), Some(vec![1, 2, 3, 4]));
        for length in 0..notes.len() {
            assert_eq!(build_id_of_notes(&notes[..length]), None);
        }
    }
}

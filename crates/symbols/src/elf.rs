//! An ELF file's headers, read once; its sections, read when asked for.

use std::fs::{File, metadata};
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use object::read::elf::{FileHeader, NoteIterator, ProgramHeader, SectionHeader};
use object::read::{CompressionFormat, ReadCache};
use object::{Endianness, elf};

use crate::address::{FileOffset, Load, Svma};
use crate::error::ImageError;
use crate::unpacking::{self, Refusal, Share};

/// No section is longer: offsets in debug information have 32 bits.
const LONGEST: u64 = 8 << 30;
/// No section that is read as a whole is longer.
pub(crate) const LONGEST_WHOLE: u64 = 256 << 20;
/// Below this, holes in a file cost nothing.
const LARGE: u64 = 16 << 20;
/// A large section of a file that has less than this share of it on disk is a hole, which costs its author nothing. File systems that
/// compress files do not get there with code and symbols.
const SMALLEST_ON_DISK: u64 = 16;
/// Files with more sections or program headers than this are no programs.
const MOST_SECTIONS: usize = 1 << 16;
const MOST_LOADS: usize = 1024;
/// Build IDs lie in short notes.
const LONGEST_NOTES: u64 = 1 << 20;
const MOST_NOTES: usize = 16;
/// `PATH_MAX`.
const LONGEST_PATH: u64 = 4096;
/// Checksums of larger files take seconds.
const LARGEST_CHECKED: u64 = 1 << 30;

/// An open ELF file.
#[derive(Debug)]
pub(crate) struct Elf {
    pub path: PathBuf,
    pub file: Arc<File>,
    length: u64,
    /// How much of it is on disk.
    on_disk: u64,
    pub headers: Headers,
    refused: Arc<OnceLock<String>>,
}

/// What the headers say.
#[derive(Debug)]
pub(crate) struct Headers {
    pub is_64: bool,
    pub little_endian: bool,
    /// `e_machine`.
    pub machine: u16,
    /// `e_entry`.
    pub entry: u64,
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

impl Section {
    /// Its addresses in memory.
    fn range(&self) -> Option<Range<u64>> {
        Some(self.address..self.address.checked_add(self.size)?)
    }
}

/// Opens a regular file and tells its length.
pub(crate) fn open_regular(path: &Path) -> Result<(File, u64), ImageError> {
    let failed = |source| ImageError::Read { path: path.to_owned(), source };
    // Looked at before, because opening may do something, and afterwards, because it may be another one by then.
    if !metadata(path).map_err(failed)?.is_file() {
        return Err(ImageError::NotAFile { path: path.to_owned() });
    }
    let file = open_without_waiting(path).map_err(failed)?;
    let about = file.metadata().map_err(failed)?;
    if !about.is_file() {
        return Err(ImageError::NotAFile { path: path.to_owned() });
    }
    Ok((file, about.len()))
}

/// Opens a file to read it. Opening a pipe would wait otherwise.
pub(crate) fn open_without_waiting(path: &Path) -> std::io::Result<File> {
    const NONBLOCK_NOCTTY: i32 = 0o4400;
    File::options().read(true).custom_flags(NONBLOCK_NOCTTY).open(path)
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
        let on_disk = file.metadata().map_or(length, |about| about.blocks().saturating_mul(512));
        let refused = Arc::default();
        Ok(Elf { path: path.to_owned(), file: Arc::new(file), length, on_disk, headers, refused })
    }

    /// The length of the file, in bytes.
    pub fn length(&self) -> u64 {
        self.length
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
        self.section(name)?.range()
    }

    /// The first section that was larger than what is worth reading, if any.
    pub fn refused(&self) -> Option<&str> {
        self.refused.get().map(String::as_str)
    }

    /// The content of a section, unpacked. `None` if it is missing, empty, damaged or too large.
    pub fn read_section(&self, name: &str) -> Option<Vec<u8>> {
        self.read_section_up_to(name, LONGEST_WHOLE)
    }

    /// The same for one that is not longer than `most`.
    pub fn read_section_up_to(&self, name: &str, most: u64) -> Option<Vec<u8>> {
        let content = self.content(name)?;
        if content.length() as u64 > most {
            content.refuse();
            return None;
        }
        content.read(0, content.length()).map(|(bytes, _)| bytes)
    }

    /// Where the content of a section is. `None` if it is missing, empty, or cannot be there.
    pub fn content(&self, name: &str) -> Option<Content> {
        let section = self.section(name)?;
        let &Section { offset, size, compressed, .. } = section;
        // Before allocating what a damaged header asks for.
        if offset.checked_add(size)? > self.length {
            return None;
        }
        let content = Content {
            file: Arc::clone(&self.file),
            name: String::from_utf8_lossy(&section.name).into_owned(),
            offset,
            size,
            compressed,
            refused: Arc::clone(&self.refused),
        };
        if size > LONGEST || size > LARGE && self.on_disk < size / SMALLEST_ON_DISK {
            content.refuse();
            return None;
        }
        Some(content)
    }

    /// What the file has at an address in memory, before the load bias is added.
    pub fn read_address(&self, address: u64, size: u64) -> Option<Vec<u8>> {
        let load = self.headers.loads.iter().find(|load| {
            let inside = address.checked_sub(load.address.0);
            inside.is_some_and(|inside| inside.saturating_add(size) <= load.file_size)
        })?;
        self.read(load.offset.0.checked_add(address - load.address.0)?, size)
    }

    /// The addresses of the section that is loaded at one.
    pub fn section_around(&self, address: u64) -> Option<Range<u64>> {
        self.section_holding(address)?.range()
    }

    /// The name of the section that is loaded at an address.
    pub fn section_at(&self, address: u64) -> Option<&[u8]> {
        self.section_holding(address).map(|section| section.name.as_slice())
    }

    fn section_holding(&self, address: u64) -> Option<&Section> {
        let holds = |section: &&Section| {
            section.address != 0 && address.checked_sub(section.address).is_some_and(|at| at < section.size)
        };
        self.headers.sections.iter().find(holds)
    }

    /// The names of the libraries that it needs (`DT_NEEDED`); of a 64-bit file.
    pub fn needed(&self) -> Vec<String> {
        const ENTRY: usize = 16;
        let (Some(dynamic), Some(names)) =
            (self.read_section_up_to(".dynamic", LARGE), self.read_section_up_to(".dynstr", LARGE))
        else {
            return Vec::new();
        };
        if !(self.headers.is_64 && self.headers.little_endian) {
            return Vec::new();
        }
        let word = |bytes: &[u8]| bytes.try_into().map(u64::from_le_bytes).unwrap_or_default();
        const NEEDED: u64 = elf::DT_NEEDED as u64;
        const MOST: usize = 4096;
        let needed = dynamic.chunks_exact(ENTRY).filter(|entry| word(&entry[..8]) == NEEDED);
        let name = |entry: &[u8]| {
            let rest = names.get(usize::try_from(word(&entry[8..])).ok()?..)?;
            let rest = &rest[..rest.len().min(LONGEST_PATH as usize)];
            let name = rest.split(|byte| *byte == 0).next()?;
            Some(String::from_utf8_lossy(name).into_owned())
        };
        needed.take(MOST).filter_map(name).collect()
    }

    /// Whether one of these is among the names that the loader knows of the file; `None` if it has none, as static programs.
    pub fn has_dynamic_name(&self, names: &[&str]) -> Option<bool> {
        let all = self.read_section_up_to(".dynstr", LARGE)?;
        Some(all.split(|byte| *byte == 0).any(|name| names.iter().any(|one| one.as_bytes() == name)))
    }

    /// What the loader adds to its base for a word at an address (`R_X86_64_RELATIVE`); of a 64-bit file.
    pub fn relocated(&self, address: u64) -> Option<u64> {
        const ENTRY: usize = 24;
        const PIECE: usize = ENTRY << 12;
        /// More than that have no programs.
        const MOST: usize = PIECE << 10;
        let relocations = [".rela.dyn", ".rela"].iter().find_map(|name| self.content(name))?;
        let length = if relocations.is_packed() { 0 } else { relocations.length().min(MOST) };
        let word = |bytes: &[u8]| bytes.try_into().map(u64::from_le_bytes).unwrap_or_default();
        (0..length).step_by(PIECE).find_map(|at| {
            let (piece, _) = relocations.read(at, PIECE.min(length - at))?;
            let found = piece.chunks_exact(ENTRY).find(|entry| word(&entry[..8]) == address)?;
            (word(&found[8..16]) == u64::from(elf::R_X86_64_RELATIVE)).then(|| word(&found[16..]))
        })
    }

    /// The whole file, in pieces, for a checksum. Nothing of one that is too large.
    pub fn pieces(&self) -> impl Iterator<Item = Vec<u8>> + '_ {
        const PIECE: u64 = 1 << 20;
        let length = if self.length > LARGEST_CHECKED { 0 } else { self.length };
        (0..length).step_by(PIECE as usize).map_while(|at| self.read(at, PIECE.min(self.length - at)))
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

    /// `size` bytes of the file, from `offset` on.
    pub fn read(&self, offset: u64, size: u64) -> Option<Vec<u8>> {
        // Before allocating what a damaged header asks for.
        if offset.checked_add(size)? > self.length || size > LONGEST_WHOLE {
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
    name: String,
    offset: u64,
    size: u64,
    compressed: Option<(CompressionFormat, u64)>,
    refused: Arc<OnceLock<String>>,
}

impl Content {
    /// `size` bytes of a file, as they are.
    #[cfg(test)]
    pub fn plain(file: File, offset: u64, size: u64) -> Content {
        let (name, refused) = (String::new(), Arc::default());
        Content { file: Arc::new(file), name, offset, size, compressed: None, refused }
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

    /// `length` bytes of it from `start` on; all of it, with its share of what may be unpacked, if it is packed.
    pub fn read(&self, start: usize, length: usize) -> Option<(Vec<u8>, Option<Share>)> {
        let read = |offset, length| {
            let mut bytes = vec![0; length];
            self.file.read_exact_at(&mut bytes, offset).ok()?;
            Some(bytes)
        };
        let Some((format, unpacked)) = self.compressed else {
            return Some((read(self.offset.checked_add(start as u64)?, length)?, None));
        };
        let packed = || read(self.offset, usize::try_from(self.size).ok()?);
        match unpacking::unpack(packed, self.size, format, unpacked) {
            Ok((bytes, share)) => Some((bytes, Some(share))),
            Err(Refusal::TooLarge) => {
                self.refuse();
                None
            }
            Err(Refusal::Damaged) => None,
        }
    }

    /// Says that it is too large to be read.
    pub fn refuse(&self) {
        let megabytes = self.length() >> 20;
        let text = if self.is_packed() {
            let most = unpacking::MOST >> 20;
            format!(
                "section {} unpacks to {megabytes} MB and whatif unpacks {most} MB in all, so what is in it is missing; \
                 `objcopy --decompress-debug-sections` makes a file whose sections are read in parts",
                self.name
            )
        } else {
            format!(
                "section {} has {megabytes} MB, which is more than whatif reads, so what is in it is missing",
                self.name
            )
        };
        let _ = self.refused.set(text);
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
                elf::PT_LOAD if loads.len() == MOST_LOADS => {}
                elf::PT_LOAD => loads.push(Load {
                    offset: FileOffset(segment.p_offset(endian).into()),
                    address: Svma(segment.p_vaddr(endian).into()),
                    file_size: segment.p_filesz(endian).into(),
                    memory_size: segment.p_memsz(endian).into(),
                    executable: segment.p_flags(endian) & elf::PF_X != 0,
                }),
                elf::PT_INTERP if segment.p_filesz(endian).into() > LONGEST_PATH => {
                    interpreter = Some(Vec::new())
                }
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
            entry: header.e_entry(endian).into(),
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
    let in_sections = || {
        let sections =
            (header.shnum(endian, data).ok()? <= MOST_SECTIONS).then(|| header.sections(endian, data))?;
        let sections = sections.ok()?;
        let is_short = |section: &&H::SectionHeader| {
            section.sh_type(endian) == elf::SHT_NOTE && section.sh_size(endian).into() <= LONGEST_NOTES
        };
        let mut notes = sections.iter().filter(is_short).take(MOST_NOTES);
        notes.find_map(|section| section.notes(endian, data).ok()?.and_then(find))
    };
    in_sections().or_else(|| {
        let segments = header.program_headers(endian, data).ok()?;
        let is_short = |segment: &&H::ProgramHeader| {
            segment.p_type(endian) == elf::PT_NOTE && segment.p_filesz(endian).into() <= LONGEST_NOTES
        };
        let mut notes = segments.iter().filter(is_short).take(MOST_NOTES);
        notes.find_map(|segment| segment.notes(endian, data).ok()?.and_then(find))
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
    if header.shnum(endian, data)? > MOST_SECTIONS {
        return Ok(Vec::new());
    }
    let table = header.sections(endian, data)?;
    let with_content =
        table.iter().filter(|section| !matches!(section.sh_type(endian), elf::SHT_NOBITS | elf::SHT_NULL));
    let sections = with_content.filter_map(|section| {
        const LONGEST_NAME: usize = 128;
        let name =
            table.section_name(endian, section).ok().filter(|name| name.len() <= LONGEST_NAME)?.to_vec();
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

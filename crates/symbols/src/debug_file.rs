//! Where an image's debug information is, when it is not in the image itself.
//!
//! The places that gdb looks at ("Debugging Information in Separate Files"): by build ID and by
//! debug link below `/usr/lib/debug`, and debuginfod's local cache. Nothing is downloaded.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::elf::Elf;

const GLOBAL: &str = "/usr/lib/debug";

/// The image, its debug information, and the supplementary file that dwz(1) split off.
#[derive(Debug)]
pub(crate) struct Files {
    pub image: Elf,
    separate: Option<Elf>,
    pub supplementary: Option<Elf>,
}

impl Files {
    pub fn locate(image: Elf) -> Files {
        let separate = if has_debug_info(&image) { None } else { separate(&image) };
        let with_debug_info = separate.as_ref().unwrap_or(&image);
        let supplementary = supplementary(with_debug_info);
        Files { image, separate, supplementary }
    }

    /// The file that has debug information, if any has.
    pub fn debug(&self) -> Option<&Elf> {
        let candidates = [Some(&self.image), self.separate.as_ref()];
        candidates.into_iter().flatten().find(|elf| has_debug_info(elf))
    }

    /// The files that may have symbols, best first.
    pub fn with_symbols(&self) -> impl Iterator<Item = &Elf> {
        [Some(&self.image), self.separate.as_ref()].into_iter().flatten()
    }

    /// The DWARF package that lies beside one of the files (`program.dwp`).
    pub fn package(&self) -> Option<Elf> {
        self.with_symbols().find_map(|elf| {
            let mut path = elf.path.clone().into_os_string();
            path.push(".dwp");
            Elf::open(Path::new(&path)).ok()
        })
    }
}

fn has_debug_info(elf: &Elf) -> bool {
    elf.has_section(".debug_info") && elf.has_section(".debug_line")
}

fn separate(image: &Elf) -> Option<Elf> {
    let by_build_id = image
        .headers
        .build_id
        .as_deref()
        .and_then(|id| build_id_paths(id).find_map(|path| open_if(&path, |elf| is_build(elf, id))));
    by_build_id.or_else(|| by_debug_link(image))
}

fn open_if(path: &Path, wanted: impl Fn(&Elf) -> bool) -> Option<Elf> {
    Elf::open(path).ok().filter(wanted)
}

fn is_build(elf: &Elf, build_id: &[u8]) -> bool {
    elf.headers.build_id.as_deref() == Some(build_id)
}

fn build_id_paths(build_id: &[u8]) -> impl Iterator<Item = PathBuf> {
    let hex = hex(build_id);
    let (first, rest) = hex.split_at(hex.len().min(2));
    let global = PathBuf::from(format!("{GLOBAL}/.build-id/{first}/{rest}.debug"));
    let cache = std::env::var_os("DEBUGINFOD_CACHE_PATH").map(PathBuf::from).or_else(|| {
        let home = PathBuf::from(std::env::var_os("HOME")?);
        Some(home.join(".cache/debuginfod_client"))
    });
    let cached = cache.map(|cache| cache.join(&hex).join("debuginfo"));
    std::iter::once(global).chain(cached)
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// `.gnu_debuglink`: a file name, padded to four bytes, and the CRC-32 of the file.
fn by_debug_link(image: &Elf) -> Option<Elf> {
    let link = image.read_section(".gnu_debuglink")?;
    let length = link.iter().position(|byte| *byte == 0)?;
    let name = Path::new(OsStr::from_bytes(&link[..length]));
    let crc: [u8; 4] = link.get((length + 4) & !3..)?.get(..4)?.try_into().ok()?;
    let crc = if image.headers.little_endian { u32::from_le_bytes(crc) } else { u32::from_be_bytes(crc) };
    let image_path = image.path.canonicalize().ok()?;
    let directory = image_path.parent()?;
    let below_global = directory.strip_prefix("/").unwrap_or(directory);
    let places = [
        directory.join(name),
        directory.join(".debug").join(name),
        Path::new(GLOBAL).join(below_global).join(name),
    ];
    places.iter().filter(|place| **place != image_path).find_map(|place| {
        open_if(place, |elf| match &image.headers.build_id {
            // Saves reading all of the file.
            Some(id) if elf.headers.build_id.is_some() => is_build(elf, id),
            _ => crc32(elf.pieces()) == crc,
        })
    })
}

/// `.gnu_debugaltlink`: a file name and the build ID of the file.
fn supplementary(debug: &Elf) -> Option<Elf> {
    let link = debug.read_section(".gnu_debugaltlink")?;
    let length = link.iter().position(|byte| *byte == 0)?;
    let name = Path::new(OsStr::from_bytes(&link[..length]));
    let build_id = &link[length + 1..];
    let beside = debug.path.canonicalize().ok()?.parent()?.join(name);
    std::iter::once(beside)
        .chain(build_id_paths(build_id))
        .find_map(|path| open_if(&path, |elf| is_build(elf, build_id)))
}

/// The checksum of gzip and of debug links (polynomial 0xEDB88320, reflected).
fn crc32(pieces: impl Iterator<Item = Vec<u8>>) -> u32 {
    let table: [u32; 256] = std::array::from_fn(|byte| {
        (0..8).fold(byte as u32, |crc, _| (crc >> 1) ^ (0xEDB8_8320 & (crc & 1).wrapping_neg()))
    });
    let mut crc = !0;
    for piece in pieces {
        for byte in piece {
            crc = (crc >> 8) ^ table[((crc ^ u32::from(byte)) & 0xff) as usize];
        }
    }
    !crc
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksum_of_the_standard_example() {
        assert_eq!(crc32([b"1234".to_vec(), b"56789".to_vec()].into_iter()), 0xCBF4_3926);
    }

    #[test]
    fn build_ids_are_paths() {
        let first = build_id_paths(&[0xab, 0xcd, 0xef]).next().unwrap();
        assert_eq!(first, Path::new("/usr/lib/debug/.build-id/ab/cdef.debug"));
        assert!(build_id_paths(&[]).next().is_some());
    }
}

//! Where an image's debug information is, when it is not in the image itself.
//!
//! The places that gdb looks at ("Debugging Information in Separate Files"): by build ID and by
//! debug link below `/usr/lib/debug`, and debuginfod's local cache; its servers at last, if they may be asked ([`debuginfod`]).

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::debuginfod;
use crate::elf::Elf;

/// A path, and what comes with it.
const LONGEST_LINK: u64 = 8 << 10;
const GLOBAL: &str = "/usr/lib/debug";

/// The image, its debug information, and the supplementary file that dwz(1) split off.
#[derive(Debug)]
pub(crate) struct Files {
    pub image: Elf,
    /// Of this machine.
    separate: Option<Elf>,
    supplementary: Option<Elf>,
    /// What servers have sent, and its supplementary file: they are not asked before there is a question about names or lines.
    sent: OnceLock<(Option<Elf>, Option<Elf>)>,
}

impl Files {
    pub fn locate(image: Elf) -> Files {
        let separate = if has_debug_info(&image) { None } else { separate(&image) };
        let with_debug_info = separate.as_ref().unwrap_or(&image);
        let supplementary = supplementary(with_debug_info);
        Files { image, separate, supplementary, sent: OnceLock::new() }
    }

    /// The file beside the image, of this machine or of a server.
    fn separate(&self) -> Option<&Elf> {
        let of_servers = || self.sent().and_then(|(separate, _)| separate.as_ref());
        self.separate.as_ref().or_else(of_servers)
    }

    /// The file that dwz(1) split off.
    pub fn supplementary(&self) -> Option<&Elf> {
        let of_servers = || self.sent().and_then(|(_, supplementary)| supplementary.as_ref());
        self.supplementary.as_ref().or_else(of_servers)
    }

    fn sent(&self) -> Option<&(Option<Elf>, Option<Elf>)> {
        (self.separate.is_none() && !has_debug_info(&self.image)).then(|| {
            self.sent.get_or_init(|| {
                let sent = from_servers(&self.image);
                let supplementary = sent.as_ref().and_then(supplementary);
                (sent, supplementary)
            })
        })
    }

    /// The file that has debug information, if any has.
    pub fn debug(&self) -> Option<&Elf> {
        self.with_symbols().find(|elf| has_debug_info(elf))
    }

    /// The files that may have symbols, best first.
    pub fn with_symbols(&self) -> impl Iterator<Item = &Elf> {
        [Some(&self.image), self.separate()].into_iter().flatten()
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = &Elf> {
        [Some(&self.image), self.separate(), self.supplementary()].into_iter().flatten()
    }

    /// The DWARF package that lies next to one of the files (`program.dwp`).
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
        .and_then(|id| debug_files_of(id).find_map(|path| open_if(&path, |elf| is_build(elf, id))));
    by_build_id.or_else(|| by_debug_link(image))
}

fn from_servers(image: &Elf) -> Option<Elf> {
    let id = image.headers.build_id.as_deref()?;
    open_if(&debuginfod::fetch(&hex(id), &image.path)?, |elf| is_build(elf, id))
}

fn open_if(path: &Path, wanted: impl Fn(&Elf) -> bool) -> Option<Elf> {
    Elf::open(path).ok().filter(wanted)
}

fn is_build(elf: &Elf, build_id: &[u8]) -> bool {
    elf.headers.build_id.as_deref() == Some(build_id)
}

/// A place where a build may be kept apart from where it is run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DebugFilePath {
    /// The file.
    pub path: PathBuf,
    /// Whether it would be the program itself, rather than its debug information alone.
    pub has_code: bool,
}

/// Where a build is looked for by its ID, in hexadecimal, best first. None for what cannot be a build ID.
pub fn debug_file_paths(build_id: &str) -> Vec<DebugFilePath> {
    debug_file_paths_with(build_id, |name| std::env::var_os(name).map(PathBuf::from))
}

fn debug_file_paths_with(build_id: &str, variable: impl Fn(&str) -> Option<PathBuf>) -> Vec<DebugFilePath> {
    if build_id.len() < 3 || !build_id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Vec::new();
    }
    // debuginfod_find_debuginfo(3).
    let cache = variable("DEBUGINFOD_CACHE_PATH")
        .or_else(|| Some(variable("XDG_CACHE_HOME")?.join("debuginfod_client")))
        .or_else(|| Some(variable("HOME")?.join(".cache/debuginfod_client")));
    let (first, rest) = build_id.split_at(2);
    let of_machine = PathBuf::from(format!("{GLOBAL}/.build-id/{first}/{rest}.debug"));
    let cached = |name, has_code| {
        let path = cache.as_ref()?.join(build_id).join(name);
        Some(DebugFilePath { path, has_code })
    };
    let of_machine = Some(DebugFilePath { path: of_machine, has_code: false });
    [cached("executable", true), of_machine, cached("debuginfo", false)].into_iter().flatten().collect()
}

fn debug_files_of(build_id: &[u8]) -> impl Iterator<Item = PathBuf> {
    debug_file_paths(&hex(build_id)).into_iter().filter(|place| !place.has_code).map(|place| place.path)
}

/// Bytes as hexadecimal digits, two each.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from(b"0123456789abcdef"[usize::from(value)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// Where the debug file may lie that an image names (`.gnu_debuglink`), best first. gdb looks there too. None if the image
/// names none, or cannot be read.
pub fn linked_debug_files(image: &Path) -> Vec<PathBuf> {
    let linked = || {
        let image = Elf::open(image).ok()?;
        Some(linked_files(&image, &debug_link(&image)?.0))
    };
    linked().unwrap_or_default()
}

fn linked_files(image: &Elf, name: &Path) -> Vec<PathBuf> {
    let Ok(image) = image.path.canonicalize() else { return Vec::new() };
    let Some(folder) = image.parent() else { return Vec::new() };
    let below_global = folder.strip_prefix("/").unwrap_or(folder);
    [folder.to_owned(), folder.join(".debug"), Path::new(GLOBAL).join(below_global)]
        .into_iter()
        .map(|folder| folder.join(name))
        .filter(|place| *place != image)
        .collect()
}

/// `.gnu_debuglink`: a file name, padded to four bytes, and the CRC-32 of the file.
fn debug_link(image: &Elf) -> Option<(PathBuf, u32)> {
    let link = image.read_section_up_to(".gnu_debuglink", LONGEST_LINK)?;
    let length = link.iter().position(|byte| *byte == 0)?;
    let name = PathBuf::from(OsStr::from_bytes(&link[..length]));
    let crc: [u8; 4] = link.get((length + 4) & !3..)?.get(..4)?.try_into().ok()?;
    let crc = if image.headers.little_endian { u32::from_le_bytes(crc) } else { u32::from_be_bytes(crc) };
    Some((name, crc))
}

fn by_debug_link(image: &Elf) -> Option<Elf> {
    let (name, crc) = debug_link(image)?;
    linked_files(image, &name).iter().find_map(|place| {
        open_if(place, |elf| match &image.headers.build_id {
            // Saves reading all of the file.
            Some(id) if elf.headers.build_id.is_some() => is_build(elf, id),
            _ => crc32(elf.pieces()) == crc,
        })
    })
}

/// `.gnu_debugaltlink`: a file name and the build ID of the file.
fn supplementary(debug: &Elf) -> Option<Elf> {
    let link = debug.read_section_up_to(".gnu_debugaltlink", LONGEST_LINK)?;
    let length = link.iter().position(|byte| *byte == 0)?;
    let name = Path::new(OsStr::from_bytes(&link[..length]));
    let build_id = &link[length + 1..];
    let beside = debug.path.canonicalize().ok()?.parent()?.join(name);
    std::iter::once(beside)
        .chain(debug_files_of(build_id))
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
    fn builds_are_looked_for_in_order() {
        let of = |wanted: &'static [(&str, &str)]| {
            let variable = |name: &str| {
                let (_, value) = wanted.iter().find(|(known, _)| *known == name)?;
                Some(PathBuf::from(value))
            };
            let shown = |place: DebugFilePath| format!("{} {}", place.path.display(), place.has_code);
            debug_file_paths_with("abcdef", variable).into_iter().map(shown).collect::<Vec<_>>()
        };
        let global = "/usr/lib/debug/.build-id/ab/cdef.debug false";
        assert_eq!(of(&[]), [global]);
        for (variables, cache) in [
            (&[("HOME", "/h")][..], "/h/.cache/debuginfod_client"),
            (&[("HOME", "/h"), ("XDG_CACHE_HOME", "/x")], "/x/debuginfod_client"),
            (&[("XDG_CACHE_HOME", "/x"), ("DEBUGINFOD_CACHE_PATH", "/d")], "/d"),
        ] {
            let [executable, debug] = [("executable", true), ("debuginfo", false)]
                .map(|(name, code)| format!("{cache}/abcdef/{name} {code}"));
            assert_eq!(of(variables), [executable, global.to_owned(), debug]);
        }
        for id in ["", "ab", "../../etc/passwd"] {
            assert!(debug_file_paths(id).is_empty());
        }
    }
}
